import re

import pytest

from trunkline.model.calls import Operation as Op
from trunkline.model.errors import RouteNotFound, VersionNotSupported, WrongHttpMethod
from trunkline.protocol.rest_routes import RESERVED_TENANTS, Route, match
from trunkline.protocol.versions import Version

# Transcribed from the tables of both specifications.
PATHS = [
    ("POST", "/message:send", Op.SEND_MESSAGE, "", ""),
    ("POST", "/message:stream", Op.SEND_STREAMING_MESSAGE, "", ""),
    ("GET", "/tasks/t1", Op.GET_TASK, "t1", ""),
    ("GET", "/tasks", Op.LIST_TASKS, "", ""),
    ("POST", "/tasks/t1:cancel", Op.CANCEL_TASK, "t1", ""),
    ("POST", "/tasks/t1:subscribe", Op.SUBSCRIBE_TO_TASK, "t1", ""),
    ("GET", "/tasks/t1:subscribe", Op.SUBSCRIBE_TO_TASK, "t1", ""),
    ("POST", "/tasks/t1/pushNotificationConfigs", Op.CREATE_PUSH_CONFIG, "t1", ""),
    ("GET", "/tasks/t1/pushNotificationConfigs", Op.LIST_PUSH_CONFIGS, "t1", ""),
    ("GET", "/tasks/t1/pushNotificationConfigs/c1", Op.GET_PUSH_CONFIG, "t1", "c1"),
    ("DELETE", "/tasks/t1/pushNotificationConfigs/c1", Op.DELETE_PUSH_CONFIG, "t1", "c1"),
]
V1_ONLY = [("GET", "/extendedAgentCard", Op.GET_EXTENDED_AGENT_CARD, "", "")]
V03_ONLY = [("GET", "/card", Op.GET_EXTENDED_AGENT_CARD, "", "")]


@pytest.mark.parametrize("tenant", ["", "acme", "a b:c", "ünïcode"])
@pytest.mark.parametrize("stated", [None, Version.V1_0])
@pytest.mark.parametrize(("method", "path", "operation", "task", "config"), PATHS + V1_ONLY)
def test_paths_of_1_0_with_and_without_a_tenant(
    tenant: str,
    stated: Version | None,
    method: str,
    path: str,
    operation: Op,
    task: str,
    config: str,
) -> None:
    full = f"/{tenant}{path}" if tenant else path
    route = match(method, full, stated=stated)
    assert route == Route(
        operation=operation,
        version=Version.V1_0,
        tenant=tenant,
        task_id=task,
        config_id=config,
        allow=route.allow,
    )
    assert method in route.allow.split(", ")


@pytest.mark.parametrize("stated", [None, Version.V0_3])
@pytest.mark.parametrize(("method", "path", "operation", "task", "config"), PATHS + V03_ONLY)
def test_paths_of_0_3(
    stated: Version | None, method: str, path: str, operation: Op, task: str, config: str
) -> None:
    route = match(method, f"/v1{path}", stated=stated)
    assert (route.operation, route.version) == (operation, Version.V0_3)
    assert (route.tenant, route.task_id, route.config_id) == ("", task, config)


@pytest.mark.parametrize(("method", "path", "operation", "task", "config"), PATHS)
def test_a_stated_version_that_is_not_of_the_path_is_refused_with_the_remedy(
    method: str, path: str, operation: Op, task: str, config: str
) -> None:
    with pytest.raises(RouteNotFound) as refusal:
        match(method, path, stated=Version.V0_3)
    assert f"call /v1{path}," in refusal.value.message
    assert "A2A-Version: 1.0" in refusal.value.message
    with pytest.raises(RouteNotFound) as refusal:
        match(method, f"/v1{path}", stated=Version.V1_0)
    assert f"call {path}," in refusal.value.message
    assert "A2A-Version: 0.3" in refusal.value.message


def test_the_remedy_knows_that_the_card_has_another_name() -> None:
    with pytest.raises(RouteNotFound, match="call /v1/card,"):
        match("GET", "/x/extendedAgentCard", stated=Version.V0_3)
    with pytest.raises(RouteNotFound, match="call /extendedAgentCard,"):
        match("GET", "/v1/card", stated=Version.V1_0)


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/message:send", "POST"),
        ("/tasks", "GET"),
        ("/tasks/t", "GET"),
        ("/tasks/t:cancel", "POST"),
        ("/tasks/t:subscribe", "GET, POST"),
        ("/tasks/t/pushNotificationConfigs", "GET, POST"),
        ("/tasks/t/pushNotificationConfigs/c", "GET, DELETE"),
        ("/acme/tasks", "GET"),
        ("/v1/card", "GET"),
        ("/v1/message:send", "POST"),
    ],
)
def test_the_wrong_verb_tells_the_right_ones(path: str, allow: str) -> None:
    with pytest.raises(WrongHttpMethod) as refusal:
        match("PUT", path, stated=None)
    assert refusal.value.allow == allow


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/x",
        "/tasks/",
        "/tasks/:cancel",
        "/tasks/:subscribe",
        "/tasks/t/x",
        "/tasks/t/pushNotificationConfigs/",
        "/tasks/t/pushNotificationConfigs/c/d",
        "/acme/x",
        "/a/b/tasks",
        "//tasks",
        "/v1",
        "/v1/extendedAgentCard",
        "/v1/acme/tasks",
        "/card",
        "/message:sendx",
    ],
)
def test_other_paths_are_not_found(path: str) -> None:
    with pytest.raises(RouteNotFound):
        match("GET", path, stated=None)


def test_an_id_may_hold_colons_and_spaces() -> None:
    assert match("GET", "/tasks/urn:a b:1", stated=None).task_id == "urn:a b:1"
    assert match("POST", "/tasks/urn:a:1:cancel", stated=None).task_id == "urn:a:1"


@pytest.mark.parametrize("name", sorted(RESERVED_TENANTS - {"v1", "tasks"}))
def test_a_reserved_name_is_refused_as_a_tenant(name: str) -> None:
    with pytest.raises(RouteNotFound, match="reserved name and cannot be a tenant"):
        match("GET", f"/{name}/tasks", stated=None)


def test_tasks_as_a_tenant_is_refused_where_it_hides_no_task() -> None:
    with pytest.raises(RouteNotFound, match='"tasks" is a reserved name'):
        match("POST", "/tasks/message:send", stated=None)
    with pytest.raises(RouteNotFound, match='"tasks" is a reserved name'):
        match("GET", "/tasks/tasks/t", stated=None)
    assert match("GET", "/tasks/tasks", stated=None).task_id == "tasks"


def test_a_long_path_is_cut_in_the_answer() -> None:
    with pytest.raises(RouteNotFound) as refusal:
        match("GET", "/" + "x" * 10_000, stated=None)
    assert len(refusal.value.message) < 200


@pytest.mark.parametrize(
    ("path", "only", "remedy"),
    [
        ("/v1/message:send", Version.V1_0, "/message:send"),
        ("/v1/card", Version.V1_0, "/extendedAgentCard"),
        ("/message:send", Version.V0_3, "/v1/message:send"),
        ("/extendedAgentCard", Version.V0_3, "/v1/card"),
    ],
)
def test_an_agent_of_one_version_has_the_paths_of_that_one(
    path: str, only: Version, remedy: str
) -> None:
    with pytest.raises(RouteNotFound, match=f"speaks {only} alone: call {remedy}$"):
        match("POST", path, stated=only, only=only)


@pytest.mark.parametrize(("method", "path", "operation", "task", "config"), PATHS)
def test_an_agent_of_1_0_alone_does_not_support_0_3(
    method: str, path: str, operation: Op, task: str, config: str
) -> None:
    """A2A 1.0, 3.6.2: a request that states no version is of 0.3."""
    with pytest.raises(VersionNotSupported, match=re.escape(f"and call {path}")):
        match(method, f"/v1{path}", stated=None, only=Version.V1_0, unstated=Version.V1_0)
    route = match(method, path, stated=None, only=Version.V1_0, unstated=Version.V1_0)
    assert route.version is Version.V1_0


@pytest.mark.parametrize(("method", "path", "operation", "task", "config"), PATHS)
def test_the_form_of_a_path_may_not_count(
    method: str, path: str, operation: Op, task: str, config: str
) -> None:
    with pytest.raises(RouteNotFound, match=r"has no A2A-Version, which means 0\.3"):
        match(method, path, stated=None, unstated=Version.V0_3)
    old = match(method, f"/v1{path}", stated=None, unstated=Version.V0_3)
    new = match(method, path, stated=Version.V1_0, unstated=Version.V0_3)
    assert (old.operation, new.operation) == (operation, operation)
    with pytest.raises(VersionNotSupported):
        match(method, path, stated=None, only=Version.V1_0, unstated=Version.V0_3)

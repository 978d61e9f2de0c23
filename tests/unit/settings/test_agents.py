from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import agent, made, only, refused

from trunkline.config.urls import is_absolute_uri


def one(**keys: Any) -> dict[str, Any]:
    return {"acme/echo": agent(**keys)}


@pytest.mark.parametrize("handle", ["echo", "acme/Echo", "acme/", "acme/a/b", "-a/b", "a_b/c", ""])
def test_a_handle_is_owner_and_slug(handle: str) -> None:
    problem = only(agents={handle: agent()})
    assert problem.path == ("agents", handle)
    assert problem.what.startswith("expected a handle owner/slug")
    assert problem.remedy == 'Example: [agents."acme/rust-expert"].'


def test_there_must_be_an_agent() -> None:
    problem = only(agents={})
    assert problem.what == "no agent is configured"
    assert '[agents."demo/echo"]' in problem.remedy


def test_one_default_at_most() -> None:
    problem = only(agents={"a/b": agent(default=True), "a/c": agent(default=True)})
    assert str(problem) == (
        'agents."a/c".default = true: "a/b" is the default agent already. '
        "Keep default = true in one agent only."
    )


def test_a_sole_agent_is_the_default() -> None:
    assert made().default_agent() == "acme/echo"
    assert made(agents={"a/b": agent(), "a/c": agent()}).default_agent() == ""
    two = made(agents={"a/b": agent(), "a/c": agent(default=True)})
    assert two.default_agent() == "a/c"


def test_only_python_agents_have_a_name_of_their_own(tmp_path: Path) -> None:
    assert only(agents=one(name="")).key == 'agents."acme/echo".name'
    file = tmp_path / "a.py"
    file.touch()
    backend = {"kind": "python", "target": str(file)}
    assert made(agents={"a/b": {"backend": backend}}).agents["a/b"].name == ""


@pytest.mark.parametrize(
    ("keys", "key", "what"),
    [
        ({"skills": [{"id": "a"}, {"id": "a"}]}, "skills[1].id", "another skill of the agent"),
        ({"skills": [{"id": ""}]}, "skills[0].id", "expected a text of length >= 1"),
        ({"extensions": [{"uri": "cite"}]}, "extensions[0].uri", "expected an absolute URI"),
        (
            {"extensions": [{"uri": "urn:a"}, {"uri": "urn:a"}]},
            "extensions[1].uri",
            "the agent declares this extension twice",
        ),
        ({"input_modes": ["text"]}, "input_modes[0]", "expected a media type"),
        ({"skills": [{"id": "a", "output_modes": ["x"]}]}, "skills[0].output_modes[0]", "expected"),
        ({"documentation_url": "x"}, "documentation_url", "expected an absolute http or https"),
        ({"icon_url": "data:x"}, "icon_url", "expected an absolute http or https URL"),
        ({"provider": {"organization": "A", "url": ""}}, "provider.url", "expected an absolute"),
        ({"tenants": ["v1"]}, "tenants[0]", "is the name of a route"),
        ({"tenants": ["tasks"]}, "tenants[0]", "is the name of a route"),
        ({"tenants": ["extendedAgentCard"]}, "tenants[0]", "is the name of a route"),
        ({"tenants": ["message:send"]}, "tenants[0]", "is the name of a route"),
        ({"tenants": ["a/b"]}, "tenants[0]", "cannot be a step of a path"),
        ({"tenants": [""]}, "tenants[0]", "cannot be a step of a path"),
        ({"tenants": ["a", "a"]}, "tenants[1]", "is listed twice"),
        ({"max_queue_per_context": 0}, "max_queue_per_context", "expected a whole number >= 1"),
        ({"task_deadline_s": 0}, "task_deadline_s", "expected a number > 0"),
        ({"default_version": "2.0"}, "default_version", 'expected one of "1.0", "0.3"'),
        (
            {"extended_card": {"skills": [{"id": "a"}, {"id": "a"}]}},
            "extended_card.skills[1].id",
            "another skill of the agent",
        ),
        ({"extended_card": {"documentation_url": "x"}}, "extended_card.documentation_url", "exp"),
    ],
)
def test_a_broken_rule_names_the_key(keys: dict[str, Any], key: str, what: str) -> None:
    problem = only(agents=one(**keys))
    assert problem.key == f'agents."acme/echo".{key}'
    assert problem.what.startswith(what)
    assert problem.value
    assert problem.remedy


@pytest.mark.parametrize("target", ["", "agents", "a.py:b", "pkg.mod:attr", "pkg mod:a", "a:1"])
def test_a_target_is_a_file_or_a_module(target: str, tmp_path: Path) -> None:
    backend = {"kind": "python", "target": target}
    if target in ("agents", "pkg.mod:attr"):
        made(agents={"a/b": {"backend": backend}})
        return
    problem = only(agents={"a/b": {"backend": backend}})
    assert problem.key == 'agents."a/b".backend.target'
    assert problem.what == (
        "no such file"
        if target == "a.py:b"
        else "expected file.py, file.py:attribute, module or module:attribute"
    )


def test_a_handle_for_many_needs_a_python_backend_and_no_name(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.touch()
    backend = {"kind": "python", "target": str(file)}
    made(agents={"a/*": {"backend": backend}})
    assert "cannot have a name" in only(agents={"a/*": {"name": "x", "backend": backend}}).what
    found = refused(None, agents={"a/*": agent()}).problems
    assert "only a python backend" in found[-1].what


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("rpc", "expected a path that starts with /"),
        ("/a b", "expected a plain path"),
        ("/a//b", "expected a plain path"),
        ("/a/../b", "expected a plain path"),
        ("/a?b", "expected a plain path"),
        ("/healthz", "is an address of the gateway itself"),
        ("/mcp", "is an address of the gateway itself"),
        ("/metrics/", "is an address of the gateway itself"),
        ("/api/a2a/v1/agents/x/y", "is an address of the gateway itself"),
        ("/api", "is an address of the gateway itself"),
    ],
)
@pytest.mark.parametrize("key", ["agent_card_path", "jsonrpc_path", "rest_path"])
def test_a_path_is_plain_and_free(key: str, path: str, what: str) -> None:
    problem = only(agents=one(**{key: path}))
    assert str(problem).startswith(f'agents."acme/echo".{key} = "{path}": {what}.')
    assert problem.remedy


@pytest.mark.parametrize("path", ["/", "/rpc", "/a2a/jsonrpc/", "/x/y.json", "/~me/a:b"])
def test_a_path_that_is_fine(path: str) -> None:
    assert made(agents=one(jsonrpc_path=path)).agents["acme/echo"].jsonrpc_path == path


def test_two_agents_cannot_share_a_path() -> None:
    problem = only(agents={"a/b": agent(jsonrpc_path="/rpc"), "a/c": agent(jsonrpc_path="/rpc/")})
    assert problem.key == 'agents."a/c".jsonrpc_path'
    assert problem.what == 'is jsonrpc_path of "a/b" already'
    assert "for example jsonrpc_path" in problem.remedy


def test_the_standard_address_belongs_to_the_default_agent() -> None:
    problem = only(agents={"a/b": agent(jsonrpc_path="/a2a/jsonrpc"), "a/c": agent(default=True)})
    assert problem.key == 'agents."a/b".jsonrpc_path'


@pytest.mark.parametrize(
    ("uri", "fits"),
    [
        ("https://x.example/v1", True),
        ("urn:a:b", True),
        ("x", False),
        ("a b:c", False),
        (":x", False),
        ("x:", False),
        ("1a:b", False),
        ("urn:é", False),
    ],
)
def test_extension_uris_are_absolute(uri: str, fits: bool) -> None:
    assert is_absolute_uri(uri) is fits


def test_an_account_belongs_to_one_agent() -> None:
    own = agent(account_id="support")
    problem = only(agents={"acme/one": own, "acme/two": own})
    assert problem.path == ("agents", "acme/two", "account_id")
    assert problem.what == '"acme/one" has this account already'

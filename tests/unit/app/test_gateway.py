import json
import logging
import sys
from typing import Any

import pytest
from tests.unit.server.requests import Answer, asgi_call, body
from tests.unit.settings.documents import KEY, agent

from trunkline.app.gateway import Gateway, build, create_app
from trunkline.protocol.versions import Version
from trunkline.runtime.agents import PublishedAgent
from trunkline.server.logs import extras
from trunkline.settings import Settings, from_document

OWN = "/api/a2a/v1/agents/acme/echo"


def settings(agents: dict[str, Any] | None = None, **sections: Any) -> Settings:
    return from_document(
        {"agents": agents or {"acme/echo": agent()}, "store": {"kind": "memory"}, **sections},
        environment={},
    )


def gateway(agents: dict[str, Any] | None = None, **sections: Any) -> Gateway:
    return build(settings(agents, **sections), base_url="http://h")


async def get(built: Gateway, path: str) -> Answer:
    sent = Answer()
    await built.application(*asgi_call(body(b""), method="GET", path=path), sent)
    return sent


def jsonrpc_url(card: bytes) -> str:
    url = json.loads(card)["supportedInterfaces"][0]["url"]
    assert isinstance(url, str)
    return url


async def test_a_sole_agent_is_at_the_root_and_under_its_handle() -> None:
    built = gateway()
    root = await get(built, "/.well-known/agent-card.json")
    assert jsonrpc_url(root.body) == "http://h/a2a/jsonrpc"
    for path in (f"{OWN}/agent-card.json", f"{OWN}/.well-known/agent-card.json"):
        assert jsonrpc_url((await get(built, path)).body) == f"http://h{OWN}"


async def test_a_path_of_its_own_is_what_the_card_of_the_agent_says() -> None:
    agents = {"acme/echo": agent(jsonrpc_path="/rpc"), "acme/other": agent()}
    found = await get(gateway(agents), f"{OWN}/agent-card.json")
    assert jsonrpc_url(found.body) == "http://h/rpc"


@pytest.mark.parametrize("path", ["/nothing", "//", "/a/" * 20_000])
async def test_other_paths_say_where_the_cards_are(path: str) -> None:
    sent = await get(gateway(), path)
    assert sent.status == 404
    assert b"/.well-known/agent-card.json" in sent.body


@pytest.mark.parametrize("path", ["/rest", "/rest/", "/"])
async def test_the_rest_binding_is_served_at_a_path_of_its_own(path: str) -> None:
    agents = {"acme/echo": agent(rest_path=path)}
    below = "/rest/tasks/x" if "rest" in path else "/tasks/x"
    sent = await get(gateway(agents), below)
    assert sent.status == 404
    assert b"TASK_NOT_FOUND" in sent.body


async def test_the_gateways_own_pages_are_served() -> None:
    assert (await get(gateway(), "/healthz")).body == b"ok\n"
    assert (await get(gateway(), "/readyz")).status == 503


async def test_metrics_tell_what_the_runtime_does() -> None:
    sent = await get(gateway(), "/metrics")
    for name in (
        "trunkline_turns_running",
        "trunkline_turns_waiting",
        "trunkline_tasks_in_memory",
        "trunkline_streams_open",
        "trunkline_journal_entries_total",
    ):
        assert f"\n{name} 0.0\n".encode() in sent.body


def test_an_endpoint_has_what_the_settings_say() -> None:
    keys = {
        "tenants": ["a"],
        "streaming": False,
        "default_version": "0.3",
        "extended_card": {"name": "More"},
        "max_concurrency": 3,
        "input_modes": ["text/plain"],
        "skills": [{"id": "see", "input_modes": ["image/png", "text/plain"]}],
    }
    built = gateway({"acme/echo": agent(**keys)}, auth={"keys": {"alice": {"key": KEY}}})
    for endpoint in built.endpoints:
        assert endpoint.tenants == {"a"}
        assert endpoint.agent.profile.streaming is False
        assert endpoint.dialects.default is Version.V0_3
        assert endpoint.extended_card is not None
        assert endpoint.agent.profile.max_concurrency == 3
        # What any of its skills takes is let in.
        assert isinstance(endpoint.agent, PublishedAgent)
        assert endpoint.agent.input_modes == ("text/plain", "image/png")
    assert built.endpoints[0].agent is built.endpoints[1].agent


def test_an_application_for_another_server_advertises_its_public_url() -> None:
    app = create_app(settings(server={"public_url": "http://localhost:9/base/"}))
    cards = {endpoint.card.supported_interfaces[0].url for endpoint in app._card_paths.values()}
    assert "http://localhost:9/base/a2a/jsonrpc" in cards


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/agent-card.json",
        "/a2a/jsonrpc",
        "/a2a/rest/tasks",
        OWN,
        f"{OWN}/agent-card.json",
        f"{OWN}/message:send",
    ],
)
async def test_an_agent_that_is_out_of_service_answers_503_with_the_reason(path: str) -> None:
    agents = {"acme/echo": agent(unavailable="Moving house", default=True), "acme/b": agent()}
    built = gateway(agents)
    sent = await get(built, path)
    assert sent.status == 503
    assert json.loads(sent.body)["error"]["message"] == "Moving house"
    assert [*built.runtimes] != []
    assert {endpoint.agent.handle for endpoint in built.endpoints} == {"acme/b"}


async def test_others_are_served_beside_one_that_is_not() -> None:
    agents = {"acme/echo": agent(unavailable="Moving house"), "acme/b": agent()}
    sent = await get(gateway(agents), "/api/a2a/v1/agents/acme/b/agent-card.json")
    assert sent.status == 200


async def test_nothing_is_loaded_or_opened_for_an_agent_that_is_out_of_service() -> None:
    code = {"kind": "python", "target": "there.is.no.such:module"}
    built = gateway({"acme/echo": agent(unavailable="Moving house", backend=code)})
    assert [*built.runtimes] == []
    assert (await get(built, "/healthz")).status == 200


@pytest.mark.parametrize("kind", ["command", "acp"])
async def test_a_program_that_is_missing_is_warned_of_at_the_start(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    agents = {
        f"acme/{name}": agent(backend={"kind": kind, "command": [program, "--stdio"]})
        for name, program in (("there", sys.executable), ("missing", "no-such-program"))
    }
    runtimes = gateway(agents).runtimes
    await runtimes.open()
    await runtimes.close()
    [warning] = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert extras(warning)["agent"] == "acme/missing"
    assert "there is no program no-such-program that can be run. Install it" in warning.message

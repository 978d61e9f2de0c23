"""Agents call targets of the configuration: agents of another gateway, over loopback."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.bindings.asgi import Asgi, Http
from tests.routing import gates
from tests.routing.world import ALICE, until
from tests.sockets.peer import serving

from trunkline.app.gateway import Gateway, build
from trunkline.app.reload import Reload
from trunkline.model.calls import Caller, SendMessageConfiguration, SendMessageRequest
from trunkline.model.errors import ConfigError
from trunkline.model.principal import Grant, Principal
from trunkline.model.values import Message, Part, Role, Task
from trunkline.ports.session_entries import SessionRef, latest_entries
from trunkline.ports.store import Scope
from trunkline.settings import Settings, from_document

LOCAL = """\
import json
from trunkline import agent
from tests.routing import gates


@agent
async def editor(turn):
    asked = json.loads(turn.text)
    name, arguments = asked.pop("tool", "call"), asked
    return {"output": await getattr(turn, name)(**arguments)}


@agent
async def writer(turn):
    return "a poem"


@agent
async def poet(turn):
    (payload,) = turn.data
    proposal = payload["input"].get("originalProposal", "")
    return {"output": proposal + "Io", "confidence": 0.9 if proposal else 0.5}


@agent
async def judge(turn):
    (payload,) = turn.data
    return {"output": payload["input"]["finalProposal"], "confidence": 0.9}
"""
REMOTE = """\
import json
from trunkline import agent
from tests.routing import gates


@agent
async def helper(turn):
    gates.ASKED.append((turn.text, turn.message.metadata))
    if turn.text == "wait":
        yield "I am "
        await gates.go_on.wait()
        yield "here"
    elif turn.text == "ask":
        yield turn.ask("Which moon?")
    elif turn.text == "fail":
        yield turn.fail("no ink")
    else:
        yield json.dumps({"output": "about " + turn.text, "confidence": 0.8, "caveats": "far"})


@agent
async def critic(turn):
    given = json.loads(turn.text)
    gates.ASKED.append(given)
    return {"flaws": ["too hot, from the " + given["perspective"]], "confidence": 0.4}
"""
KEY = "remote-key-0123456789"


@pytest.fixture(autouse=True)
def _anew() -> None:
    gates.reset()


def agents(folder: Path, code: str, *slugs: str, **more: Any) -> dict[str, Any]:
    target = folder / f"{slugs[0]}_code.py"
    target.write_text(code)
    return {
        f"acme/{slug}": {
            "name": slug,
            "backend": {"kind": "python", "target": f"{target}:{slug}"},
            **(more if slug in ("editor", "writer") else {}),
        }
        for slug in slugs
    }


@asynccontextmanager
async def remote_gateway(folder: Path) -> AsyncIterator[str]:
    """A gateway that needs a key. Returns its address."""
    made: list[Gateway] = []

    async def serve(*exchange: Any) -> Any:
        return await made[0].application.serve(*exchange)

    async with serving(serve) as server:
        url = f"http://127.0.0.1:{server.port}"
        document = {
            "store": {"kind": "memory"},
            "auth": {"keys": {"front": {"key": KEY}}},
            "agents": agents(folder, REMOTE, "helper", "critic"),
        }
        made.append(build(from_document(document, environment={}), base_url=url))
        await made[0].open()
        try:
            yield url
        finally:
            await made[0].close()


def document(folder: Path, url: str, **more: Any) -> dict[str, Any]:
    """The configuration of the local gateway, with the agents of the remote one as targets."""
    may_call = more.pop("may_call", ["*", "target:*"])
    return {
        "store": {"kind": "sqlite", "path": str(folder / "local.db")},
        "agents": agents(folder, LOCAL, "editor", "writer", "poet", "judge", may_call=may_call),
        "targets": {
            slug: {
                "base_url": f"{url}/api/a2a/v1/agents/acme/{slug}/agent-card.json",
                "credentials": {"kind": "bearer", "token": KEY},
            }
            for slug in ("helper", "critic")
        },
        **more,
    }


class Local:
    def __init__(self, document: dict[str, Any], base_url: str) -> None:
        self.document = document
        self.gateway = build(self.load()[0], base_url=base_url)
        self._messages = 0

    def load(self) -> tuple[Settings, tuple[str, ...]]:
        return from_document(self.document, environment={}), ()

    async def use(
        self,
        tool: str = "call",
        /,
        *,
        slug: str = "editor",
        by: Principal = ALICE,
        **arguments: Any,
    ) -> Any:
        """What the editor gets when it uses the tool."""
        task = await self.send(slug, json.dumps({"tool": tool, **arguments}), by=by)
        part = task.artifacts[0].parts[0]
        assert isinstance(part.data, dict), task.status
        return part.data["output"]

    async def send(self, slug: str, text: str, *, by: Principal = ALICE) -> Task:
        found = self.gateway.directory.callee(f"acme/{slug}")
        assert found is not None
        self._messages += 1
        request = SendMessageRequest(
            message=Message(
                message_id=f"m-{self._messages}",
                context_id="c1",
                role=Role.USER,
                parts=(Part(text=text),),
            ),
            configuration=SendMessageConfiguration(),
        )
        answer = await found.service.send(found.agent, Caller(principal=by), request)
        return msgspec.json.decode(answer.task, type=Task)  # type: ignore[union-attr]

    async def entries(self, slug: str = "editor") -> list[Any]:
        main = await self.gateway.runtimes.main_store()
        session = SessionRef(Scope(f"acme/{slug}", "", ALICE.id), "c1")
        found = await latest_entries(main, session, limit=100)
        return [json.loads(entry.parts[0].text or "") for _, entry in found]


@asynccontextmanager
async def local(
    document: dict[str, Any], *, base_url: str = "http://127.0.0.1:1"
) -> AsyncIterator[Local]:
    made = Local(document, base_url)
    await made.gateway.open()
    try:
        yield made
    finally:
        await made.gateway.drain(grace_s=0)
        await made.gateway.close()


async def test_a_target_is_called_like_an_agent(tmp_path: Path) -> None:
    async with remote_gateway(tmp_path) as url, local(document(tmp_path, url)) as w:
        for name in ("helper", "target:helper", "HELPER"):
            answer = await w.use(agent=name, input="the moon")
            assert (answer["status"], answer["output"]) == ("completed", "about the moon")
            assert (answer["confidence"], answer["caveats"]) == (0.8, ["far"])
            text, metadata = gates.ASKED[-1]
            assert text == "the moon"
            invocation = metadata["skill_invocation"]
            assert invocation["correlationId"] == answer["correlationId"]
            # The session of the caller is no business of others.
            assert {*invocation} == {"kind", "skill", "mode", "correlationId", "timeout"}
        failed = await w.use(agent="helper", input="fail")
        assert failed["error"] == {"code": "failed", "message": "no ink"}


async def test_a_question_of_a_target_is_answered_by_a_call_with_its_task(tmp_path: Path) -> None:
    async with remote_gateway(tmp_path) as url, local(document(tmp_path, url)) as w:
        asked = await w.use(agent="helper", input="ask")
        assert (asked["status"], asked["question"]) == ("input_required", "Which moon?")
        answer = await w.use(agent="helper", input="Io", task_id=asked["taskId"])
        assert answer["output"] == "about Io"


async def test_a_call_of_a_target_is_followed_after_a_restart(tmp_path: Path) -> None:
    async with remote_gateway(tmp_path) as url:
        async with local(document(tmp_path, url)) as w:
            pending = await w.use(agent="helper", input="wait", wait=False)

            async def is_under_way() -> bool:
                return bool(gates.ASKED)

            await until(is_under_way)
        async with local(document(tmp_path, url)) as w:
            assert not await w.entries()
            gates.go_on.set()
            (entry,) = await until(w.entries)
            assert entry["correlationId"] == pending["correlationId"]
            assert (entry["status"], entry["output"]) == ("completed", "I am here")
        assert len(gates.ASKED) == 1


async def test_a_target_that_takes_too_long_is_a_timeout_and_its_answer_is_late(
    tmp_path: Path,
) -> None:
    async with remote_gateway(tmp_path) as url, local(document(tmp_path, url)) as w:
        answer = await w.use(agent="helper", input="wait", timeout_s=0.3)
        assert answer["kind"] == "skill_timeout"
        gates.go_on.set()

        async def late() -> Any:
            return (await w.use("poll", task_id=answer["taskId"])).get("late")

        assert (await until(late))["output"] == "I am here"


@pytest.mark.parametrize("may_call", [["*"], ["acme/*"], ["target:critic"], []])
async def test_only_a_pattern_of_targets_allows_a_target(
    tmp_path: Path, may_call: list[str]
) -> None:
    async with (
        remote_gateway(tmp_path) as url,
        local(document(tmp_path, url, may_call=may_call)) as w,
    ):
        answer = await w.use(agent="helper", input="the moon")
        assert answer["status"] == "forbidden"
        assert not gates.ASKED


async def test_a_caller_needs_no_grant_for_a_target_but_one_for_the_agent(
    tmp_path: Path,
) -> None:
    erin = Principal(id="erin", grants=(Grant("acme/editor"),))
    async with remote_gateway(tmp_path) as url, local(document(tmp_path, url)) as w:
        answer = await w.use(agent="helper", input="the moon", by=erin)
        assert answer["output"] == "about the moon"
        polled = await w.use("poll", task_id=answer["taskId"], by=erin)
        assert polled["status"] == "completed"


async def test_a_target_that_is_not_there_is_an_error_without_its_address(tmp_path: Path) -> None:
    gone = document(tmp_path, "http://127.0.0.1:9")
    async with local(gone) as w:
        answer = await w.use(agent="helper", input="the moon")
        assert answer["status"] == "error"
        assert "127.0.0.1" not in str(answer)
        assert KEY not in str(answer)


async def test_a_credential_that_is_refused_is_an_error_and_stays_secret(tmp_path: Path) -> None:
    async with remote_gateway(tmp_path) as url:
        asked = document(tmp_path, url)
        wrong = "wrong-key-0123456789"
        asked["targets"]["helper"]["credentials"]["token"] = wrong
        async with local(asked) as w:
            answer = await w.use(agent="helper", input="the moon")
            assert answer["status"] == "error"
            assert answer["error"]["message"].endswith("does not let the gateway in.")
            assert wrong not in str(answer)


async def test_a_critic_of_a_debate_may_be_elsewhere(tmp_path: Path) -> None:
    async with remote_gateway(tmp_path) as url, local(document(tmp_path, url)) as w:
        result = await w.use(
            "debate",
            topic="Which moon?",
            proposer="acme/poet",
            critics=[{"agent": "critic", "perspective": "heat"}],
            resolver="acme/judge",
        )
        assert (result["status"], result["conclusion"]) == ("resolved", "IoIo")
        ((critique,),) = [held["critiques"] for held in result["rounds"]]
        assert critique["agent"] == "target:critic"
        assert critique["flaws"] == ["too hot, from the heat"]
        assert gates.ASKED == [
            {"topic": "Which moon?", "proposal": "Io", "perspective": "heat", "round": 1}
        ]


@pytest.mark.parametrize("call", ["helper", "target:helper"])
async def test_a_route_may_lead_to_a_target(tmp_path: Path, call: str) -> None:
    route = {
        "name": "told",
        "agent": "acme/writer",
        "on": "completed",
        "call": call,
        "timeout_s": 5.0,
    }
    async with remote_gateway(tmp_path) as url:
        asked = document(tmp_path, url, may_call=["*"], routes=[route])
        async with local(asked) as w:
            await w.send("writer", "go")
            (entry,) = await until(lambda: w.entries("writer"))
            assert entry["status"] == "completed"
            assert '"a poem"' in entry["output"]


async def test_a_call_that_comes_back_through_a_target_is_refused(tmp_path: Path) -> None:
    made: list[Local] = []

    async def serve(*exchange: Any) -> Any:
        return await made[0].gateway.application.serve(*exchange)

    async with serving(serve) as server:
        url = f"http://127.0.0.1:{server.port}"
        own = document(tmp_path, url)
        own["targets"] = {
            slug: {"base_url": f"{url}/api/a2a/v1/agents/acme/{slug}/agent-card.json"}
            for slug in ("editor", "writer")
        }
        async with local(own, base_url=url) as w:
            made.append(w)
            inner = json.dumps({"agent": "acme/writer", "input": "go"})
            answer = await w.use(agent="target:editor", input=inner)
            assert answer["status"] == "error"
            assert answer["error"]["message"].endswith("does not let the gateway in.")
            # It is the chain that is not let in, and nothing else.
            answer = await w.use(agent="target:writer", input="go")
            assert answer["output"] == "a poem"


async def test_a_reload_adds_changes_and_removes_targets(tmp_path: Path) -> None:
    async with remote_gateway(tmp_path) as url:
        first = document(tmp_path, url)
        targets = first.pop("targets")
        async with local(first) as w:
            reload = Reload(w.gateway, w.load, local_url="http://127.0.0.1:1")
            assert (await w.use(agent="helper", input="x"))["status"] == "not_found"
            w.document["targets"] = {"helper": {"base_url": "http://127.0.0.1:9"}}
            await reload()
            assert (await w.use(agent="helper", input="x"))["status"] == "error"
            w.document["targets"] = targets
            await reload()
            assert (await w.use(agent="helper", input="x"))["output"] == "about x"
            w.document["targets"] = {}
            await reload()
            assert (await w.use(agent="helper", input="x"))["status"] == "not_found"


def test_a_route_leads_to_a_target_that_agents_can_call(tmp_path: Path) -> None:
    asked = document(tmp_path, "http://127.0.0.1:9")
    asked["targets"]["Help Desk"] = asked["targets"]["helper"]
    asked["routes"] = [{"name": "told", "agent": "*", "on": "completed", "call": "Help Desk"}]
    with pytest.raises(ConfigError, match="no agent and no target has this name"):
        from_document(asked, environment={})


async def test_targets_are_no_agents_of_the_gateway(tmp_path: Path) -> None:
    async with local(document(tmp_path, "http://127.0.0.1:9")) as w:
        listed = [each.handle for each in w.gateway.directory.list()]
        assert listed == ["acme/editor", "acme/writer", "acme/poet", "acme/judge"]
        http = Asgi(w.gateway.application)
        for handle in ("target:helper", "tool:debate_call"):
            path = f"/api/a2a/v1/agents/{handle}/agent-card.json"
            assert (await http.send(Http(method="GET", path=path))).status == 404

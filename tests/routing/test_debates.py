"""Agents of one gateway debate."""

from collections.abc import Callable
from typing import Any

import msgspec
from tests.routing.world import CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.engine.agent_calls import CallLimits, CallPolicy
from trunkline.model.calls import Caller, GetTaskRequest
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Role, Task, TaskState, text_of
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope

TOPIC = "Which moon shall we visit?"


def asked(turn: Turn) -> dict[str, Any]:
    """What the debate gave the participant."""
    (payload,) = turn.data
    found: dict[str, Any] = payload["input"]
    return found


class Panel:
    """The participants of a debate, and what they were asked."""

    def __init__(
        self, *, sure: float = 0.6, refined: float = 0.9, resolved: float = 0.9, **more: Any
    ) -> None:
        self.sure = sure
        self.refined = refined
        self.resolved = resolved
        self.more = more
        self.turns: list[str] = []
        self.result: dict[str, Any] = {}
        self.steps: list[dict[str, Any]] = []
        # What critics do in place of finding a flaw.
        self.does: dict[str, Callable[[Turn], Any]] = {}

    async def poet(self, turn: Turn) -> Any:
        given = asked(turn)
        if "originalProposal" in given:
            self.turns.append("refine")
            flaws = [flaw for each in given["critiques"] for flaw in each["flaws"]]
            output = f"{given['originalProposal']}, but {' and '.join(flaws)}"
            return {"output": output, "confidence": self.refined, "assumptions": ["it is far"]}
        self.turns.append("propose")
        return {"output": "Io", "confidence": self.sure, "assumptions": "there is time"}

    def critic(self, name: str) -> Callable[[Turn], Any]:
        async def criticise(turn: Turn) -> Any:
            given = asked(turn)
            self.turns.append(name)
            if name in self.does:
                return await self.does[name](turn)
            return {"flaws": [f"{name} on {given['proposal']}"], "confidence": 0.5}

        return criticise

    async def judge(self, turn: Turn) -> Any:
        self.turns.append("resolve")
        given = asked(turn)
        return {"output": f"visit {given['finalProposal']}", "confidence": self.resolved}

    async def moderator(self, turn: Turn) -> str:
        debate = turn.debate(
            TOPIC,
            proposer="acme/poet",
            critics=[{"agent": "acme/hot", "perspective": "heat"}, "acme/far"],
            resolver={"agent": "acme/judge"},
            **self.more,
        )
        async for step in debate:
            self.steps.append(step)
        self.result = await debate
        return "done"

    @property
    def agents(self) -> dict[str, Any]:
        async def moderator(turn: Turn) -> str:
            return await self.moderator(turn)

        async def poet(turn: Turn) -> Any:
            return await self.poet(turn)

        async def judge(turn: Turn) -> Any:
            return await self.judge(turn)

        return {
            "caller": moderator,
            "poet": poet,
            "hot": self.critic("hot"),
            "far": self.critic("far"),
            "judge": judge,
        }


async def hangs(turn: Turn) -> str:
    await turn.canceled()
    return ""


async def task_of(w: CallWorld, correlation_id: str) -> Task:
    """The task of a debate."""
    (found,) = [each for each in await w.calls() if each.call.id == correlation_id]
    (agent,) = [each for each in w.routing.agents if each.handle == "tool:debate_call"]
    caller = Caller(principal=Principal(id="alice", grants=EVERYTHING))
    request = GetTaskRequest(id=found.task_id)
    return msgspec.json.decode(await w.main.service.get(agent, caller, request), type=Task)


async def test_a_debate_of_one_round() -> None:
    panel = Panel()
    async with calling(panel.agents) as w:
        await w.send("caller", "go", context="c1")
        result = panel.result
        assert result["status"] == "resolved"
        assert result["conclusion"] == "visit Io, but hot on Io and far on Io"
        assert result["confidenceHistory"] == [0.6, 0.9, 0.9]
        assert result["assumptions"] == ["there is time", "it is far"]
        assert [each["agent"] for each in result["dissent"]] == ["acme/hot", "acme/far"]
        (held,) = result["rounds"]
        assert held["critiques"][0] == {
            "critic": "critic 1",
            "agent": "acme/hot",
            "perspective": "heat",
            "weight": 1.0,
            "confidence": 0.5,
            "flaws": ["hot on Io"],
            "alternatives": [],
        }
        assert panel.turns == ["propose", "hot", "far", "refine", "resolve"]
        task = await task_of(w, result["correlationId"])

    # The events of its task tell how it went, and the result is an artifact.
    said = [text_of(each.parts) for each in task.history if each.role is Role.AGENT]
    assert sorted(said) == sorted(
        [
            "proposal: acme/poet, completed, confidence 0.6",
            "round 1, critic 1: acme/hot, completed, confidence 0.5",
            "round 1, critic 2: acme/far, completed, confidence 0.5",
            "round 1, refinement: acme/poet, completed, confidence 0.9",
            "resolution: acme/judge, completed, confidence 0.9",
        ]
    )
    assert [each["step"] for each in panel.steps] == [text.partition(":")[0] for text in said]
    (artifact,) = task.artifacts
    (part,) = artifact.parts
    assert (artifact.name, part.media_type) == ("debate", "application/json")
    assert isinstance(part.data, dict)
    assert part.data["output"]["conclusion"] == result["conclusion"]
    assert task.status.state is TaskState.COMPLETED


async def test_a_sure_proposal_is_not_debated() -> None:
    panel = Panel(sure=0.95)
    async with calling(panel.agents) as w:
        await w.send("caller", "go", context="c1")
    assert panel.turns == ["propose", "resolve"]
    assert (panel.result["status"], panel.result["rounds"]) == ("resolved", [])


async def test_a_critic_that_times_out_does_not_stop_the_debate() -> None:
    panel = Panel(timeout_s=5)
    panel.does["hot"] = hangs
    async with calling(panel.agents) as w:
        task = await w.send("caller", "go", context="c1", now=True)
        await w.clock.advance(5.5)
        await until(lambda: _settled(w, task.id))
        (held,) = panel.result["rounds"]
        assert held["critiques"][0]["flaws"] == ["Critic failed: Agent call timed out after 5000ms"]
        assert held["criticConfidence"] == 0.25
        assert panel.result["status"] == "resolved"
        assert {"step": "round 1, critic 1", "agent": "acme/hot", "status": "timeout"} in (
            panel.steps
        )


async def test_when_all_critics_fail_the_debate_ends_with_an_error() -> None:
    panel = Panel()

    async def fails(turn: Turn) -> Any:
        return turn.fail("no opinion")

    panel.does = {"hot": fails, "far": fails}
    async with calling(panel.agents) as w:
        await w.send("caller", "go", context="c1")
        assert panel.result["status"] == "error"
        assert panel.result["error"]["code"] == "critics_failed"
        assert panel.turns == ["propose", "hot", "far"]
        (held,) = panel.result["rounds"]
        assert {each["flaws"][0] for each in held["critiques"]} == {"Critic failed: no opinion"}
        # The tool has done its work.
        task = await task_of(w, panel.result["correlationId"])
        assert task.status.state is TaskState.COMPLETED


async def test_the_total_timeout_ends_the_debate_with_the_rounds_so_far() -> None:
    panel = Panel(total_timeout_s=7)
    panel.does["far"] = hangs
    async with calling(panel.agents) as w:
        task = await w.send("caller", "go", context="c1", now=True)
        await w.clock.advance(6.9)
        assert not panel.result
        await w.clock.advance(0.2)
        await until(lambda: _settled(w, task.id))
    assert panel.result["status"] == "error"
    assert panel.result["error"]["message"] == "The debate did not end within 7 s"
    assert panel.result["confidenceHistory"] == [0.6]


async def test_without_waiting_the_result_comes_to_the_session() -> None:
    panel = Panel(wait=False)
    async with calling(panel.agents) as w:
        await w.send("caller", "go", context="c1")
        assert panel.result["status"] == "pending"
        (entry,) = await until(lambda: w.entries("caller", "c1"))
        assert (entry["status"], entry["confidence"]) == ("completed", 0.9)
        assert entry["output"]["correlationId"] == entry["correlationId"]
        assert entry["output"]["status"] == "resolved"
        assert entry["assumptions"] == ["there is time", "it is far"]
        # Only the result is told, and none of the answers on the way.
        assert len(await w.entries("caller", "c1")) == 1


async def test_a_participant_that_may_not_be_called_is_named_before_anything_begins() -> None:
    for policy, place in (
        (CallPolicy(may_call=("acme/hot", "acme/far", "acme/judge")), "proposer"),
        (CallPolicy(may_call=("acme/poet", "acme/hot", "acme/judge")), "critics[1]"),
        (CallPolicy(may_call=("acme/poet", "acme/hot", "acme/far")), "resolver"),
    ):
        panel = Panel()
        async with calling(panel.agents, policies={"caller": policy}) as w:
            await w.send("caller", "go", context="c1")
            assert panel.result["status"] == "forbidden"
            message = panel.result["error"]["message"]
            assert message == f"{place}: this agent may not call that one"
            assert not panel.turns
            assert ("policy_denied", "acme/caller", "") in w.audit


async def test_who_asks_for_a_debate_takes_no_part_in_it() -> None:
    panel = Panel()
    panel.more = {}

    async def asks(turn: Turn) -> str:
        panel.result = await turn.debate(
            TOPIC, proposer="acme/poet", critics=["acme/caller"], resolver="acme/judge"
        )
        return "done"

    async with calling({**panel.agents, "caller": asks}) as w:
        await w.send("caller", "go", context="c1")
    assert panel.result["error"]["code"] == "self_call_blocked"


async def test_a_debate_is_as_deep_as_a_call() -> None:
    panel = Panel()

    async def asks(turn: Turn) -> str:
        answer = await turn.call("acme/caller", "go")
        return str(answer["output"])

    agents = {**panel.agents, "outer": asks}
    async with calling(agents, limits=CallLimits(max_depth=2, max_hops=2)) as w:
        await w.send("outer", "go", context="c1")
    assert panel.result["status"] == "resolved"


async def test_the_skills_of_the_participants_decide_what_they_are_asked_for() -> None:
    panel = Panel()
    skills = {
        "acme/poet": ("write", "refine-text"),
        "acme/hot": ("observe", "critique"),
        "acme/far": ("measure",),
    }
    async with calling(panel.agents, skills=skills) as w:
        await w.send("caller", "go", context="c1")
        calls = [each.call for each in await w.calls() if each.call.callee != "tool:debate_call"]
    assert sorted((each.callee, each.skill, each.mode) for each in calls) == [
        ("acme/far", "measure", "critique"),
        ("acme/hot", "critique", "critique"),
        ("acme/judge", "", "execute"),
        ("acme/poet", "refine-text", "execute"),
        ("acme/poet", "write", "execute"),
    ]


async def test_when_the_session_is_ended_so_is_the_debate() -> None:
    panel = Panel(wait=False)
    agents = panel.agents
    ended: list[int] = []

    async def poet(turn: Turn) -> Any:
        session = SessionRef(Scope("acme/caller", "", "alice"), "c1")
        ended.append(await world.routing.sessions.end(session))
        return await panel.poet(turn)

    async with calling({**agents, "poet": poet}) as world:
        await world.send("caller", "go", context="c1")
        await world.clock.advance(1)
        # The debate, and its first call.
        assert ended == [2]
        assert panel.turns == ["propose"]
        await world.clock.advance(600)
        assert not await world.entries("caller", "c1")


async def _settled(w: CallWorld, task_id: str) -> bool:
    return (await w.get("caller", task_id)).status.state is TaskState.COMPLETED

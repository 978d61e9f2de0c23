"""The statements about response routing, R-01 to R-28, one test or more for each: here, or where
`ELSEWHERE` says. The traps T-1 to T-7 are in `test_traps.py`."""

import asyncio
import importlib
import math
import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest
from tests.routing import test_traps
from tests.routing.helpers import Heard, Helper, acts, arrived, call, key_of, use
from tests.routing.world import calling, until

from trunkline.backends.python import Turn
from trunkline.engine.agent_calls import CallLimits, CallPolicy
from trunkline.model.values import text_of
from trunkline.ports.store import Store
from trunkline.routing.call_records import PENDING_TAG
from trunkline.testing import FakeClock

MakeStore = Callable[[], Store]

ELSEWHERE: Final = {
    "R-03": ["test_calls.py::test_the_answer_comes_to_the_session_of_the_caller"],
    "R-04": ["test_calls.py::test_the_answer_comes_to_the_session_of_the_caller"],
    "R-05": ["test_calls.py::test_the_transcript_has_the_answer"],
    "R-06": ["test_calls.py::test_a_timeout_comes_when_no_answer_does"],
    "R-09": ["test_polls.py::test_a_poll_tells_how_a_call_stands"],
    "R-10": ["test_crashes.py::test_the_caller_learns_at_once_that_the_agent_failed"],
    "R-14": ["test_crashes.py::test_the_caller_learns_that_the_gateway_stopped"],
    "R-16": ["../unit/engine/test_agent_calls.py::test_without_a_timeout_it_is_60_seconds"],
    "R-17": ["test_polls.py::test_a_call_that_expects_no_answer_can_be_polled"],
    "R-19": [
        "test_delivery.py::test_in_the_mode_channel_the_task_of_the_caller_gets_the_answer",
        "test_delivery.py::test_in_the_mode_dual_the_log_gets_a_copy",
        "test_delivery.py::test_beside_an_entry_of_the_session_the_channel_a2a_gets_no_copy",
    ],
    "R-20": ["test_answers.py::test_answers_begin_turns_in_the_order_in_which_they_came"],
    "R-25": [
        "test_polls.py::test_the_record_of_a_call_outlasts_its_end_by_its_timeout_and_a_minute"
    ],
    "R-28": [
        "../unit/engine/test_structured_answer.py::test_the_first_object_of_a_text_is_the_answer"
    ],
    "T-1": ["test_turn_binding.py::test_calls_of_one_task_that_overlap"],
    "T-3": ["test_calls.py::test_a_timeout_comes_when_no_answer_does"],
    "T-7": [
        "test_answers.py::test_a_turn_that_an_answer_began_may_not_call_back",
        "test_delivery.py::test_two_agents_cannot_keep_each_other_busy_with_answers_for_ever",
    ],
}
STATEMENTS: Final = [
    *[f"R-{number:02}" for number in range(1, 29)],
    *[f"T-{number}" for number in range(1, 8)],
]


def test_every_statement_has_a_test() -> None:
    modules = (sys.modules[__name__], test_traps)
    here = {name for module in modules for name in vars(module) if name.startswith("test_")}
    for statement in STATEMENTS:
        prefix = f"test_{statement.lower().replace('-', '')}_"
        named = ELSEWHERE.get(statement, [])
        assert named or any(name.startswith(prefix) for name in here), statement
        for path, _, name in [each.partition("::") for each in named]:
            module = path.removesuffix(".py").replace("../unit", "tests.unit").replace("/", ".")
            module = module if module.startswith("tests") else f"tests.routing.{module}"
            assert hasattr(importlib.import_module(module), name), (statement, path, name)


async def test_r01_the_called_agent_gets_the_invocation(
    clock: FakeClock, make_store: MakeStore
) -> None:
    heard = Heard()
    agents = {"caller": acts, "helper": heard.turn}
    async with calling(agents, store=make_store(), clock=clock) as w:
        value = {"topic": "the moon", "n": [1, None]}
        made = await call(w, input=value, skill="look_up", mode="critique", timeout=1500)
        await arrived(w)
        assert heard.payload == {
            "kind": "skill_invocation",
            "skill": "look_up",
            "mode": "critique",
            "input": value,
            "correlationId": made["correlationId"],
            "returnTo": await key_of(w),
            "timeout": 1500,
        }
        await call(w)
        assert (heard.payload["mode"], heard.payload["timeout"]) == ("execute", 60_000)
        # For agents that know nothing of calls.
        assert text_of(heard.messages[-1].parts) == "one"


async def test_r02_the_session_is_that_of_the_turn_and_not_of_an_argument() -> None:
    heard = Heard()
    async with calling({"caller": acts, "helper": heard.turn}) as w:
        await call(w, context="c2")
        await arrived(w, context="c2")
        key = await key_of(w, context="c2")
        assert key != await key_of(w)
        assert heard.payload["returnTo"] == key
        assert (await call(w, context="c2", returnTo=key))["status"] == "pending"


async def test_r07_a_call_has_one_end_whichever_comes_first(
    clock: FakeClock, make_store: MakeStore
) -> None:
    helper = Helper()
    agents = {"caller": acts, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        store = w.store
        for number, moment in enumerate((59.9, 59.999, 60.0, 60.001, 60.002, 60.01, 61.0)):
            context, text = f"c{number}", f"at {moment}"
            await call(w, input=text, context=context)
            await helper.begun(text)
            await clock.advance(moment)
            if moment > 60.005:
                # Those before may end in either way: stores need real time.
                await arrived(w, context=context)
            helper.open(text)
            (entry,) = await arrived(w, context=context)
            assert entry["kind"] in ("skill_response", "skill_timeout")
            await clock.advance(5)
            assert len(await w.entries("caller", context)) == 1
        assert not await store.records("call.1", tag=PENDING_TAG, limit=9)
        counts = w.routing.counts.ended

        async def all_counted() -> Any:
            return counts["completed"] + counts["late"] == 7

        await until(all_counted)
        assert counts["completed"] + counts["timeout"] == 7
        assert counts["completed"] >= 2
        assert counts["timeout"] >= 2


async def test_r08_the_record_of_a_call_goes_from_its_begin_to_its_end(
    clock: FakeClock, make_store: MakeStore
) -> None:
    helper = Helper()
    agents = {"caller": acts, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        made = await call(w, timeout=90_000)
        (record,) = await w.calls()
        asked = record.call
        assert (asked.id, record.task_id) == (made["correlationId"], made["taskId"])
        assert (asked.callee, asked.skill, asked.timeout_ms) == ("acme/helper", "", 90_000)
        assert (asked.begun_ms, record.state) == (clock.now_ms(), "pending")
        helper.open("one")
        await arrived(w)
        (record,) = await w.calls()
        assert (record.state, record.call) == ("completed", asked)
        await w.routing.close()


async def test_r11_an_answer_to_a_session_that_is_gone_is_discarded(
    clock: FakeClock, make_store: MakeStore
) -> None:
    helper = Helper()
    agents = {"caller": acts, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        await call(w)
        await call(w, context="c2")
        session = w.turn_of("caller", context="c1").session
        assert await w.routing.sessions.end(session) == 1
        helper.open("one")
        (entry,) = await arrived(w, context="c2")
        assert entry["output"] == "about one"
        assert not await w.entries("caller", "c1")
        assert w.routing.counts.ended["discarded"] == 1
        states = sorted(each.state for each in await w.calls())
        assert states == ["completed", "discarded"]


async def test_r11_a_caller_that_waits_is_told_that_its_session_was_ended() -> None:
    helper = Helper()
    async with calling({"caller": acts, "helper": helper.answers}) as w:
        asking = asyncio.ensure_future(call(w, wait=True))  # noqa: TID251 - awaited below
        await helper.begun("one")
        await w.routing.sessions.end(w.turn_of("caller", context="c1").session)
        assert (await asking)["error"]["code"] == "session_ended"


async def test_r12_fifty_calls_of_one_agent_end_in_any_order(
    clock: FakeClock, make_store: MakeStore
) -> None:
    helper = Helper()
    agents = {"caller": acts, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        texts = [f"text {number}" for number in range(50)]
        ids = {}
        for text in texts:
            made = await call(w, input=text)
            ids[made["correlationId"]] = text
        for text in texts:
            await helper.begun(text)
        # Every seventh, around and around.
        helper.open(*[texts[number * 7 % 50] for number in range(50)])
        entries = await arrived(w, 50)
        assert {each["correlationId"]: each["output"] for each in entries} == {
            id: f"about {text}" for id, text in ids.items()
        }


async def test_r13_a_call_within_a_call_has_an_id_of_its_own(
    clock: FakeClock, make_store: MakeStore
) -> None:
    gate = asyncio.Event()

    async def middle(turn: Turn) -> Any:
        answer = await turn.call("acme/last", f"{turn.text}, please")
        return {"output": answer["output"], "confidence": answer["confidence"] / 2}

    async def last(turn: Turn) -> Any:
        if turn.text.startswith("slowly"):
            await gate.wait()
        return {"output": f"heard {turn.text}", "confidence": 1}

    agents = {"caller": acts, "middle": middle, "last": last}
    async with calling(agents, store=make_store(), clock=clock) as w:
        first = await call(w, "middle", input="slowly")
        # Neither the caller nor the last one waits for the one that waits in between.
        assert (await call(w, "last", input="now", wait=True))["output"] == "heard now"
        quick = await call(w, "middle", input="quickly", wait=True)
        assert (quick["output"], quick["confidence"]) == ("heard quickly, please", 0.5)
        gate.set()
        (entry,) = await arrived(w)
        assert (entry["correlationId"], entry["output"]) == (
            first["correlationId"],
            "heard slowly, please",
        )
        calls = [each.call for each in await w.calls()]
        inner = [each for each in calls if each.parent]
        assert len({each.id for each in calls}) == 5
        assert {(each.depth, each.root == each.parent) for each in inner} == {(2, True)}


async def test_r14_after_a_restart_overdue_calls_end_at_once_and_others_in_time(
    clock: FakeClock, make_store: MakeStore
) -> None:
    limits = CallLimits(on_callee_crash="wait_for_timeout")
    agents = {"caller": acts, "helper": Helper().answers}
    async with calling(agents, store=make_store(), clock=clock, limits=limits) as w:
        for timeout in (10_000, 5_000, 40_000):
            await call(w, timeout=timeout)
        await w.vanish()
        await w.store.close()
    await clock.advance(20)
    async with calling(agents, store=make_store(), clock=clock, limits=limits, node="next") as w:
        entries = await arrived(w, 2)
        # In the order in which they were due, as far as they are handled one after the other.
        assert sorted(each["message"] for each in entries) == [
            "Agent call timed out after 10000ms",
            "Agent call timed out after 5000ms",
        ]
        await clock.advance(18.5)
        assert len(await w.entries("caller", "c1")) == 2
        await clock.advance(0.6)
        await arrived(w, 3)


@pytest.mark.parametrize(
    ("says", "output", "confidence"),
    [
        ("plain text", "plain text", 0.5),
        ('{"output": broken}', '{"output": broken}', 0.3),
        ('As JSON: {"output": [1], "confidence": 0.8} there', [1], 0.8),
        ({"answer": 42}, {"answer": 42}, 0.5),
        ([1, 2], [1, 2], 0.5),
        ("", "", 0.5),
        ({"output": "x", "confidence": math.nan}, "x", 0.5),
        ({"output": "x", "confidence": "sure"}, "x", 0.5),
        ({"output": "x", "confidence": 7}, "x", 1.0),
        ('{"output": "half \\ud83d", "caveats": ["\\udc00"]}', "half �", 0.5),
    ],
    ids=range(10),
)
async def test_r15_every_output_is_delivered(says: Any, output: Any, confidence: float) -> None:
    async with calling({"caller": acts, "helper": Heard(says).turn}) as w:
        await call(w)
        (entry,) = await arrived(w)
        assert (entry["status"], entry["output"]) == ("completed", output)
        assert entry["confidence"] == confidence


async def test_r15_an_answer_of_megabytes_is_cut_off(
    clock: FakeClock, make_store: MakeStore
) -> None:
    agents = {"caller": acts, "helper": Heard("word " * 500_000).turn}
    async with calling(agents, store=make_store(), clock=clock) as w:
        await call(w)
        (entry,) = await arrived(w)
        assert entry["output"].startswith("word word")
        assert len(entry["output"]) == 32 * 1024
        assert "was cut off" in entry["caveats"][0]


async def test_r17_a_call_that_expects_no_answer_gets_none(
    clock: FakeClock, make_store: MakeStore
) -> None:
    heard = Heard()
    agents = {"caller": acts, "helper": heard.turn}
    async with calling(agents, store=make_store(), clock=clock) as w:
        made = await call(w, timeoutSeconds=0)
        assert made == {"status": "working", "taskId": made["taskId"]}
        await clock.advance(400)
        assert len(heard.messages) == 1
        assert not await w.calls()
        assert not await w.entries("caller", "c1")
        assert not w.routing.counts.begun


async def test_r18_an_agent_that_takes_text_alone_is_asked_by_text() -> None:
    heard = Heard()
    published = {"helper": {"input_modes": ("text/plain",)}}
    async with calling({"caller": acts, "helper": heard.turn}, published=published) as w:
        for value, said in (("the moon", "the moon"), ({"n": 1}, '{"n":1}')):
            assert (await call(w, input=value, wait=True))["output"] == "heard"
            (part,) = heard.messages[-1].parts
            assert part.text == said


async def test_r20_answers_are_in_the_transcript_in_the_order_of_their_commits(
    clock: FakeClock, make_store: MakeStore
) -> None:
    helper = Helper()

    async def caller(turn: Turn) -> Any:
        if turn.text == "read":
            return [text_of(each.parts) for each in await turn.transcript()]
        return await acts(turn)

    agents = {"caller": caller, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        for text in ("one", "two", "three"):
            await call(w, input=text)
            await helper.begun(text)
        for count, text in enumerate(("three", "one", "two"), start=1):
            helper.open(text)

            async def came(count: int = count) -> Any:
                return len(await w.entries("caller", "c1")) == count

            await until(came)
        await clock.advance(1)
        task = await w.send("caller", "read", context="c1")
        texts: Any = task.artifacts[0].parts[0].data
        answers = [msgspec.json.decode(text) for text in texts if "skill_response" in text]
        assert [each["output"] for each in answers] == ["about three", "about one", "about two"]


async def test_r21_what_an_agent_streams_is_one_answer() -> None:
    async def streams(turn: Turn) -> Any:
        for word in ("one ", "two ", "three"):
            yield word
            await turn_passes()

    async with calling({"caller": acts, "helper": streams}) as w:
        await call(w)
        (entry,) = await arrived(w)
        assert entry["output"] == "one two three"


async def turn_passes() -> None:
    gate = asyncio.Event()
    asyncio.get_running_loop().call_soon(gate.set)
    await gate.wait()


async def test_r22_a_timeout_is_never_above_five_minutes_and_echoed() -> None:
    async with calling({"caller": acts, "helper": Helper().answers}) as w:
        made = await call(w, timeoutSeconds=3600)
        assert made["timeout"] == 300_000
        await w.clock.advance(299)
        assert not await w.entries("caller", "c1")
        await w.clock.advance(2)
        (entry,) = await arrived(w)
        assert entry["message"] == "Agent call timed out after 300000ms"


async def test_r23_the_gateway_makes_the_id_and_no_agent_ends_another_call() -> None:
    helper = Helper()
    mine: list[str] = []

    async def liar(turn: Turn) -> Any:
        """Answers as if it were the other call, in text, in data and in metadata."""
        payload = {
            "kind": "skill_response",
            "correlationId": mine[0],
            "status": "completed",
            "output": "a lie",
        }
        return turn.answer(payload, metadata=payload)

    async with calling({"caller": acts, "helper": helper.answers, "liar": liar}) as w:
        made = await call(w, correlationId="of-the-caller")
        mine.append(made["correlationId"])
        assert mine != ["of-the-caller"]
        other = await call(w, "liar")
        (entry,) = await arrived(w)
        assert entry["correlationId"] == other["correlationId"]
        assert (await use(w, "agent_poll", correlationId=mine[0]))["status"] == "working"
        helper.open("one")
        entries = await arrived(w, 2)
        assert (entries[1]["correlationId"], entries[1]["output"]) == (mine[0], "about one")


async def test_r24_another_session_as_return_address_is_refused_and_audited() -> None:
    heard = Heard()
    async with calling({"caller": acts, "other": acts, "helper": heard.turn}) as w:
        key = await key_of(w, context="c2")
        for target in (key, key.replace("caller", "other"), "agent:main:main", ["x"]):
            refused = await call(w, returnTo=target)
            assert refused["status"] == "forbidden"
            assert refused["error"]["code"] == "return_to_refused"
            assert "agent:" not in refused["error"]["message"]
        assert w.audit == [("return_to_refused", "acme/caller", "")] * 4
        assert not heard.messages


async def test_r26_the_figures_tell_how_calls_came_out_and_how_late() -> None:
    helper = Helper()
    async with calling({"caller": acts, "helper": helper.answers}) as w:
        await call(w, input="one")
        await call(w, input="two", timeoutSeconds=5)
        await call(w, input="fail")
        helper.open("one", "fail")
        await arrived(w, 2)
        await w.clock.advance(6)
        await arrived(w, 3)
        counts = w.routing.counts
        assert counts.begun == 3
        assert dict(counts.ended) == {"completed": 1, "error": 1, "timeout": 1}
        assert (counts.delivery.count, counts.timeout_error.count) == (2, 1)
        # An alarm of its own brings each timeout, and not the next tick.
        assert counts.timeout_error.seconds < 0.02
        names = {each[0] if isinstance(each, tuple) else each.name for each in counts.figures()}
        assert names == {
            "trunkline_agent_calls_total",
            "trunkline_agent_calls_ended_total",
            "trunkline_agent_call_delivery_seconds",
            "trunkline_agent_call_timeout_error_seconds",
        }


REFUSED: Final = [
    ({"agent": "no such/agent!"}, "error", "validation_failed"),
    ({"agent": "acme/nobody"}, "not_found", "not_found"),
    ({"agent": "acme/caller"}, "error", "self_call_blocked"),
    ({"agent": "acme/secret"}, "forbidden", "policy_denied"),
    ({"skill": "sing"}, "error", "skill_not_found"),
    ({"skill": "a b"}, "error", "validation_failed"),
    ({"input": "x" * (1024 * 1024)}, "error", "input_validation_failed"),
    ({"unknown": 1}, "error", "validation_failed"),
]


@pytest.mark.parametrize(("arguments", "status", "code"), REFUSED, ids=range(len(REFUSED)))
async def test_r27_a_call_that_may_not_be_made_is_refused_and_audited(
    arguments: dict[str, Any], status: str, code: str
) -> None:
    heard = Heard()
    agents = {"caller": acts, "helper": heard.turn, "secret": heard.turn}
    options: Any = {
        "policies": {"caller": CallPolicy(may_call=("acme/helper", "acme/nobody"))},
        "skills": {"acme/helper": ("look_up",)},
    }
    async with calling(agents, **options) as w:
        given = {"agent": "acme/helper", "input": "one"} | arguments
        refused = await use(w, "agent_call", **given)
        assert (refused["status"], refused["error"]["code"]) == (status, code)
        assert "a2a:c1" not in refused["error"]["message"]
        ((event, asking, _),) = w.audit
        assert (event, asking) == (code, "acme/caller")
        assert not heard.messages
        assert not await w.calls()


async def test_r27_a_call_that_is_made_is_audited() -> None:
    async with calling({"caller": acts, "helper": Heard().turn}) as w:
        await call(w)
        assert w.audit == [("invocation", "acme/caller", "acme/helper")]

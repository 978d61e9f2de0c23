"""What every backend must do, whatever stands behind it.

@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
async def test_my_backend(check):
    await check(BackendSubject(make=MyBackend, hang="sleep", crash="boom"))
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

from msgspec import Struct, structs

from trunkline.model.outputs import ENDS_TURN, Output, StageStarted, ToolCalled
from trunkline.ports.backend import Backend, TurnRequest
from trunkline.testing.turns import FakeSession, answer_text, run_turn, turn_request


class BackendSubject(Struct, frozen=True, kw_only=True):
    """A backend, and messages that make the agent behind it do what a check needs."""

    make: Callable[[], Backend | Awaitable[Backend]]
    # `{word}` must come back in the answer.
    answer: str = "{word}"
    # Emits something, then goes on until it is canceled. None where no agent can.
    hang: str | None = None
    # Ends with an exception. None where no agent can.
    crash: str | None = None
    # Uses a tool. None where no agent does.
    tool: str | None = None
    # Says `{first}` in one message and `{second}` in the next. None where no agent does.
    stages: str | None = None
    # Says `{word}`, then goes on until it is canceled; for a backend that can resume.
    going_on: str | None = None
    # How long "soon" is, for agents that run elsewhere.
    soon_s: float = 5.0


# Until a reader surely waits for a run that says nothing more.
_WAITS_S = 0.05

Check = Callable[[BackendSubject], Awaitable[None]]


async def check_backend(subject: BackendSubject) -> None:
    """All checks; raises AssertionError with what is wrong."""
    for check in BACKEND_CHECKS:
        await check(subject)


async def answers_and_ends(subject: BackendSubject) -> None:
    async with _backend(subject) as backend:
        outputs = await run_turn(backend, _turn(subject.answer.format(word="walrus")))
    assert "walrus" in answer_text(outputs), f"the answer lacks its word: {outputs!r}"


async def starts_at_once(subject: BackendSubject) -> None:
    async with _backend(subject) as backend:
        turn = _turn(subject.answer.format(word="walrus"))
        outputs = backend.start(turn)
        assert not inspect.isawaitable(outputs), "start is not a coroutine function"
        assert hasattr(outputs, "__anext__"), "start returns an async iterator"
        await _drain(outputs)


async def nothing_follows_the_end(subject: BackendSubject) -> None:
    async with _backend(subject) as backend:
        outputs = await run_turn(backend, _turn(subject.answer.format(word="walrus")))
    ends = [output for output in outputs if isinstance(output, ENDS_TURN)]
    assert ends in ([], outputs[-1:]), f"something follows the end: {outputs!r}"


async def runs_are_isolated(subject: BackendSubject) -> None:
    words = [f"walrus{number}x" for number in range(8)]
    async with _backend(subject) as backend:
        answers = await asyncio.gather(
            *(run_turn(backend, _turn(subject.answer.format(word=word))) for word in words)
        )
    for own, outputs in zip(words, answers, strict=True):
        text = answer_text(outputs)
        assert [word for word in words if word in text] == [own], f"{own} got {text!r}"


async def cancel_ends_the_run(subject: BackendSubject) -> None:
    if subject.hang is None:
        return
    async with _backend(subject) as backend:
        turn = _turn(subject.hang)
        outputs = backend.start(turn)
        await anext(outputs)
        await backend.cancel(turn.run_id)
        await _ends_soon(outputs, subject, "after cancel")
        await backend.cancel(turn.run_id)


async def cancel_reaches_a_reader_that_waits(subject: BackendSubject) -> None:
    if subject.hang is None:
        return
    async with _backend(subject) as backend:
        turn = _turn(subject.hang)
        outputs = backend.start(turn)
        await anext(outputs)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(
                _ends_soon(outputs, subject, "canceled while somebody waits for it")
            )
            await asyncio.wait({reading}, timeout=_WAITS_S)
            await backend.cancel(turn.run_id)


async def cancel_ends_only_that_run(subject: BackendSubject) -> None:
    if subject.hang is None:
        return
    async with _backend(subject) as backend:
        doomed, other = _turn(subject.hang), _turn(subject.hang)
        doomed_outputs, other_outputs = backend.start(doomed), backend.start(other)
        await anext(doomed_outputs)
        await anext(other_outputs)
        await backend.cancel(doomed.run_id)
        await _ends_soon(doomed_outputs, subject, "after cancel")
        outputs = await run_turn(backend, _turn(subject.answer.format(word="walrus")))
        assert "walrus" in answer_text(outputs), "a cancel disturbed another run"
        await backend.cancel(other.run_id)
        await _ends_soon(other_outputs, subject, "after cancel")


async def cancel_before_the_first_output_counts(subject: BackendSubject) -> None:
    if subject.hang is None:
        return
    async with _backend(subject) as backend:
        turn = _turn(subject.hang)
        outputs = backend.start(turn)
        await backend.cancel(turn.run_id)
        await _ends_soon(outputs, subject, "canceled before it began")


async def cancel_of_an_unknown_run_is_fine(subject: BackendSubject) -> None:
    async with _backend(subject) as backend:
        await backend.cancel("no-such-run")
        turn = _turn(subject.answer.format(word="walrus"))
        await run_turn(backend, turn)
        await backend.cancel(turn.run_id)


async def exceptions_come_out_of_the_iterator(subject: BackendSubject) -> None:
    if subject.crash is None:
        return
    async with _backend(subject) as backend:
        try:
            outputs = await run_turn(backend, _turn(subject.crash))
        except Exception:  # noqa: BLE001 - which one is the agent's business
            pass
        else:
            raise AssertionError(f"the agent crashed, and nobody noticed: {outputs!r}")
        outputs = await run_turn(backend, _turn(subject.answer.format(word="walrus")))
        assert "walrus" in answer_text(outputs), "a crash disturbed the next run"


async def tools_tell_which_call_it_is(subject: BackendSubject) -> None:
    if subject.tool is None:
        return
    async with _backend(subject) as backend:
        outputs = await run_turn(backend, _turn(subject.tool))
    calls = [output for output in outputs if isinstance(output, ToolCalled)]
    assert calls, f"no tool was used: {outputs!r}"
    begun: set[tuple[str, str]] = set()
    for call in calls:
        assert call.is_known, f"a call needs an id, a name and a phase that is known: {call!r}"
        if call.phase == "start":
            begun.add((call.call_id, call.name))
        else:
            assert (call.call_id, call.name) in begun, f"a call that never started: {call!r}"


async def messages_are_kept_apart(subject: BackendSubject) -> None:
    if subject.stages is None:
        return
    async with _backend(subject) as backend:
        turn = _turn(subject.stages.format(first="walrus", second="otter"))
        outputs = await run_turn(backend, turn)
    messages: list[list[Output]] = [[]]
    for output in outputs:
        if isinstance(output, StageStarted):
            messages.append([])
        messages[-1].append(output)
    texts = [text for text in map(answer_text, messages) if text.strip()]
    found = [[word for word in ("walrus", "otter") if word in text] for text in texts]
    assert found == [["walrus"], ["otter"]], f"not two messages: {texts!r}"


async def a_resumed_run_says_all_it_has(subject: BackendSubject) -> None:
    async with _backend(subject) as backend:
        if not backend.can_resume or subject.going_on is None:
            return
        session = FakeSession()
        text = subject.going_on.format(word="walrus")
        turn = structs.replace(_turn(text), session=session)
        assert "walrus" in await _said(backend.start(turn), "walrus", subject)
        again = structs.replace(turn, is_resumed=True)
        # Another object, as in another process, would do as well where the agent is elsewhere.
        outputs = backend.start(again)
        assert "walrus" in await _said(outputs, "walrus", subject), "what was said is gone"
        await backend.cancel(turn.run_id)


async def close_ends_what_runs(subject: BackendSubject) -> None:
    async with _backend(subject) as backend:
        if subject.hang is not None:
            outputs = backend.start(_turn(subject.hang))
            await anext(outputs)
            async with asyncio.timeout(subject.soon_s):
                await backend.close()
            await _ends_soon(outputs, subject, "after close")
        await backend.close()


BACKEND_CHECKS: tuple[Check, ...] = (
    answers_and_ends,
    starts_at_once,
    nothing_follows_the_end,
    runs_are_isolated,
    cancel_ends_the_run,
    cancel_reaches_a_reader_that_waits,
    cancel_ends_only_that_run,
    cancel_before_the_first_output_counts,
    cancel_of_an_unknown_run_is_fine,
    exceptions_come_out_of_the_iterator,
    tools_tell_which_call_it_is,
    messages_are_kept_apart,
    a_resumed_run_says_all_it_has,
    close_ends_what_runs,
)

_numbers = count(1)


def _turn(text: str) -> TurnRequest:
    number = next(_numbers)
    # Conversations of their own: an agent may well have one turn of each at a time.
    return turn_request(
        text,
        run_id=f"run-{number}",
        task_id=f"task-{number}",
        context_id=f"context-{number}",
    )


@asynccontextmanager
async def _backend(subject: BackendSubject) -> AsyncIterator[Backend]:
    made = subject.make()
    backend = await made if inspect.isawaitable(made) else made
    try:
        yield backend
    finally:
        await backend.close()


async def _drain(outputs: AsyncIterator[Output]) -> None:
    async for _ in outputs:
        pass


async def _said(outputs: AsyncIterator[Output], word: str, subject: BackendSubject) -> str:
    """What the run says until it has said the word; then it is let go, not canceled."""
    heard: list[Output] = []
    async with asyncio.timeout(subject.soon_s):
        async for output in outputs:
            heard.append(output)
            if word in answer_text(heard):
                break
    close = getattr(outputs, "aclose", None)
    if close is not None:
        await close()
    return answer_text(heard)


async def _ends_soon(outputs: AsyncIterator[Output], subject: BackendSubject, when: str) -> None:
    try:
        async with asyncio.timeout(subject.soon_s):
            await _drain(outputs)
    except TimeoutError:
        raise AssertionError(f"{when}, the run still goes on") from None

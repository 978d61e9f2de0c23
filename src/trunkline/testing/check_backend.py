"""The suite that every backend passes, whatever agent it runs.

@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
async def test_my_backend(check):
    await check(BackendSubject(make=MyBackend, hang="sleep", crash="boom"))
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from itertools import count

from msgspec import Struct, structs

from trunkline.model.outputs import ENDS_TURN, Output, StageStarted, ToolCalled
from trunkline.ports.backend import Backend, TurnRequest
from trunkline.testing.turns import FakeSession, answer_text, run_turn, turn_request


class BackendSubject(Struct, frozen=True, kw_only=True):
    """A backend, and the messages by which the checks steer the agent behind it."""

    make: Callable[[], Backend | Awaitable[Backend]]
    # `{word}` must come back in the answer.
    answer: str = "{word}"
    # Emits an output, then goes on until it is canceled. None if no agent can.
    hang: str | None = None
    # Ends with an exception. None if no agent can.
    crash: str | None = None
    # Uses a tool. None if no agent does.
    tool: str | None = None
    # Says `{first}` in one message and `{second}` in the next. None if no agent does.
    stages: str | None = None
    # Says `{word}`, then goes on until it is canceled; for a backend that can resume.
    going_on: str | None = None
    # Maximum seconds until a run ends; agents that run elsewhere may need more.
    soon_s: float = 5.0


# By then the reader of a run without further output waits for sure.
_WAITS_S = 0.05

Check = Callable[[BackendSubject], Awaitable[None]]

_checks: list[Check] = []
_numbers = count(1)


class Trial(Struct, frozen=True):
    """One check of a subject: a new backend, and the message that the check needs."""

    subject: BackendSubject
    backend: Backend
    text: str

    async def begun(self, text: str) -> tuple[TurnRequest, AsyncIterator[Output]]:
        """Start a run and wait for its first output."""
        turn = _turn(text)
        outputs = self.backend.start(turn)
        await anext(outputs)
        return turn, outputs

    async def answers(self, otherwise: str) -> None:
        outputs = await run_turn(self.backend, _turn(self.subject.answer.format(word="walrus")))
        assert "walrus" in answer_text(outputs), f"{otherwise}: {outputs!r}"

    async def said(self, outputs: AsyncIterator[Output]) -> str:
        """The text of a run until it has said the word; then its reader leaves it."""
        heard: list[Output] = []
        async with asyncio.timeout(self.subject.soon_s):
            async for output in outputs:
                heard.append(output)
                if "walrus" in answer_text(heard):
                    break
        close = getattr(outputs, "aclose", None)
        if close is not None:
            await close()
        return answer_text(heard)

    async def ends_soon(self, outputs: AsyncIterator[Output], when: str) -> None:
        try:
            async with asyncio.timeout(self.subject.soon_s):
                await _drain(outputs)
        except TimeoutError:
            raise AssertionError(f"{when}, the run still goes on") from None


def _check(message: str) -> Callable[[Callable[[Trial], Awaitable[None]]], Check]:
    """Make a check that needs this message of the subject; a subject without it passes."""

    def check_of(body: Callable[[Trial], Awaitable[None]]) -> Check:
        @wraps(body)
        async def check(subject: BackendSubject) -> None:
            if (text := getattr(subject, message)) is None:
                return
            made = subject.make()
            backend = await made if inspect.isawaitable(made) else made
            try:
                await body(Trial(subject, backend, text))
            finally:
                await backend.close()

        _checks.append(check)
        return check

    return check_of


async def check_backend(subject: BackendSubject) -> None:
    """All checks; raises AssertionError with what is wrong."""
    for check in BACKEND_CHECKS:
        await check(subject)


@_check("answer")
async def answers_and_ends(trial: Trial) -> None:
    await trial.answers("the answer lacks its word")


@_check("answer")
async def starts_at_once(trial: Trial) -> None:
    outputs = trial.backend.start(_turn(trial.text.format(word="walrus")))
    assert not inspect.isawaitable(outputs), "start is not a coroutine function"
    assert hasattr(outputs, "__anext__"), "start returns an async iterator"
    await _drain(outputs)


@_check("answer")
async def nothing_follows_the_end(trial: Trial) -> None:
    outputs = await run_turn(trial.backend, _turn(trial.text.format(word="walrus")))
    ends = [output for output in outputs if isinstance(output, ENDS_TURN)]
    assert ends in ([], outputs[-1:]), f"something follows the end: {outputs!r}"


@_check("answer")
async def runs_are_isolated(trial: Trial) -> None:
    words = [f"walrus{number}x" for number in range(8)]
    answers = await asyncio.gather(
        *(run_turn(trial.backend, _turn(trial.text.format(word=word))) for word in words)
    )
    for own, outputs in zip(words, answers, strict=True):
        said = answer_text(outputs)
        assert [word for word in words if word in said] == [own], f"{own} got {said!r}"


@_check("hang")
async def cancel_ends_the_run(trial: Trial) -> None:
    turn, outputs = await trial.begun(trial.text)
    await trial.backend.cancel(turn.run_id)
    await trial.ends_soon(outputs, "after cancel")
    await trial.backend.cancel(turn.run_id)


@_check("hang")
async def cancel_reaches_a_reader_that_waits(trial: Trial) -> None:
    turn, outputs = await trial.begun(trial.text)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(trial.ends_soon(outputs, "canceled while a reader waits"))
        await asyncio.wait({reading}, timeout=_WAITS_S)
        await trial.backend.cancel(turn.run_id)


@_check("hang")
async def cancel_ends_only_that_run(trial: Trial) -> None:
    doomed, doomed_outputs = await trial.begun(trial.text)
    other, other_outputs = await trial.begun(trial.text)
    await trial.backend.cancel(doomed.run_id)
    await trial.ends_soon(doomed_outputs, "after cancel")
    await trial.answers("a cancel disturbed another run")
    await trial.backend.cancel(other.run_id)
    await trial.ends_soon(other_outputs, "after cancel")


@_check("hang")
async def cancel_before_the_first_output_counts(trial: Trial) -> None:
    turn = _turn(trial.text)
    outputs = trial.backend.start(turn)
    await trial.backend.cancel(turn.run_id)
    await trial.ends_soon(outputs, "canceled before it began")


@_check("answer")
async def cancel_of_an_unknown_run_is_fine(trial: Trial) -> None:
    await trial.backend.cancel("no-such-run")
    turn = _turn(trial.text.format(word="walrus"))
    await run_turn(trial.backend, turn)
    await trial.backend.cancel(turn.run_id)


@_check("crash")
async def exceptions_come_out_of_the_iterator(trial: Trial) -> None:
    try:
        outputs = await run_turn(trial.backend, _turn(trial.text))
    except Exception:  # noqa: BLE001 - which one is the agent's business
        await trial.answers("a crash disturbed the next run")
    else:
        raise AssertionError(f"the agent crashed, and its run did not raise: {outputs!r}")


@_check("tool")
async def tools_tell_which_call_it_is(trial: Trial) -> None:
    outputs = await run_turn(trial.backend, _turn(trial.text))
    calls = [output for output in outputs if isinstance(output, ToolCalled)]
    assert calls, f"no tool was used: {outputs!r}"
    begun: set[tuple[str, str]] = set()
    for call in calls:
        assert call.is_known, f"a call needs an id, a name and a phase that is known: {call!r}"
        if call.phase == "start":
            begun.add((call.call_id, call.name))
        else:
            assert (call.call_id, call.name) in begun, f"a call that never started: {call!r}"


@_check("stages")
async def messages_are_kept_apart(trial: Trial) -> None:
    outputs = await run_turn(
        trial.backend, _turn(trial.text.format(first="walrus", second="otter"))
    )
    messages: list[list[Output]] = [[]]
    for output in outputs:
        if isinstance(output, StageStarted):
            messages.append([])
        messages[-1].append(output)
    texts = [text for text in map(answer_text, messages) if text.strip()]
    found = [[word for word in ("walrus", "otter") if word in text] for text in texts]
    assert found == [["walrus"], ["otter"]], f"not two messages: {texts!r}"


@_check("going_on")
async def a_resumed_run_says_all_it_has(trial: Trial) -> None:
    if not trial.backend.can_resume:
        return
    turn = structs.replace(_turn(trial.text.format(word="walrus")), session=FakeSession())
    assert "walrus" in await trial.said(trial.backend.start(turn))
    again = structs.replace(turn, is_resumed=True)
    # A restart would make another backend; the same one is enough to show the repeated output.
    outputs = trial.backend.start(again)
    assert "walrus" in await trial.said(outputs), "what was said is gone"
    await trial.backend.cancel(turn.run_id)


@_check("answer")
async def close_ends_what_runs(trial: Trial) -> None:
    if trial.subject.hang is not None:
        _, outputs = await trial.begun(trial.subject.hang)
        async with asyncio.timeout(trial.subject.soon_s):
            await trial.backend.close()
        await trial.ends_soon(outputs, "after close")
    await trial.backend.close()


BACKEND_CHECKS: tuple[Check, ...] = tuple(_checks)


def _turn(text: str) -> TurnRequest:
    number = next(_numbers)
    # Each in its own conversation: an agent may have only one turn of a conversation at a time.
    return turn_request(
        text, run_id=f"run-{number}", task_id=f"task-{number}", context_id=f"context-{number}"
    )


async def _drain(outputs: AsyncIterator[Output]) -> None:
    async for _ in outputs:
        pass

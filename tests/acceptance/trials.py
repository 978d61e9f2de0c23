"""What every agent must do behind a gateway, with real processes.

A trial is a coroutine that takes a gateway and a `Subject`. `cases` has those of each subject
that its agent can do at all; small programs and the real ones go through the same.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import Struct
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import Gateway
from tests.acceptance.raw import Stream, call, message_params, send, streamed

WARDEN = "watch_groups.py"


def kill_programs(gateway: Gateway) -> None:
    """End what the gateway has started, without warning."""
    for pid in programs_of(gateway):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Subject(Struct, frozen=True, kw_only=True):
    """An agent, and messages that make it do what a trial needs."""

    agent: str
    # Goes on for a long time. `begins` when something of it shows at once.
    slow: str
    begins: bool = True
    fail: str
    reason: str
    tool: str = ""
    tool_name: str = ""
    # Asks the caller, who reads `asks` and may say any of `answers`.
    ask: str = ""
    asks: str = "permission"
    answers: tuple[str, ...] = ("1", "No")
    # What an answer comes to after a restart: its state, and words that the caller reads.
    late: tuple[str, str] = ("TASK_STATE_FAILED", "restarted while it waited")
    # Tells what was said in the session before; empty for those that keep nothing.
    history: str = ""
    # Ends what runs behind the gateway, which is there again for the next message. None for
    # an agent that runs within it. Its caller then reads `killed`.
    kill: Callable[[Gateway], None] | None = kill_programs
    killed: str = "SIGKILL"

    @property
    def is_program(self) -> bool:
        return self.kill is kill_programs

    def can(self, trial: "Trial") -> bool:
        if trial in (ask, ask_and_cancel, ask_and_restart):
            return bool(self.ask)
        if trial is kill_mid_turn:
            return self.kill is not None
        if trial is stream:
            return self.begins
        return bool(self.tool) if trial is tool else True


async def reply(gateway: Gateway, subject: Subject) -> None:
    task = await send(gateway, "walrus", agent=subject.agent)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    assert "walrus" in text_of(task)


async def stream(gateway: Gateway, subject: Subject) -> None:
    async with streaming(gateway, subject, subject.slow) as events:
        task_id = await begun(events)
        # It shows while it runs.
        assert await state_of(gateway, subject, task_id) == "TASK_STATE_WORKING"
        await cancel(gateway, subject, task_id)


async def tool(gateway: Gateway, subject: Subject) -> None:
    task = await send(gateway, subject.tool, agent=subject.agent)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    names = [artifact.get("name", "") for artifact in task["artifacts"]]
    assert any(subject.tool_name in name for name in names), task["artifacts"]


async def ask(gateway: Gateway, subject: Subject) -> None:
    for answer in subject.answers:
        task = await send(gateway, subject.ask, agent=subject.agent)
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", task
        assert subject.asks in text_of(task)
        done = await send(gateway, answer, agent=subject.agent, taskId=task["id"])
        assert done["id"] == task["id"]
        assert done["status"]["state"] == "TASK_STATE_COMPLETED", done


async def ask_and_cancel(gateway: Gateway, subject: Subject) -> None:
    context = str(uuid4())
    task = await send(gateway, subject.ask, agent=subject.agent, contextId=context)
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", task
    await cancel(gateway, subject, task["id"])
    # The session goes on, and its process is free.
    again = await send(gateway, "walrus", agent=subject.agent, contextId=context)
    assert "walrus" in text_of(again)


async def ask_and_restart(gateway: Gateway, subject: Subject) -> None:
    """A question is still there, or the caller is told that it is lost."""
    task = await send(gateway, subject.ask, agent=subject.agent)
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", task
    gateway.kill()
    gateway.start()
    done = await send(gateway, subject.answers[0], agent=subject.agent, taskId=task["id"])
    state, words = subject.late
    assert done["status"]["state"] == state, done
    assert words in text_of(done)
    again = await send(gateway, "walrus", agent=subject.agent, contextId=task["contextId"])
    assert "walrus" in text_of(again)


async def cancel_mid_run(gateway: Gateway, subject: Subject) -> None:
    context = str(uuid4())
    async with streaming(gateway, subject, subject.slow, contextId=context) as events:
        task_id = await begun(events) if subject.begins else await started(events)
        await cancel(gateway, subject, task_id)
        *_, last = await events.events()
    assert last.state == "TASK_STATE_CANCELED"
    again = await send(gateway, "walrus", agent=subject.agent, contextId=context)
    assert again["status"]["state"] == "TASK_STATE_COMPLETED", again
    assert "walrus" in text_of(again)


async def failure(gateway: Gateway, subject: Subject) -> None:
    task = await send(gateway, subject.fail, agent=subject.agent)
    assert task["status"]["state"] == "TASK_STATE_FAILED", task
    told = task["status"]["message"]["parts"][0]["text"]
    assert subject.reason in told, told
    assert not any(word in told for word in ("Traceback", "/", "secret", "boom")), told


async def kill_mid_turn(gateway: Gateway, subject: Subject) -> None:
    context = str(uuid4())
    async with streaming(gateway, subject, subject.slow, contextId=context) as events:
        task_id = await begun(events) if subject.begins else await started(events)
        await _is_under_way(gateway, subject)
        assert subject.kill is not None
        await asyncio.to_thread(subject.kill, gateway)
        *_, last = await events.events()
    assert last.state == "TASK_STATE_FAILED"
    task = (await call(gateway, "GetTask", {"id": task_id}, agent=subject.agent))["result"]
    assert subject.killed in text_of(task)
    again = await send(gateway, "walrus", agent=subject.agent, contextId=context)
    assert "walrus" in text_of(again)


async def restart(gateway: Gateway, subject: Subject) -> None:
    """The gateway is killed in the middle of a turn, and what it runs dies with it."""
    context = str(uuid4())
    first = await send(gateway, "otter", agent=subject.agent, contextId=context)
    assert first["status"]["state"] == "TASK_STATE_COMPLETED", first
    async with streaming(gateway, subject, subject.slow, contextId=context) as events:
        task_id = await begun(events) if subject.begins else await started(events)
        await _is_under_way(gateway, subject)
        orphans = programs_of(gateway)
        gateway.kill()
    await eventually(lambda: _are_gone(orphans))
    gateway.start()
    assert await state_of(gateway, subject, task_id) == "TASK_STATE_FAILED"
    again = await send(gateway, subject.history or "walrus", agent=subject.agent, contextId=context)
    assert again["status"]["state"] == "TASK_STATE_COMPLETED", again
    assert ("otter" if subject.history else "walrus") in text_of(again)


Trial = Callable[[Gateway, Subject], Awaitable[None]]
TRIALS: tuple[Trial, ...] = (
    reply,
    stream,
    tool,
    ask,
    ask_and_cancel,
    ask_and_restart,
    cancel_mid_run,
    failure,
    kill_mid_turn,
    restart,
)


def cases(subjects: Mapping[str, Subject]) -> Iterable[Any]:
    """Parameters `subject` and `trial` of a test."""
    return [
        pytest.param(subject, trial, id=f"{name}-{trial.__name__}")
        for name, subject in subjects.items()
        for trial in TRIALS
        if subject.can(trial)
    ]


def text_of(task: dict[str, Any]) -> str:
    parts = task["status"].get("message", {}).get("parts", [])
    return "\n".join(part.get("text", "") for part in parts)


def streaming(gateway: Gateway, subject: Subject, text: str, **message: Any) -> Any:
    params = message_params(text, **message)
    return streamed(gateway, "SendStreamingMessage", params, agent=subject.agent)


async def started(events: Stream) -> str:
    """The id of the task."""
    first = await events.event()
    return str(first.result["task"]["id"])


async def begun(events: Stream) -> str:
    """The id of the task, once the agent has said or done something."""
    task_id = await started(events)
    while "artifactUpdate" not in (await events.event()).result:
        pass
    return task_id


async def cancel(gateway: Gateway, subject: Subject, task_id: str) -> None:
    answer = await call(gateway, "CancelTask", {"id": task_id}, agent=subject.agent)
    task = answer["result"]
    assert task["status"]["state"] == "TASK_STATE_CANCELED", answer
    # It really stopped: the gateway would say otherwise.
    assert "did not stop" not in text_of(task)


async def state_of(gateway: Gateway, subject: Subject, task_id: str) -> str:
    answer = await call(gateway, "GetTask", {"id": task_id}, agent=subject.agent)
    return str(answer["result"]["status"]["state"])


def programs_of(gateway: Gateway) -> list[int]:
    """The agents' processes that the gateway has started."""
    return [pid for pid, command in children_of(gateway.process.pid) if WARDEN not in command]


def children_of(parent: int) -> Iterator[tuple[int, str]]:
    """The processes that it has started, and their command lines."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # Names and arguments of other processes may hold any bytes.
                stat = entry.joinpath("stat").read_text(errors="replace")
                if int(stat.rpartition(")")[2].split()[1]) == parent:
                    command = entry.joinpath("cmdline").read_text(errors="replace")
                    yield int(entry.name), command


async def _is_under_way(gateway: Gateway, subject: Subject) -> None:
    """A program runs, if there is to be one."""

    async def runs() -> bool:
        return not subject.is_program or bool(programs_of(gateway))

    await eventually(runs)


async def _are_gone(pids: list[int]) -> bool:
    await asyncio.sleep(0)
    return not any(is_running(pid) for pid in pids)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        state = stat.rpartition(")")[2].split()[0]
        # The first thread may have ended before the others: the process ends with the last.
        return state != "Z" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False

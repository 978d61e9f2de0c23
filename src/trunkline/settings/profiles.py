"""Which keys of a profile go together."""

from collections.abc import Iterator, Mapping

from trunkline.config.problems import Path, Problem, shown
from trunkline.settings.agents import AgentSettings


def profile_problems(agents: Mapping[str, AgentSettings]) -> Iterator[Problem]:
    for handle, agent in agents.items():
        path = ("agents", handle)
        yield from _versions(agent, path)
        yield from _openclaw(agent, path)
        yield from _waiting(agent, path)
        yield from _answers(agent, path)
        yield from _restart(agent, path)
        yield from _addresses(agent, path)


def _misfit(path: Path, key: str, value: object, what: str, remedy: str, *reads: str) -> Problem:
    return Problem(
        path=(*path, key),
        value=shown(value),
        what=what,
        remedy=remedy,
        reads=tuple((*path, read) for read in reads),
    )


def _versions(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    spoken = {"v1.0": "1.0", "v0.3": "0.3", "v0.3-legacy": "0.3"}.get(agent.dialect)
    # The other way round is the letter of A2A 1.0: a request without a version is refused.
    if spoken == "0.3" and agent.default_version != "0.3":
        yield _misfit(
            path,
            "default_version",
            agent.default_version,
            f'dialect = "{agent.dialect}" speaks {spoken} alone',
            f'Set default_version = "{spoken}", or dialect = "auto".',
            "dialect",
        )
    if spoken == "0.3" and agent.tenants:
        yield _misfit(
            path,
            "tenants",
            list(agent.tenants),
            "A2A 0.3 has no tenants, and the dialect speaks no other version",
            'Remove the tenants, or set dialect = "auto".',
            "dialect",
        )


def _openclaw(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    """What only the 0.3 of an OpenClaw can mean."""
    for key, value in (
        ("error_style", agent.error_style),
        ("message_checks", agent.message_checks),
    ):
        if value == "openclaw-inbound" and agent.dialect in ("auto", "v1.0"):
            yield _misfit(
                path,
                key,
                value,
                f'is of A2A 0.3, and dialect = "{agent.dialect}" speaks 1.0',
                f'Set dialect = "v0.3" and default_version = "0.3", or leave {key} out.',
                "dialect",
            )


def _waiting(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    if agent.busy == "fail" and agent.queued_send == "return":
        yield _misfit(
            path,
            "queued_send",
            agent.queued_send,
            'nothing ever waits with busy = "fail"',
            'Set busy = "queue", or leave queued_send out.',
            "busy",
        )
    if agent.busy == "fail" and agent.overflow == "error":
        yield _misfit(
            path,
            "overflow",
            agent.overflow,
            'no queue is ever full with busy = "fail"',
            'Set busy = "queue", or leave overflow out.',
            "busy",
        )
    if agent.stateless_context == "echo" and agent.context_mode != "stateless":
        yield _misfit(
            path,
            "stateless_context",
            agent.stateless_context,
            f'context_mode = "{agent.context_mode}" takes every contextId',
            'Set context_mode = "stateless", or leave stateless_context out.',
            "context_mode",
        )
    if agent.reply_wait_s > agent.task_deadline_s:
        yield _misfit(
            path,
            "reply_wait_s",
            agent.reply_wait_s,
            f"is longer than a task may run, task_deadline_s = {agent.task_deadline_s:g}",
            "Make it shorter, or 0 to wait for the task.",
            "task_deadline_s",
        )
    if agent.on_reply_wait == "fail" and not agent.reply_wait_s:
        yield _misfit(
            path,
            "on_reply_wait",
            agent.on_reply_wait,
            "has no effect while reply_wait_s is 0",
            "Set reply_wait_s to the seconds to wait, or leave on_reply_wait out.",
            "reply_wait_s",
        )
    if agent.cancel == "unsupported" and agent.cancel_terminal == "passthrough":
        yield _misfit(
            path,
            "cancel_terminal",
            agent.cancel_terminal,
            'no task can be canceled with cancel = "unsupported"',
            'Set cancel = "supported", or leave cancel_terminal out.',
            "cancel",
        )


def _answers(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    if agent.promote_after_ms and agent.agent_style != "hybrid":
        yield _misfit(
            path,
            "promote_after_ms",
            agent.promote_after_ms,
            "only a run that may stay without a task can become one",
            'Set agent_style = "hybrid", or leave promote_after_ms out.',
            "agent_style",
        )
    places = agent.result_in
    if "history" in places and "status" not in places:
        yield _misfit(
            path,
            "result_in",
            list(places),
            "history keeps the message of the status, and there would be none",
            'Add "status", or take "history" out.',
        )
    if "artifact" not in places and "status" not in places:
        yield _misfit(
            path,
            "result_in",
            list(places),
            "an answer needs a place where clients find it",
            'Add "artifact" or "status".',
        )
    if "artifact" not in places and agent.stream_shape == "events":
        yield _misfit(
            path,
            "result_in",
            list(places),
            'stream_shape = "events" streams the answer as an artifact',
            'Add "artifact", or set stream_shape = "status-text".',
            "stream_shape",
        )


def _restart(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    policies = set(agent.on_restart)
    running = policies - {"resume_queued", "resume_running"}
    if len(running) != 1 or len(agent.on_restart) != len(policies):
        yield _misfit(
            path,
            "on_restart",
            list(agent.on_restart),
            "needs exactly one word for running tasks",
            'Name one of "fail_running", "retry_running" and "leave_orphaned", and before it '
            '"resume_queued" to continue waiting tasks, and "resume_running" to resume running '
            "tasks if the backend can.",
        )


def _addresses(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    if agent.addresses == "exact" and agent.rest_path:
        yield _misfit(
            path,
            "rest_path",
            agent.rest_path,
            'addresses = "exact" serves no HTTP+JSON binding',
            'Remove rest_path, or set addresses = "all".',
            "addresses",
        )

"""Profiles: their presets, and the rules about keys that contradict each other."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trunkline.config.problems import Problem, bad_value
from trunkline.model.profile import Profile
from trunkline.settings import hub_profile
from trunkline.settings.agents import AgentSettings
from trunkline.settings.openclaw import profile as openclaw

# The keys in which a preset differs from `standard`.
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "standard": {},
    **openclaw.PRESETS,
    hub_profile.HUB: hub_profile.PRESET,
}

# Keys of features that are still to come, and the name of each feature.
NOT_AVAILABLE: Final[dict[str, str]] = {
    "push": "push notifications",
    "auth": "authentication per agent",
    "mode": "relay mode",
    "relay": "relay mode",
    "response_ttl_s": "response routing",
    "handles_ttl_s": "task handles",
}


def preset(name: str, **changes: Any) -> Profile:
    """The preset with some keys set differently."""
    return openclaw.ProfileSettings(**{**PRESETS[name], **changes}).own_profile()


# A key, what is wrong with its value, the remedy, and the keys that it contradicts.
Contradiction = tuple[str, ...]


def profile_problems(agents: Mapping[str, AgentSettings]) -> Iterator[Problem]:
    for handle, agent in agents.items():
        for find in (_versions, _styles, _waiting, _answers, _restart, _addresses):
            for key, what, remedy, *reads in find(agent):
                yield bad_value(
                    ("agents", handle, key),
                    what,
                    remedy,
                    reads=tuple(("agents", handle, read) for read in reads),
                )


def _versions(agent: AgentSettings) -> Iterator[Contradiction]:
    spoken = {"v1.0": "1.0", "v0.3": "0.3", "v0.3-legacy": "0.3"}.get(agent.dialect)
    # `v1.0` with the default 0.3 is allowed: it refuses requests without a version (A2A §3.6.2).
    if spoken == "0.3" and agent.default_version != "0.3":
        yield (
            "default_version",
            f'dialect = "{agent.dialect}" speaks {spoken} alone',
            f'Set default_version = "{spoken}", or dialect = "auto".',
            "dialect",
        )
    if spoken == "0.3" and agent.tenants:
        yield (
            "tenants",
            "A2A 0.3 has no tenants, and the dialect speaks no other version",
            'Remove the tenants, or set dialect = "auto".',
            "dialect",
        )


def _styles(agent: AgentSettings) -> Iterator[Contradiction]:
    """Styles that only one version of A2A has."""
    is_v03 = agent.dialect not in ("auto", "v1.0")
    if agent.wire_style == hub_profile.HUB:
        yield from _hub_style(agent, is_v03=is_v03)
    for key, standard in (("error_style", "standard"), ("message_checks", "strict")):
        if getattr(agent, key) != standard and not is_v03:
            yield (
                key,
                f'is of A2A 0.3, and dialect = "{agent.dialect}" speaks 1.0',
                f'Set dialect = "v0.3" and default_version = "0.3", or leave {key} out.',
                "dialect",
            )


def _hub_style(agent: AgentSettings, *, is_v03: bool) -> Iterator[Contradiction]:
    if is_v03 or agent.default_version == "0.3":
        key = "dialect" if is_v03 else "default_version"
        yield (
            "wire_style",
            f'is of requests that state no version, and {key} = "{getattr(agent, key)}" takes '
            "them for A2A 0.3",
            'Set wire_style = "standard", or leave dialect and default_version out.',
            key,
        )
    if agent.agent_style != "task-generating":
        yield (
            "wire_style",
            f'has no form for a message, and with agent_style = "{agent.agent_style}" an agent '
            "may answer with one",
            'Set agent_style = "task-generating", or wire_style = "standard".',
            "agent_style",
        )


def _waiting(agent: AgentSettings) -> Iterator[Contradiction]:
    if agent.busy == "fail" and agent.queued_send == "return":
        yield (
            "queued_send",
            'nothing ever waits with busy = "fail"',
            'Set busy = "queue", or leave queued_send out.',
            "busy",
        )
    if agent.busy == "fail" and agent.overflow == "error":
        yield (
            "overflow",
            'no queue is ever full with busy = "fail"',
            'Set busy = "queue", or leave overflow out.',
            "busy",
        )
    if agent.stateless_context == "echo" and agent.context_mode != "stateless":
        yield (
            "stateless_context",
            f'context_mode = "{agent.context_mode}" takes every contextId',
            'Set context_mode = "stateless", or leave stateless_context out.',
            "context_mode",
        )
    if agent.reply_wait_s > agent.task_deadline_s:
        yield (
            "reply_wait_s",
            f"is longer than a task may run, task_deadline_s = {agent.task_deadline_s:g}",
            "Make it shorter, or 0 to wait for the task.",
            "task_deadline_s",
        )
    if agent.on_reply_wait == "fail" and not agent.reply_wait_s:
        yield (
            "on_reply_wait",
            "has no effect while reply_wait_s is 0",
            "Set reply_wait_s to the seconds to wait, or leave on_reply_wait out.",
            "reply_wait_s",
        )
    if agent.cancel == "unsupported" and agent.cancel_terminal == "passthrough":
        yield (
            "cancel_terminal",
            'no task can be canceled with cancel = "unsupported"',
            'Set cancel = "supported", or leave cancel_terminal out.',
            "cancel",
        )


def _answers(agent: AgentSettings) -> Iterator[Contradiction]:
    if agent.promote_after_ms and agent.agent_style != "hybrid":
        yield (
            "promote_after_ms",
            "only a run that may stay without a task can become one",
            'Set agent_style = "hybrid", or leave promote_after_ms out.',
            "agent_style",
        )
    places = agent.result_in
    if "history" in places and "status" not in places:
        yield (
            "result_in",
            "history keeps the message of the status, and there would be none",
            'Add "status", or take "history" out.',
        )
    if "artifact" not in places and "status" not in places:
        yield (
            "result_in",
            "an answer needs a place where clients find it",
            'Add "artifact" or "status".',
        )
    if "artifact" not in places and agent.stream_shape == "events":
        yield (
            "result_in",
            'stream_shape = "events" streams the answer as an artifact',
            'Add "artifact", or set stream_shape = "status-text".',
            "stream_shape",
        )


def _restart(agent: AgentSettings) -> Iterator[Contradiction]:
    policies = set(agent.on_restart)
    running = policies - {"resume_queued", "resume_running"}
    if len(running) != 1 or len(agent.on_restart) != len(policies):
        yield (
            "on_restart",
            "needs exactly one word for running tasks",
            'Name one of "fail_running", "retry_running" and "leave_orphaned", and before it '
            '"resume_queued" to continue waiting tasks, and "resume_running" to resume running '
            "tasks if the backend can.",
        )


def _addresses(agent: AgentSettings) -> Iterator[Contradiction]:
    if agent.addresses == "exact" and agent.rest_path:
        yield (
            "rest_path",
            'addresses = "exact" serves no HTTP+JSON binding',
            'Remove rest_path, or set addresses = "all".',
            "addresses",
        )

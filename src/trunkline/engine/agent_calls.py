"""`read_call` and `read_poll`: what an agent may ask of another one, and in what form.

The arguments of a call were written by a model, so all of them are checked, and none of them
decides who gets the answer.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.engine.plain_json import TooDeep, plain

# Where the answer to a call goes: to the session of the caller, to its channel, or to both.
Delivery: TypeAlias = Literal["session", "channel", "dual"]
# Where a copy of an answer goes: to the task of the turn that asked, as a later reply of its agent,
# or into the log of the gateway.
Channel: TypeAlias = Literal["a2a", "log"]
# What becomes of a call whose agent crashed: an error at once, or the timeout when it comes.
OnCrash: TypeAlias = Literal["error", "wait_for_timeout"]
# The tools by which an agent asks others. `routing.tools` has a definition of each.
CallTool: TypeAlias = Literal["agent_call", "agent_poll", "agent_call_batch", "debate_call"]

# Before the alias of a target, in the name by which it is called.
TARGET: Final = "target:"

_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}(/[a-z0-9_-]{1,64})?|target:[a-z0-9_-]{1,64}")
_SESSION: Final = re.compile(r"agent:([a-z0-9_-]{1,64}):.+", re.DOTALL)
_SKILL: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
# Of a task, or of a call.
_ID: Final = re.compile(r"[!-~]{1,256}")
_ARGUMENTS: Final = frozenset(
    ("agent", "skill", "input", "mode", "timeout", "timeoutSeconds", "wait", "taskId")
)
_POLL_ARGUMENTS: Final = frozenset(("taskId", "correlationId"))
# Models need not know these, because the gateway decides about them: `returnTo` must be right where
# it is given, and `correlationId` is ignored.
OF_GATEWAY: Final = frozenset(("returnTo", "correlationId"))
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class CallLimits(Struct, frozen=True, kw_only=True):
    timeout_s: float = 60.0
    max_timeout_s: float = 300.0
    # The longest time for all calls of a batch or of a debate together.
    max_total_timeout_s: float = 1800.0
    # How much longer than its timeout the outcome of a call is kept.
    grace_s: float = 60.0
    # Through how many agents a call may come, and how many calls of this gateway may lead to it.
    max_hops: int = 5
    max_depth: int = 5
    # How many turns in a row may begin with an answer, and not with a message from outside.
    max_turns: int = 20
    max_input_bytes: int = 1024 * 1024
    on_callee_crash: OnCrash = "error"


class CallPolicy(Struct, frozen=True, kw_only=True):
    """What the configuration says of an agent that calls others."""

    # Patterns of `owner/slug` or `owner/slug#skill`, and of targets: `target:alias`.
    may_call: tuple[str, ...] = ("*",)
    delivery: Delivery = "session"
    # The channel that gets copies of answers.
    channel: Channel = "a2a"
    # Whether an answer also begins the next turn of the session.
    starts_turn: bool = False
    is_isolated: bool = False


class AgentCall(Struct, frozen=True, kw_only=True):
    """A call as it is asked for, checked."""

    # A handle, the slug of one, or the alias of a target, which may have `target:` before it.
    agent: str
    skill: str = ""
    mode: str = "execute"
    input: Any = None
    # 0 for a call that expects no answer.
    timeout_ms: int
    # Whether the caller waits for the answer.
    waits: bool = False
    # The task that waits for this input; empty for a new task.
    task_id: str = ""


class Poll(Struct, frozen=True, kw_only=True):
    """A question how a call stands, checked. One of the ids at least is not empty."""

    task_id: str
    call_id: str


class CallRefused(Exception):
    """`code` is for programs and does not change; `text` names the argument and the remedy."""

    def __init__(self, code: str, text: str, *, argument: str = "") -> None:
        """`argument` is the name of the one that is at fault, if there is one."""
        super().__init__(text)
        self.code = code
        self.text = text
        self.argument = argument

    def within(self, where: str) -> "CallRefused":
        """The same for arguments that are themselves in an argument."""
        argument = f"{where}.{self.argument}" if self.argument else where
        return CallRefused(self.code, f"{where}: {self.text}", argument=argument)


class NotNow(CallRefused):
    """The gateway cannot make the call at the moment. A later attempt may succeed."""


def read_call(arguments: Any, limits: CallLimits, *, session_key: str) -> AgentCall:
    """Raises CallRefused. `session_key` is that of the caller's session."""
    named = named_arguments(arguments, _ARGUMENTS, unlisted=OF_GATEWAY)
    check_return_to(named, session_key)
    waits = flag(named, "wait")
    timeout_ms = timeout_of(named, limits)
    if waits and not timeout_ms:
        raise invalid("wait needs a timeout above 0", "wait")
    return AgentCall(
        agent=name_of_agent(named.get("agent"), "agent"),
        skill=name_of_skill(named.get("skill"), "skill"),
        mode=name_of_skill(named.get("mode"), "mode") or "execute",
        input=checked_input(named.get("input"), limits),
        timeout_ms=timeout_ms,
        waits=waits,
        task_id=_id(named.get("taskId"), "taskId"),
    )


def read_poll(arguments: Any) -> Poll:
    """Raises CallRefused."""
    named = named_arguments(arguments, _POLL_ARGUMENTS)
    task_id = _id(named.get("taskId"), "taskId")
    call_id = _id(named.get("correlationId"), "correlationId")
    if not task_id and not call_id:
        raise invalid("name the taskId or the correlationId of the call, as agent_call returned")
    return Poll(task_id=task_id, call_id=call_id)


def named_arguments(
    arguments: Any, known: frozenset[str], *, unlisted: frozenset[str] = frozenset()
) -> Mapping[str, Any]:
    """The arguments by name. Raises CallRefused for one that is neither known nor `unlisted`."""
    if not isinstance(arguments, Mapping):
        raise invalid("the arguments must be a JSON object")
    for name in arguments:
        if name not in known and name not in unlisted:
            shown = ascii(name if isinstance(name, str) else "")[1:-1][:64]
            listed = ", ".join(sorted(known))
            raise invalid(f"{shown} is not an argument; there is: {listed}", shown)
    return arguments


def check_return_to(named: Mapping[str, Any], session_key: str) -> None:
    """Raises CallRefused for a session that is not that of the caller."""
    return_to = named.get("returnTo")
    if return_to is not None and return_to != session_key:
        raise CallRefused(
            "return_to_refused",
            "returnTo is not the session of this turn; leave it out, the gateway knows the session",
            argument="returnTo",
        )


def flag(named: Mapping[str, Any], name: str, *, otherwise: bool = False) -> bool:
    value = named.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, bool):
        raise invalid(f"{name} must be true or false", name)
    return value


def _id(value: Any, argument: str) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise invalid(
            f"{argument} must be an id as agent_call returned it: at most 256 letters, digits and "
            "signs, without spaces",
            argument,
        )
    return value


def name_of_agent(value: Any, argument: str) -> str:
    """An agent, by its handle, its slug, the alias of a target, or the key of a session of it."""
    text = value.strip().lower() if isinstance(value, str) else ""
    session = _SESSION.fullmatch(text)
    name = session[1] if session is not None else text
    if not _NAME.fullmatch(name):
        raise invalid(
            f"{argument} must name an agent, such as owner/slug: letters, digits, hyphens and "
            "underscores, at most 64 each",
            argument,
        )
    return name


def target_name(alias: str) -> str:
    """The name by which agents call the target; empty for an alias that cannot be one."""
    name = f"{TARGET}{alias.lower()}"
    return name if _NAME.fullmatch(name) else ""


def name_of_skill(value: Any, argument: str) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not _SKILL.fullmatch(value):
        raise invalid(
            f"{argument} must be letters, digits, hyphens and underscores, at most 128 of them",
            argument,
        )
    return value


def checked_input(value: Any, limits: CallLimits) -> Any:
    """The input as JSON, independent of the caller's objects. Raises CallRefused for what is no
    JSON, or too large."""
    try:
        encoded = _encode(value)
        if len(encoded) <= limits.max_input_bytes:
            return plain(_decode(encoded))
    except (TooDeep, RecursionError):
        raise _bad_input("is nested too deep; send it as a text, or less of it") from None
    except UnicodeEncodeError:
        raise _bad_input("has half a character (a lone surrogate); leave it out") from None
    except (TypeError, ValueError, OverflowError):
        # The text of the error may show the input.
        raise _bad_input(
            "is not JSON; send texts, numbers, true, false, null, and lists and objects of them"
        ) from None
    raise _bad_input(
        f"has {len(encoded)} bytes as JSON, and at most {limits.max_input_bytes} are allowed; "
        "send less, or the address of the data"
    )


def timeout_of(named: Mapping[str, Any], limits: CallLimits) -> int:
    """The timeout of a call in milliseconds: never above the limit."""
    wanted = milliseconds(named, "timeout")
    if wanted is None:
        wanted = round(limits.timeout_s * 1000)
    return min(wanted, round(limits.max_timeout_s * 1000))


def milliseconds(named: Mapping[str, Any], name: str) -> int | None:
    """The time that an argument of this name states, or one with `Seconds` after its name."""
    found: dict[str, int] = {}
    for argument, factor in ((name, 1), (f"{name}Seconds", 1000)):
        value = named.get(argument)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            unit = "milliseconds" if factor == 1 else "seconds"
            raise invalid(f"{argument} must be a number of {unit}, 0 or more", argument)
        # A fraction of a millisecond is not "no answer expected".
        found[argument] = max(round(value * factor), 1 if value else 0)
    if len({*found.values()}) > 1:
        raise invalid(f"{name} and {name}Seconds differ; name one of them", name)
    return next(iter(found.values()), None)


def allows(policy: CallPolicy, callee: str, skill: str) -> bool:
    """Whether the agent with the policy may call the other one. A pattern without a skill allows
    all of them. A target is called with credentials of the configuration, so only a pattern of
    targets allows it."""
    for pattern in policy.may_call:
        agent, _, of_skill = pattern.partition("#")
        if agent.startswith(TARGET) != callee.startswith(TARGET):
            continue
        if fnmatchcase(callee, agent) and (not of_skill or fnmatchcase(skill, of_skill)):
            return True
    return False


def why_too_deep(limits: CallLimits, *, hops: int, depth: int) -> CallRefused | None:
    """`hops` agents led to this call, by `depth` calls of this gateway."""
    if hops > limits.max_hops:
        return CallRefused(
            "too_many_hops",
            f"this call would come through {hops} agents, and at most {limits.max_hops} may call "
            "each other for one request",
        )
    if depth > limits.max_depth:
        return CallRefused(
            "too_deep",
            f"{depth} calls would lead to this turn, and at most {limits.max_depth} may",
        )
    return None


def _bad_input(text: str) -> CallRefused:
    return CallRefused("input_validation_failed", f"input {text}", argument="input")


def invalid(text: str, argument: str = "") -> CallRefused:
    return CallRefused("validation_failed", text, argument=argument)

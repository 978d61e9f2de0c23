"""Recovery of a run: its outcome after a lost connection or a restart, and the next step.

A turn may have had effects in the world. So the gateway sends it again only if that cannot start it
twice: OpenClaw still knows the run by our id, or says that it never began.
"""

from enum import Enum
from typing import Any, Final

from msgspec import Struct

from trunkline.backends.json_values import table, tables
from trunkline.backends.openclaw.frames import message_text

# OpenClaw forgets the id of a finished run after five minutes. A run that is sent again later
# starts anew.
REMEMBERED_S: Final = 240.0
LOST: Final = (
    "OpenClaw restarted while this task was working, and its result is lost. The turn was not "
    "repeated; send the message again."
)


class Action(Enum):
    FOLLOW = "follow"  # it runs: listen, and wait for its end
    SEND = "send"  # send it (again): it did not begin, or is known by its id
    FINISH = "finish"  # it is done, and this is its answer
    FAIL = "fail"  # it failed
    STOPPED = "stopped"  # another operator or caller stopped it
    ADOPT = "adopt"  # OpenClaw itself goes on with it, under another id
    GIVE_UP = "give up"  # its outcome cannot be known


class Verdict(Struct, frozen=True):
    action: Action
    # The answer, or the reason of the failure.
    text: str = ""
    # The id under which OpenClaw continues the run, if it is known already.
    run_id: str = ""


class Seen(Struct, frozen=True, kw_only=True):
    """The facts that the gateway has about a run."""

    run_id: str
    message: str
    # Whether OpenClaw has not restarted since it got the run.
    same_boot: bool
    # Whether this OpenClaw says in its history which message belongs to which run.
    attributes: bool
    # Seconds since the gateway last saw the run, in which it may have ended.
    unseen_s: float


def judge(seen: Seen, history: dict[str, Any], waited: dict[str, Any]) -> Verdict:
    """`history` is the answer of chat.history, `waited` that of agent.wait without waiting."""
    told = _Told(history, seen.run_id)
    if told.in_flight_id == seen.run_id:
        return Verdict(Action.FOLLOW, told.in_flight_text)
    status = waited.get("status")
    if status == "ok":
        reply = _reply_in(waited) or told.answer or told.last_answer_to(seen.message)
        return Verdict(Action.FINISH, reply)
    if status == "error":
        if waited.get("stopReason") == "rpc":
            return Verdict(Action.STOPPED)
        return Verdict(Action.FAIL, str(waited.get("error", "")))
    if told.answer:
        return Verdict(Action.FINISH, told.answer)
    if seen.same_boot and seen.unseen_s < REMEMBERED_S:
        return Verdict(Action.SEND)
    if not seen.attributes:
        return Verdict(Action.GIVE_UP)
    if not told.has_begun:
        return Verdict(Action.SEND)
    if told.went_on_as and told.went_on_as == told.in_flight_id:
        return Verdict(Action.ADOPT, told.in_flight_text, told.went_on_as)
    if seen.same_boot:
        return Verdict(Action.FOLLOW if told.is_busy else Action.GIVE_UP)
    return Verdict(Action.ADOPT)


class _Told:
    """The traces of one run in the history of the session."""

    def __init__(self, history: dict[str, Any], run_id: str) -> None:
        self._messages = tables(history.get("messages"))
        in_flight = table(history.get("inFlightRun"))
        self.in_flight_id = str(in_flight.get("runId", ""))
        self.in_flight_text = str(in_flight.get("text", ""))
        self.is_busy = table(history.get("sessionInfo")).get("hasActiveRun") is True
        # The runs of the turn: ours, and those with which OpenClaw continued it.
        runs = [run_id]
        self.has_begun = False
        self.answer = ""
        for message in self._messages:
            own = _run_of(message)
            if message.get("role") == "user":
                if own == run_id:
                    self.has_begun = True
                elif self.has_begun and _is_recovery(message):
                    runs.append(own)
                elif self.has_begun:
                    break
            elif own in runs and message.get("stopReason") in ("stop", None):
                self.answer = message_text(message) or self.answer
        self.went_on_as = runs[-1] if len(runs) > 1 else ""

    def last_answer_to(self, text: str) -> str:
        """For a history without run ids: the answer after the last message, if that one is ours."""
        answer = ""
        for message in reversed(self._messages):
            if message.get("role") == "user":
                return answer if message_text(message).strip() == text.strip() else ""
            if message.get("role") == "assistant":
                answer = answer or message_text(message)
        return ""


def _run_of(message: dict[str, Any]) -> str:
    own = table(message.get("__openclaw"))
    if message.get("role") == "user":
        key = message.get("idempotencyKey") or own.get("idempotencyKey")
        return str(key).removesuffix(":user") if key else ""
    return str(own.get("runId", ""))


def _is_recovery(message: dict[str, Any]) -> bool:
    return table(message.get("provenance")).get("kind") == "internal_system"


def _reply_in(waited: dict[str, Any]) -> str:
    return str(table(waited.get("terminalReply")).get("text", ""))

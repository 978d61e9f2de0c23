"""Failures of a call: the exit code, and one or two sentences that end with the remedy."""

from typing import Final

from trunkline.cli.exit_codes import Exit
from trunkline.cli.output import one_line, program
from trunkline.cli.remote.invocation import Invocation
from trunkline.remote import (
    AddressRefused,
    BadPeerAnswer,
    InvalidTarget,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    StreamEnded,
    TransportUnsupported,
)
from trunkline.remote.http.request import origin_of

_NO_ACCESS: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "TOKEN_REFUSED"})
# A gateway may answer a wrong path with a list of its agents, which may be long.
_SAID_CHARS: Final = 400
_BASE: Final = "Give the base URL of an A2A agent, of its card or of one of its interfaces."


def explained(error: RemoteError, call: Invocation, *, is_card: bool = False) -> tuple[Exit, str]:
    """`is_card`: the card could not be fetched."""
    said, where = one_line(error.message).rstrip("."), _where(call)
    match error:
        case InvalidTarget():
            return Exit.WRONG_USE, f"{said}."
        case TransportUnsupported():
            return Exit.NOT_UNDERSTOOD, f"{said}. {_other_way(call)}"
        case AddressRefused():
            return Exit.UNREACHABLE, f"{where}: {said}."
        case PeerTimeout():
            remedy = "Try again, or allow more time with --timeout SECONDS."
            return Exit.TIMEOUT, f"{where}: {said}. {remedy}"
        case PeerUnreachable() | StreamEnded():
            remedy = _reach(error, call, is_card=is_card)
            return Exit.UNREACHABLE, f"{where}: {said}. {remedy}"
        case PeerRefused():
            return _refused(error, call, said, is_card=is_card)
        case _:
            return _unusable(error, call, said, is_card=is_card)


def _reach(error: PeerUnreachable | StreamEnded, call: Invocation, *, is_card: bool) -> str:
    """The remedy for an agent that cannot be reached."""
    is_elsewhere = error.address and error.address != origin_of(call.target.url).address
    if isinstance(error, PeerUnreachable):
        if error.reason == "TLS_FAILED":
            return "Check the URL and the certificate."
        if is_elsewhere and not is_card:
            return (
                f"Its card names the address {error.address}. If the agent is yours, check its "
                "public_url."
            )
    if error.task_id:
        return f"The task may still run: {call.command('watch', error.task_id)}"
    return "Is it running? Check the URL and the network."


def _unusable(
    error: RemoteError, call: Invocation, said: str, *, is_card: bool
) -> tuple[Exit, str]:
    """The client does not accept the answer of the agent."""
    where = _where(call)
    match error.reason:
        case "REDIRECT":
            return Exit.NOT_UNDERSTOOD, f"{where}: {said}."
        case "TOO_LARGE":
            remedy = ""
            if error.task_id:
                remedy = (
                    f" The task continues. Look at it: {call.command('status', error.task_id)} "
                    f"Stop it: {call.command('cancel', error.task_id)}"
                )
            return Exit.TOO_LARGE, f"{where}: {said}.{remedy}"
        case "BAD_SIGNATURE":
            remedy = "Check card_keys of the target, and who serves the card."
            return Exit.NOT_UNDERSTOOD, f"{where}: {said}. {remedy}"
        case _ if is_card and isinstance(error, BadPeerAnswer):
            why = said.removeprefix(f"{_no_agent(call)}: ")
            return Exit.NOT_UNDERSTOOD, f"{_no_agent(call)} ({why}). {_BASE}"
        case _:
            remedy = "The agent may be broken, or not an A2A agent."
            return Exit.NOT_UNDERSTOOD, f"the answer of {where} is not valid: {said}. {remedy}"


def _refused(error: PeerRefused, call: Invocation, said: str, *, is_card: bool) -> tuple[Exit, str]:
    where = _where(call)
    if error.reason == "CREDENTIALS_WITHHELD":
        return Exit.NO_ACCESS, f"{where} refuses access: {said}."
    if error.status in (401, 403) or error.reason in _NO_ACCESS:
        return Exit.NO_ACCESS, f"{where} refuses access: {said}.{_access(error, call)}"
    if is_card and error.status in (404, 405, 410):
        return Exit.NOT_UNDERSTOOD, f"{_no_agent(call)} ({_status(error, said)}). {_BASE}"
    match error.reason:
        case "AGENT_LOST":
            remedy = _way_on(error, call)
            return Exit.UNREACHABLE, f"{where} was lost while it answered: {said}. {remedy}"
        case "TASK_NOT_FOUND":
            return Exit.NOT_FOUND, f"{said}. List your tasks: {call.command('list')}"
        case "TASK_NOT_CANCELABLE":
            return Exit.REFUSED, f"{said}. A task that has ended cannot be canceled."
        case "VERSION_NOT_SUPPORTED":
            return Exit.NOT_UNDERSTOOD, f"{said}. {_other_way(call)}"
        case "UNSUPPORTED_OPERATION":
            return Exit.REFUSED, f"{where} cannot do that: {said}."
        case "METHOD_NOT_FOUND":
            remedy = (
                "Not every agent supports it; agents of A2A 0.3 cannot list tasks, for example."
            )
            return Exit.REFUSED, f"{where} cannot do that: {said}. {remedy}"
        case _:
            pass
    return Exit.REFUSED, f"{where} {_verb(error.status)}: {said}.{_remedy(error)}"


def _way_on(error: RemoteError, call: Invocation) -> str:
    """The remedy for an answer that broke off."""
    if task_id := error.task_id or call.task_id:
        return f"Follow it: {call.command('watch', task_id)}"
    if call.is_sent:
        return f"The message may have arrived. See: {call.command('list')}"
    return "Try again."


def _verb(status: int) -> str:
    if status == 503:
        return "is not available"
    return "has an internal problem" if status >= 500 else "refuses"


def _remedy(error: PeerRefused) -> str:
    if "try again" in error.message.lower():
        return ""
    if error.retry_after_s is not None:
        return f" Try again in {error.retry_after_s:.0f} s."
    if error.status == 413:
        return " Send less, or send a link to the file: --file https://…"
    return " Try again later, or ask its operator." if error.status >= 500 else ""


def _status(error: PeerRefused, said: str) -> str:
    """The status, and the words of the agent, which may name its cards."""
    status = f"status {error.status}"
    if said.endswith(status):
        return status
    return f"{status}: {said if len(said) <= _SAID_CHARS else said[:_SAID_CHARS] + '…'}"


def _where(call: Invocation) -> str:
    if call.target.url.endswith(call.named):
        return call.target.url
    return call.named if "://" in call.named else f"{call.named} ({call.target.url})"


def _no_agent(call: Invocation) -> str:
    return f"there is no agent card at {call.target.card_url}"


def _access(error: PeerRefused, call: Invocation) -> str:
    if call.target.credentials is None:
        return " Give a token with --token or TRUNKLINE_TOKEN, or a key with -H 'X-API-Key: …'."
    if error.reason != "PERMISSION_DENIED":
        return " The agent does not accept the credential: check it, or give another --token."
    # The agent knows the credential, and has said what it may not do.
    if "SendStreamingMessage" in error.message:
        return " Or send without a stream: --no-stream."
    return ""


def _other_way(call: Invocation) -> str:
    asked = [flag for flag in call.repeated if flag in ("--protocol", "--a2a-version")]
    if asked:
        return (
            f"Leave out {' and '.join(asked)}, or see what it offers: {program()} card {call.named}"
        )
    return "This version of trunkline speaks A2A 1.0 and 0.3 over JSON-RPC and HTTP+JSON."

"""What went wrong with a call, for people: one or two lines that end with the remedy."""

from typing import Final

from trunkline.cli.exits import Exit
from trunkline.cli.program import program
from trunkline.cli.remote.calling import Call
from trunkline.cli.remote.clean import one_line
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


def explained(error: RemoteError, call: Call, *, is_card: bool = False) -> tuple[Exit, str]:
    """`is_card`: the card could not be fetched."""
    said = one_line(error.message).rstrip(".")
    match error:
        case InvalidTarget():
            return Exit.WRONG_USE, f"{said}."
        case TransportUnsupported():
            return Exit.NOT_UNDERSTOOD, f"{said}. {_other_way(call)}"
        case AddressRefused():
            return Exit.UNREACHABLE, f"{_where(call)}: {said}."
        case PeerUnreachable(reason="TLS_FAILED"):
            return Exit.UNREACHABLE, f"{_where(call)}: {said}. Check the URL and the certificate."
        case PeerUnreachable() if not is_card and _is_elsewhere(error, call):
            remedy = (
                f"Its card names the address {error.address}. If the agent is yours, check its "
                "public_url."
            )
            return Exit.UNREACHABLE, f"{_where(call)}: {said}. {remedy}"
        case PeerUnreachable() | StreamEnded():
            remedy = "Is it running? Check the URL and the network."
            if error.task_id:
                remedy = f"The task may still run: {call.command('watch', error.task_id)}"
            return Exit.UNREACHABLE, f"{_where(call)}: {said}. {remedy}"
        case PeerTimeout():
            remedy = "Try again, or allow more time with --timeout SECONDS."
            return Exit.TIMEOUT, f"{_where(call)}: {said}. {remedy}"
        case PeerRefused():
            return _refused(error, call, said, is_card=is_card)
        case _:
            return _unusable(error, call, said, is_card=is_card)


def _unusable(error: RemoteError, call: Call, said: str, *, is_card: bool) -> tuple[Exit, str]:
    """An answer came, and is not taken."""
    match error.reason:
        case "REDIRECT":
            return Exit.NOT_UNDERSTOOD, f"{_where(call)}: {said}."
        case "TOO_LARGE":
            remedy = ""
            if error.task_id:
                remedy = (
                    f" The task continues. Look at it: {call.command('status', error.task_id)} "
                    f"Stop it: {call.command('cancel', error.task_id)}"
                )
            return Exit.TOO_LARGE, f"{_where(call)}: {said}.{remedy}"
        case "BAD_SIGNATURE":
            remedy = "Check card_keys of the target, and who serves the card."
            return Exit.NOT_UNDERSTOOD, f"{_where(call)}: {said}. {remedy}"
        case _ if is_card and isinstance(error, BadPeerAnswer):
            why = said.removeprefix(f"{_no_agent(call)}: ")
            return Exit.NOT_UNDERSTOOD, f"{_no_agent(call)} ({why}). {_BASE}"
        case _:
            what = f"the answer of {_where(call)} is not valid"
            return (
                Exit.NOT_UNDERSTOOD,
                f"{what}: {said}. The agent may be broken, or not an A2A agent.",
            )


# A gateway with many agents may name all of them where it has none.
_SAID_CHARS: Final = 400
_BASE: Final = "Give the base URL of an A2A agent, of its card or of one of its interfaces."


def _refused(error: PeerRefused, call: Call, said: str, *, is_card: bool) -> tuple[Exit, str]:
    if error.reason == "CREDENTIALS_WITHHELD":
        return Exit.NO_ACCESS, f"{_where(call)} refuses access: {said}."
    if error.status in (401, 403) or error.reason in _NO_ACCESS:
        return Exit.NO_ACCESS, f"{_where(call)} refuses access: {said}. {_credential(call)}"
    if is_card and error.status in (404, 405, 410):
        return Exit.NOT_UNDERSTOOD, f"{_no_agent(call)} ({_status(error, said)}). {_BASE}"
    match error.reason:
        case "TASK_NOT_FOUND":
            remedy = f"List your tasks: {call.command('list')}"
            return Exit.NOT_FOUND, f"{said}. {remedy}"
        case "TASK_NOT_CANCELABLE":
            return Exit.REFUSED, f"{said}. A task that has ended cannot be canceled."
        case "VERSION_NOT_SUPPORTED":
            return Exit.NOT_UNDERSTOOD, f"{said}. {_other_way(call)}"
        case "UNSUPPORTED_OPERATION":
            return Exit.REFUSED, f"{_where(call)} cannot do that: {said}."
        case "METHOD_NOT_FOUND":
            remedy = (
                "Not every agent supports it; agents of A2A 0.3 cannot list tasks, for example."
            )
            return Exit.REFUSED, f"{_where(call)} cannot do that: {said}. {remedy}"
        case _:
            pass
    remedy = ""
    if error.retry_after_s is not None:
        remedy = f" Try again in {error.retry_after_s:.0f} s."
    elif error.status == 413:
        remedy = " Send less, or send a link to the file: --file https://…"
    if error.status >= 500:
        remedy = remedy or " Try again later, or ask its operator."
        return Exit.REFUSED, f"{_where(call)} has an internal problem: {said}.{remedy}"
    return Exit.REFUSED, f"{_where(call)} refuses: {said}.{remedy}"


def _status(error: PeerRefused, said: str) -> str:
    """The status, and what the agent says of it: it may be where its cards are."""
    status = f"status {error.status}"
    if said.endswith(status):
        return status
    return f"{status}: {said if len(said) <= _SAID_CHARS else said[:_SAID_CHARS] + '…'}"


def _where(call: Call) -> str:
    if call.target.url.endswith(call.named):
        return call.target.url
    return call.named if "://" in call.named else f"{call.named} ({call.target.url})"


def _is_elsewhere(error: RemoteError, call: Call) -> bool:
    """Whether the connection that failed was not to the host of the target."""
    return bool(error.address) and error.address != origin_of(call.target.url).address


def _no_agent(call: Call) -> str:
    return f"there is no agent card at {call.target.card_url}"


def _credential(call: Call) -> str:
    if call.target.credentials is None:
        return "Give a token with --token or TRUNKLINE_TOKEN, or a key with -H 'X-API-Key: …'."
    return "The agent does not accept the credential: check it, or give another --token."


def _other_way(call: Call) -> str:
    asked = [flag for flag in call.flags if flag in ("--protocol", "--a2a-version")]
    if asked:
        return (
            f"Leave out {' and '.join(asked)}, or see what it offers: {program()} card {call.named}"
        )
    return "This version of trunkline speaks A2A 1.0 and 0.3 over JSON-RPC and HTTP+JSON."

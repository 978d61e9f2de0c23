"""`ModelFailure`: a sentence for the caller, and the remedy for the operator."""

from typing import Final

from trunkline.remote.errors import BadPeerAnswer, PeerTimeout, PeerUnreachable, RemoteError
from trunkline.remote.retries import LONGEST_RETRY_AFTER_S

# The server or a proxy before it is overloaded or restarting, so a later request may succeed.
_PASSING: Final = frozenset({429, 502, 503, 504, 529})
_TOO_LONG: Final = ("context_length", "context length", "context window", "too many tokens")


class ModelFailure(Exception):
    """`reason` is for the caller, `remedy` for the operator; `detail` is the server's own text.

    `may_retry`: another request may succeed, and does no harm.
    """

    def __init__(
        self,
        reason: str,
        *,
        remedy: str = "",
        detail: str = "",
        may_retry: bool = False,
        is_unreachable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        self.detail = detail
        self.may_retry = may_retry and (retry_after_s or 0.0) <= LONGEST_RETRY_AFTER_S
        self.is_unreachable = is_unreachable
        self.retry_after_s = retry_after_s


# Status → the reason and the remedy.
_STATUSES: Final = {
    400: ("The model server refuses the request.", "Look at model, extra_body and takes."),
    401: ("The model server does not let the gateway in.", "Check api_key."),
    403: ("The model server does not let the gateway in.", "Check api_key and its rights."),
    404: (
        "The model server does not have this model.",
        "Check base_url (it usually ends with /v1) and model.",
    ),
    413: ("What was asked is too large for the model server.", "Lower max_history_tokens."),
    429: ("The model server has too much to do.", "Ask less often, or raise its limits."),
}


def of_status(
    status: int, code: str, text: str, *, retry_after_s: float | None = None
) -> ModelFailure:
    """An answer with a status of failure. `code` and `text` are the server's."""
    others = ("The model server failed.", "") if status >= 500 else _STATUSES[400]
    reason, remedy = _STATUSES.get(status, others)
    if status in (400, 413, 422) and any(
        word in f"{code} {text}".lower().replace("-", "_") for word in _TOO_LONG
    ):
        reason = "The conversation is too long for the model."
        remedy = "Lower max_history_tokens."
    if status in _PASSING:
        after = f" in {retry_after_s:.0f} seconds" if retry_after_s else " later"
        reason = f"{reason} Try again{after}."
    return ModelFailure(
        reason,
        remedy=remedy,
        detail=f"status {status}: {text}",
        may_retry=status in _PASSING,
        retry_after_s=retry_after_s,
    )


def of_remote(error: RemoteError, *, has_begun: bool) -> ModelFailure:
    """A failure of the connection, before (`has_begun`: after) the head of the answer."""
    match error:
        case PeerTimeout(reason="CALL_TIMEOUT"):
            return ModelFailure(
                "The model took too long to answer.", remedy="Raise total_s if it may take longer."
            )
        case PeerTimeout(reason="IDLE_TIMEOUT"):
            return ModelFailure(
                "The model server was silent for too long.",
                remedy="Raise idle_s if the model needs longer to load or to think.",
            )
        case PeerUnreachable(reason="CLOSED"):
            return ModelFailure("The gateway is stopping.")
        case PeerUnreachable() | PeerTimeout() if has_begun:
            return broke_off()
        case PeerUnreachable() | PeerTimeout():
            # An answer changes nothing on the server, so the request may be sent again.
            return ModelFailure(
                "The model server cannot be reached.",
                remedy="Start it, or check base_url.",
                detail=error.message.replace("the agent", "it"),
                may_retry=True,
                is_unreachable=True,
            )
        case BadPeerAnswer(reason="REDIRECT"):
            failure = garbage(error.message)
            failure.remedy = "Give base_url as the address that it redirects to."
            return failure
        case _:
            return garbage(error.message)


def garbage(detail: str = "") -> ModelFailure:
    return ModelFailure(
        "The model server sent something that is not an answer.",
        remedy="Check base_url: it usually ends with /v1.",
        detail=detail,
    )


def reported(text: str) -> ModelFailure:
    return ModelFailure(
        "The model server reported an error in the middle of its answer.", detail=text
    )


def broke_off() -> ModelFailure:
    return ModelFailure("The model server broke off in the middle of its answer.")


def too_large(max_bytes: int) -> ModelFailure:
    return ModelFailure(
        f"The answer of the model is larger than {max_bytes} bytes.",
        remedy="Raise max_answer_bytes if that is meant.",
    )


def too_many_rounds(rounds: int) -> ModelFailure:
    return ModelFailure(
        f"The model called tools {rounds} times in a row without coming to an answer.",
        remedy="Raise max_tool_rounds if that is meant.",
    )

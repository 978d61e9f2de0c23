"""How we refuse.

    TrunklineError
    ├── CallerError            the request is at fault; the text is for the client
    │   ├── InvalidParams        ├── InvalidRequest       ├── MethodNotFound
    │   ├── ParseFailed          ├── PayloadTooLarge      ├── TooManyRequests
    │   ├── Unauthenticated      ├── PermissionDenied     ├── RouteNotFound
    │   ├── WrongMediaType       ├── WrongHttpMethod      ├── IdempotencyConflict
    │   ├── TaskNotFound         ├── TaskNotCancelable    ├── PushNotificationNotSupported
    │   ├── UnsupportedOperation ├── RequestTimedOut      ├── ContentTypeNotSupported
    │   ├── ExtendedAgentCardNotConfigured
    │   ├── ExtensionSupportRequired
    │   └── VersionNotSupported
    ├── AgentError             the agent behind us is at fault
    │   └── InvalidAgentResponse
    ├── Unavailable            we cannot serve now: draining or out of capacity
    ├── StoreError             the store refused; nothing was written
    │   ├── StaleSeq             another writer was faster
    │   ├── LeaseLost            another node owns the task now
    │   ├── KeyTaken             the idempotency key led to another task before
    │   ├── Unstorable           it could not even be offered to the store
    │   ├── StoreInUse           another process holds the store
    │   └── StoreUnusable        damaged, newer than this release, or out of space
    ├── ConfigError            the configuration is at fault; names key and remedy
    └── GatewayBug             our fault; the caller sees an internal error, the log all

What each one is on the wire (codes, statuses, reasons) is in `protocol.errors`.
"""

from collections.abc import Mapping
from enum import Enum, auto

from msgspec import Struct


class FieldViolation(Struct, frozen=True):
    field: str
    description: str


class Case(Enum):
    """What exactly is wrong, where a class holds several cases that some clients tell apart
    by code or text."""

    NOT_JSONRPC = auto()
    EMPTY_BODY = auto()
    PARAMS = auto()
    FILE_PART = auto()
    OTHER_CONTEXT = auto()
    MESSAGE_TO_ENDED_TASK = auto()
    NO_EXTENDED_CARD = auto()


class TrunklineError(Exception):
    """`message` is fit for the client; `metadata` becomes ErrorInfo.metadata."""

    def __init__(
        self, message: str, *, metadata: Mapping[str, str] | None = None, case: Case | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.metadata: dict[str, str] = dict(metadata or {})
        self.case = case


class CallerError(TrunklineError):
    pass


class InvalidParams(CallerError):
    def __init__(
        self,
        message: str,
        *,
        violations: tuple[FieldViolation, ...] = (),
        metadata: Mapping[str, str] | None = None,
        case: Case | None = None,
    ) -> None:
        super().__init__(message, metadata=metadata, case=case)
        self.violations = violations

    @classmethod
    def at(
        cls,
        field: str,
        description: str,
        *,
        metadata: Mapping[str, str] | None = None,
        case: Case | None = None,
    ) -> "InvalidParams":
        violation = FieldViolation(field, description)
        return cls(f"{field}: {description}", violations=(violation,), metadata=metadata, case=case)


def file_part_refused(index: int) -> InvalidParams:
    return InvalidParams.at(
        f"message.parts[{index}]",
        "is a file, and this agent takes none; send text or data",
        metadata={"part": str(index)},
        case=Case.FILE_PART,
    )


class ParseFailed(CallerError):
    pass


class InvalidRequest(CallerError):
    pass


class MethodNotFound(CallerError):
    pass


class RouteNotFound(CallerError):
    pass


class WrongHttpMethod(CallerError):
    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class WrongMediaType(CallerError):
    pass


class PayloadTooLarge(CallerError):
    pass


class Unauthenticated(CallerError):
    pass


class PermissionDenied(CallerError):
    pass


class RequestTimedOut(CallerError):
    pass


class TooManyRequests(CallerError):
    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class IdempotencyConflict(CallerError):
    pass


class TaskNotFound(CallerError):
    def __init__(self, task_id: str) -> None:
        # Cut, so that an answer cannot be made to grow with the request.
        shown = task_id[:256]
        super().__init__(f"Task not found: {shown}", metadata={"taskId": shown})


class TaskNotCancelable(CallerError):
    pass


class PushNotificationNotSupported(CallerError):
    pass


class UnsupportedOperation(CallerError):
    pass


class ContentTypeNotSupported(CallerError):
    pass


class ExtendedAgentCardNotConfigured(CallerError):
    pass


class ExtensionSupportRequired(CallerError):
    pass


class VersionNotSupported(CallerError):
    pass


class AgentError(TrunklineError):
    pass


class InvalidAgentResponse(AgentError):
    pass


class Unavailable(TrunklineError):
    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreError(TrunklineError):
    pass


class StaleSeq(StoreError):
    pass


class LeaseLost(StoreError):
    pass


class KeyTaken(StoreError):
    pass


class Unstorable(StoreError):
    pass


class StoreInUse(StoreError):
    pass


class StoreUnusable(StoreError):
    pass


class ConfigError(TrunklineError):
    pass


class GatewayBug(TrunklineError):
    pass

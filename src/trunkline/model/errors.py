"""Errors of the gateway, by the side that is at fault.

    TrunklineError
    ├── CallerError            the request is at fault; the text is for the client
    │   ├── InvalidParams        ├── InvalidRequest       ├── MethodNotFound
    │   ├── ParseFailed          ├── PayloadTooLarge      ├── TooManyRequests
    │   ├── Unauthenticated      ├── PermissionDenied     ├── RouteNotFound
    │   ├── WrongMediaType       ├── WrongHttpMethod      ├── IdempotencyConflict
    │   ├── TaskNotFound         ├── TaskNotCancelable    ├── PushNotificationNotSupported
    │   ├── UnsupportedOperation ├── RequestTimedOut      ├── ContentTypeNotSupported
    │   ├── Conflict
    │   ├── ExtendedAgentCardNotConfigured
    │   ├── ExtensionSupportRequired
    │   └── VersionNotSupported
    ├── AgentError             the agent behind the gateway is at fault
    │   ├── InvalidAgentResponse
    │   └── AgentLost            it is unknown how far it came with the request
    ├── Unavailable            the gateway cannot serve now: draining or out of capacity
    ├── StoreError             the store refused; nothing was written
    │   ├── StaleSeq             another writer was faster
    │   ├── LeaseLost            another node owns the task now
    │   ├── RecordConflict       the record has another version than a change expects
    │   ├── LimitReached         the count would exceed its limit
    │   ├── Unstorable           the value cannot be encoded for the store
    │   ├── StoreInUse           another process holds the store
    │   └── StoreUnusable        damaged, newer than this release, or out of space
    ├── ConfigError            the configuration is at fault; names key and remedy
    │   ├── AgentExists          an agent of this handle is published already
    │   └── AgentNotPublished    no agent of this handle is published
    ├── OperatorRefused        a command of an operator, or its credential, is at fault
    └── GatewayBug             the gateway is at fault; the caller sees an internal error

`protocol.errors` has their codes, statuses and reasons on the wire.
"""

from collections.abc import Hashable, Mapping
from enum import Enum, auto

from msgspec import Struct


class FieldViolation(Struct, frozen=True):
    field: str
    description: str


class Case(Enum):
    """The exact fault, where an error class holds several that some clients tell apart by code or
    text."""

    NOT_JSONRPC = auto()
    EMPTY_BODY = auto()
    PARAMS = auto()
    FILE_PART = auto()
    OTHER_CONTEXT = auto()
    MESSAGE_TO_ENDED_TASK = auto()
    NO_EXTENDED_CARD = auto()
    NOT_GRANTED = auto()


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
    """The request is at fault. The text is for the client."""


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
    """The body is not JSON."""


class InvalidRequest(CallerError):
    """The envelope or a header of the request is not valid."""


class MethodNotFound(CallerError):
    """The agent has no such JSON-RPC method."""


class RouteNotFound(CallerError):
    """The agent has no such path."""


class WrongHttpMethod(CallerError):
    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class WrongMediaType(CallerError):
    """The Content-Type of the request is not one of A2A."""


class PayloadTooLarge(CallerError):
    """The body is larger than the agent accepts."""


class Unauthenticated(CallerError):
    """The request has no credential, or one that the gateway does not know."""

    def __init__(self, message: str, *, has_credential: bool = False) -> None:
        super().__init__(message)
        # Whether the request has one. RFC 6750, 3.1 tells the two apart.
        self.has_credential = has_credential


class PermissionDenied(CallerError):
    """The caller has no permission for this request."""


class RequestTimedOut(CallerError):
    """The body did not arrive in time."""


class TooManyRequests(CallerError):
    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class IdempotencyConflict(CallerError):
    """The caller used this idempotency key for another request."""


class Conflict(CallerError):
    """What the request changes is in the way: it exists already, or has changed meanwhile."""


class TaskNotFound(CallerError):
    def __init__(self, task_id: str) -> None:
        # The id is cut, so that a client cannot make the answer grow with its request.
        shown = task_id[:256]
        super().__init__(f"Task not found: {shown}", metadata={"taskId": shown})


class TaskNotCancelable(CallerError):
    """The task has ended."""


class PushNotificationNotSupported(CallerError):
    """The agent sends no push notifications."""


class UnsupportedOperation(CallerError):
    """The agent, or the state of the task, does not allow the operation."""


class ContentTypeNotSupported(CallerError):
    """The agent does not accept or produce the media type."""


class ExtendedAgentCardNotConfigured(CallerError):
    """The agent has no extended card."""


class ExtensionSupportRequired(CallerError):
    """The agent requires an extension that the client did not declare."""


class VersionNotSupported(CallerError):
    """The agent does not speak this version of A2A."""


class AgentError(TrunklineError):
    """The agent behind the gateway is at fault."""


class InvalidAgentResponse(AgentError):
    """The agent answered with something that is not A2A."""


class AgentLost(AgentError):
    """The connection to the agent was lost, and it is unknown how far it came with the request."""


class Unavailable(TrunklineError):
    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreError(TrunklineError):
    """The store refused; nothing was written."""


class StaleSeq(StoreError):
    """Another writer was faster."""


class LeaseLost(StoreError):
    """Another node owns the task now."""


class RecordConflict(StoreError):
    """The record has another version than the change expects."""


class LimitReached(StoreError):
    """The count of the record would exceed its limit. `key` is the key of the record."""

    def __init__(self, message: str, *, key: Hashable = None) -> None:
        super().__init__(message)
        self.key = key


class Unstorable(StoreError):
    """The value cannot be encoded for the store."""


class StoreInUse(StoreError):
    """Another process holds the store."""


class StoreUnusable(StoreError):
    """The store is damaged, newer than this release, or out of space."""


class ConfigError(TrunklineError):
    """The configuration is at fault. The text names the key and the remedy."""


class AgentExists(ConfigError):
    """An agent of this handle is published already."""


class AgentNotPublished(ConfigError):
    """No agent of this handle is published."""


class OperatorRefused(TrunklineError):
    """A running gateway does not take a command of an operator. The text names the remedy."""


class GatewayBug(TrunklineError):
    """The gateway is at fault. The caller sees an internal error; the log has the details."""

"""`TellsLive`: takes news of the gateway for the people who watch its page.

News only say that something has changed, and reads say what is. So news may be merged and may be
lost: a stream that has lost some says so.
"""

from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

from msgspec import Meta, Struct

from trunkline.ports.store import Scope

Topic: TypeAlias = Literal["tasks", "agents", "wire", "calls"]
TOPICS: Final[tuple[Topic, ...]] = ("tasks", "agents", "wire", "calls")


class LiveQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    # Names, separated by commas; without, all.
    topics: Annotated[str, Meta(max_length=100)] = ""


class TellsLive(Protocol):
    @property
    def is_heard(self) -> bool:
        """Whether anyone listens. Whoever tells looks first, so that unheard news cost
        nothing."""
        ...

    def tell(self, topic: Topic, data: Any, *, key: str = "", scope: Scope | None = None) -> None:
        """Tell what has changed, as a value that becomes JSON. Never waits and never fails.

        Of the news of a topic with one key only the last is kept until it is sent. The news go to
        operators and, with a `scope`, to callers that may read the tasks of that scope; those
        about agents go to all.
        """
        ...


class CountsStreams(Protocol):
    """Limits the streams that a principal has open."""

    def enter(self, principal: str) -> None:
        """Raises TooManyRequests."""
        ...

    def leave(self, principal: str) -> None: ...

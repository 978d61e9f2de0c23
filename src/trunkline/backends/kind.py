"""`Kind`: all that the gateway knows about one kind of backend."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path as File
from typing import Annotated, Final, Generic, TypeVar

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem
from trunkline.config.secret import MASK, secrets_in
from trunkline.model.profile import ProfileKeys
from trunkline.ports.backend import Backend, Finding
from trunkline.ports.clock import Clock
from trunkline.ports.tools import LendsTools, TurnTool
from trunkline.ports.wire_log import ClientTap

S = TypeVar("S", bound="BackendTable")

# Shorter secrets are too common in ordinary text to be taken out of it.
SECRET_CHARS: Final = 6


class BackendTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """The table `backend` of an agent. Each kind has its own, told apart by `kind`."""

    def without_secrets(self, text: str) -> str:
        """Mask the secrets of this table in a text of the agent or its server, which may quote
        them."""
        secrets = set(secrets_in(self))
        # A server quotes the token of a header `Authorization` without its scheme.
        secrets |= {secret.removeprefix("Bearer ") for secret in secrets}
        # Longest first: one secret may be part of another.
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= SECRET_CHARS:
                text = text.replace(secret, MASK)
        return text


class CallingTable(BackendTable, frozen=True, kw_only=True):
    """The table of a backend that calls a server by its URL. The hub sets `public_only` for those
    that an owner chose."""

    public_only: Annotated[
        bool,
        doc(
            "Call no private address, such as one of this network. The hub sets it for agents "
            "whose backend an owner chose."
        ),
    ] = False


class Resources(Struct, frozen=True, kw_only=True):
    """Parts and settings of the gateway that a backend may use beside its own settings."""

    clock: Clock
    # The folder in which the gateway keeps its keys.
    data_dir: File
    # All tools for models, by name.
    tools: Mapping[str, TurnTool] = {}
    # Lends them to programs; None where no gateway runs.
    lends_tools: LendsTools | None = None
    # The agent that was loaded from the target of a `python` backend.
    code: object = None
    allow_private: bool = False
    profile: ProfileKeys = ProfileKeys()
    # What its connections to servers look at before each request; None where no gateway runs.
    tap: ClientTap | None = None


class Adapter(Struct, Generic[S], frozen=True):
    """The implementation of a kind."""

    make: Callable[[S, Resources], Backend]
    # The findings of `trunkline doctor`. It asks for nothing that costs or changes anything.
    check: Callable[[S, Resources], Awaitable[list[Finding]]]


def no_rules(settings: Struct, path: Path) -> Iterable[Problem]:
    return ()


class Kind(Struct, Generic[S], frozen=True, kw_only=True):
    """A kind of backend. Each folder of `backends` exports one as `KIND`."""

    settings: type[S]
    # Called with the path of the backend's own table.
    rules: Callable[[S, Path], Iterable[Problem]] = no_rules
    # Imports the implementation, so that reading a configuration does not.
    adapter: Callable[[], Adapter[S]]
    # Whether runs continue while the gateway is away.
    can_resume: bool = False
    # Whether the agent itself has a name, so that its table needs none.
    has_own_name: bool = False

    @property
    def name(self) -> str:
        return str(self.settings.__struct_config__.tag)


async def check_nothing(settings: Struct, resources: Resources) -> list[Finding]:
    """For backends that run inside the gateway."""
    return [Finding("ok", "needs nothing else")]

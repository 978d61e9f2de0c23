"""What one agent speaks, decided once by its profile: versions, names, shapes and errors."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from trunkline.model.profile import Profile
from trunkline.protocol import errors, jsonrpc, openclaw, sse
from trunkline.protocol.cards import Form
from trunkline.protocol.dialect import Dialect
from trunkline.protocol.operations import LEGACY_METHODS, METHODS, PUSH, Operation
from trunkline.protocol.v03_variants import v03_over_jsonrpc, v03_over_rest
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import ALL, Version


class ErrorStyle(Struct, frozen=True, kw_only=True):
    """How errors look over JSON-RPC."""

    error: Callable[[Exception, Version], jsonrpc.Error]
    http_status: Callable[[Exception], int]
    # A refused stream is a stream of one error in every version; without this, in 0.3 alone.
    is_in_stream: bool = False
    # What an error is called as an event of a stream; empty for no name.
    event_name: str = ""
    stream_headers: tuple[tuple[bytes, bytes], ...] = sse.HEADERS


_STANDARD: Final = ErrorStyle(error=jsonrpc.standard, http_status=errors.http_status_for_jsonrpc)
_OPENCLAW: Final = ErrorStyle(
    error=openclaw.error_of,
    http_status=openclaw.http_status,
    is_in_stream=True,
    event_name="error",
    stream_headers=openclaw.STREAM_HEADERS,
)


class Dialects(Struct, frozen=True, kw_only=True):
    versions: tuple[Version, ...]
    # The one version, if it is one.
    only: Version | None
    # The version of every request that states none; None where its form tells.
    unstated: Version | None
    names: jsonrpc.Names
    jsonrpc: Mapping[Version, Dialect]
    rest: Mapping[Version, Dialect]
    # Operations that are as good as unknown.
    hidden: frozenset[Operation]
    errors: ErrorStyle
    # The one form of the card; None where the client may choose.
    card_form: Form | None


def dialects_for(profile: Profile) -> Dialects:
    versions = _VERSIONS[profile.dialect]
    only = versions[0] if len(versions) == 1 else None
    # A2A 1.0, 3.6.2: without A2A-Version a request is of 0.3. Many clients of 1.0 leave it out, so
    # that is followed to the letter only where the profile says so.
    unstated = Version.V0_3 if profile.default_version == "0.3" else only
    is_openclaw = profile.error_style == "openclaw-inbound"
    hidden = _hidden(profile)
    methods = METHODS
    if profile.dialect == "v0.3-legacy":
        methods = {Version.V0_3: LEGACY_METHODS}
    return Dialects(
        versions=versions,
        only=only,
        unstated=unstated,
        names=jsonrpc.Names(
            default=Version(profile.default_version),
            unstated=unstated,
            # A version that is not spoken has no methods.
            methods={version: {} for version in Version}
            | {
                version: {
                    name: operation
                    for name, operation in methods[version].items()
                    if operation not in hidden
                }
                for version in versions
            },
            only=only,
            takes_notifications=is_openclaw,
            checks_params=is_openclaw,
        ),
        jsonrpc={Version.V1_0: V1, Version.V0_3: v03_over_jsonrpc(profile)},
        rest={Version.V1_0: V1, Version.V0_3: v03_over_rest(profile)},
        hidden=hidden,
        errors=_OPENCLAW if is_openclaw else _STANDARD,
        card_form="0.3" if only is Version.V0_3 else None,
    )


_VERSIONS: Final = {
    "auto": ALL,
    "v1.0": (Version.V1_0,),
    "v0.3": (Version.V0_3,),
    "v0.3-legacy": (Version.V0_3,),
}


def _hidden(profile: Profile) -> frozenset[Operation]:
    hidden = set(PUSH) if profile.error_style == "openclaw-inbound" else set()
    if profile.list_tasks == "hidden":
        hidden.add(Operation.LIST_TASKS)
    if profile.cancel == "unsupported" and profile.cancel_unsupported_code == -32601:
        hidden.add(Operation.CANCEL_TASK)
    return frozenset(hidden)

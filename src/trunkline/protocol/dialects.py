"""`Dialects`: the versions, method names, shapes and errors of one agent, chosen by its profile."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from trunkline.model.calls import Operation
from trunkline.model.profile import Profile
from trunkline.protocol import jsonrpc as rpc
from trunkline.protocol import openclaw
from trunkline.protocol.cards import STANDARD, Form, Shape
from trunkline.protocol.hub import HubDialect
from trunkline.protocol.operations import LEGACY_METHODS, METHODS, PUSH
from trunkline.protocol.v03 import V03Dialect
from trunkline.protocol.v03_reading import Reader03
from trunkline.protocol.v03_writing import Writer03
from trunkline.protocol.v1 import V1, V1Dialect
from trunkline.protocol.versions import ALL, Version

# One version on one binding.
Dialect: TypeAlias = V1Dialect | V03Dialect


class Dialects(rpc.Names, frozen=True, kw_only=True):
    versions: tuple[Version, ...]
    # Versions by the bytes of an A2A-Version header, so that usual values need no parsing.
    by_header: Mapping[bytes | None, Version | None]
    jsonrpc: Mapping[Version, Dialect]
    # The same for requests that state no version.
    unstated_jsonrpc: Mapping[Version, Dialect]
    rest: Mapping[Version, Dialect]
    # Operations that the agent answers like unknown ones.
    hidden: frozenset[Operation]
    # The only form of the card; None where the client may choose.
    card_form: Form | None


def dialects_for(profile: Profile) -> Dialects:
    versions = _VERSIONS[profile.dialect]
    only = versions[0] if len(versions) == 1 else None
    # A2A 1.0, 3.6.2: without A2A-Version a request is of 0.3. Many clients of 1.0 leave the header
    # out, so the gateway obeys this rule only if the profile says so.
    unstated = Version.V0_3 if profile.default_version == "0.3" else only
    style = openclaw.ERROR_STYLES.get(profile.error_style, rpc.STANDARD)
    hidden = _hidden(profile, style)
    methods = METHODS
    if profile.dialect == "v0.3-legacy":
        methods = {Version.V0_3: LEGACY_METHODS}
    stated: dict[Version, Dialect] = {
        Version.V1_0: V1,
        Version.V0_3: v03_dialect(profile, is_rest=False),
    }
    unstated_jsonrpc = stated
    if profile.wire_style == "hub":
        hub = HubDialect(reads_text_alone=profile.files == "ignore")
        unstated_jsonrpc = {**stated, Version.V1_0: hub}
    return Dialects(
        versions=versions,
        by_header={None: None} | {version.encode(): version for version in versions},
        only=only,
        default=Version(profile.default_version),
        unstated=unstated,
        # A version that the agent does not speak has no methods.
        methods={version: {} for version in Version}
        | {
            version: {
                name: operation
                for name, operation in methods[version].items()
                if operation not in hidden
            }
            for version in versions
        },
        jsonrpc=stated,
        unstated_jsonrpc=unstated_jsonrpc,
        rest={Version.V1_0: V1, Version.V0_3: v03_dialect(profile, is_rest=True)},
        hidden=hidden,
        errors=style,
        card_form="0.3" if only is Version.V0_3 else None,
    )


_VERSIONS: Final = {
    "auto": ALL,
    "v1.0": (Version.V1_0,),
    "v0.3": (Version.V0_3,),
    "v0.3-legacy": (Version.V0_3,),
}


def card_shape_of(card_style: str) -> Shape:
    return openclaw.CARD_SHAPES.get(card_style, STANDARD)


def _hidden(profile: Profile, style: rpc.ErrorStyle) -> frozenset[Operation]:
    hidden = set(PUSH) if style.hides_push else set()
    if profile.list_tasks == "hidden":
        hidden.add(Operation.LIST_TASKS)
    if profile.cancel == "unsupported" and profile.cancel_unsupported_code == -32601:
        hidden.add(Operation.CANCEL_TASK)
    return frozenset(hidden)


def v03_dialect(profile: Profile, *, is_rest: bool) -> V03Dialect:
    is_legacy = profile.dialect == "v0.3-legacy"
    reader = Reader03(
        is_rest=is_rest,
        is_legacy=is_legacy,
        # The proto of 0.3, and so HTTP+JSON, has no `kind`; before 0.3 its name was `type`.
        requires_kind=not is_rest and not is_legacy,
    )
    make_writer = openclaw.WRITERS.get(profile.artifact_style, Writer03)
    writer = make_writer(is_rest=is_rest, question_is_final=profile.question_is_final)
    if not is_rest and profile.message_checks in openclaw.LENIENT_DIALECTS:
        refuses_files = profile.files == "reject" and profile.files_reject_code == -32602
        lenient = openclaw.LENIENT_DIALECTS[profile.message_checks]
        return lenient(reader, writer, refuses_files=refuses_files)
    return V03Dialect(reader, writer, is_legacy=is_legacy)

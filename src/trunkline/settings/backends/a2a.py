"""Another A2A agent, wherever it is."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from trunkline.settings.credentials import CredentialSettings
from trunkline.settings.outbound import CARD_PATH, TRANSPORTS
from trunkline.settings.secret import Secret


class A2aBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="a2a"
):
    """Another A2A agent: 1.0 or 0.3, over JSON-RPC or HTTP+JSON."""

    url: Annotated[
        str,
        Meta(description="Where the agent is: what stands before `card_path`, or its card's URL."),
    ]
    card_path: Annotated[str, Meta(min_length=1, description="Path of its card below `url`.")] = (
        CARD_PATH
    )
    transports: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Bindings in the order we prefer them."),
    ] = TRANSPORTS
    a2a_version: Annotated[
        Literal["", "1.0", "0.3"],
        Meta(description="Insist on this version of A2A. Empty: the newest that both speak."),
    ] = ""
    headers: Annotated[
        dict[str, Secret],
        Meta(description="Headers that go with every request to it, shown nowhere."),
    ] = {}
    credentials: Annotated[
        CredentialSettings | None,
        Meta(
            description="As whom the gateway calls it, for example "
            '`{ kind = "bearer", token = "${TOKEN}" }`; see its kinds.'
        ),
    ] = None
    timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds for a request, and of silence on a stream before the gateway "
            "looks after its task. How long the work may take is `task_deadline_s`.",
        ),
    ] = 120.0
    on_unreachable: Annotated[
        Literal["fail", "retry"],
        Meta(
            description="What becomes of a message that cannot be delivered: `fail` fails its task "
            "at once, `retry` tries for `retry_s`."
        ),
    ] = "fail"
    retry_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds that the agent is tried again when it cannot be reached: always "
            "for a task that it has, and for a message where `on_unreachable` says so.",
        ),
    ] = 60.0
    max_output_bytes: Annotated[
        int, Meta(ge=1, description="What it may say in one turn; then it is stopped.")
    ] = 64 * 1024 * 1024

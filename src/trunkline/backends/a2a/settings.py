"""Settings of `kind = "a2a"`."""

from typing import Annotated, Literal

from msgspec import field

from trunkline.backends.kind import CallingTable
from trunkline.config import doc
from trunkline.config.called_agents import (
    CARD_PATH,
    TRANSPORTS,
    A2aVersion,
    Credentials,
    Headers,
    TrustedOrigins,
)


class A2aBackend(CallingTable, frozen=True, kw_only=True, tag="a2a"):
    """Another A2A agent: 1.0 or 0.3, over JSON-RPC or HTTP+JSON."""

    url: Annotated[
        str, doc("Base URL of the agent, to which `card_path` is added, or the URL of its card.")
    ]
    card_path: Annotated[str, doc("Path of its card below `url`.", min_length=1)] = CARD_PATH
    transports: Annotated[
        tuple[str, ...], doc("Bindings in order of preference.", min_length=1)
    ] = TRANSPORTS
    a2a_version: A2aVersion = ""
    headers: Headers = field(default_factory=dict)
    credentials: Credentials = None
    trusted_origins: TrustedOrigins = ()
    timeout_s: Annotated[
        float,
        doc(
            "Maximum seconds for a request, and without events on a stream before the gateway "
            "polls the task. `task_deadline_s` limits the work itself.",
            gt=0,
        ),
    ] = 120.0
    on_unreachable: Annotated[
        Literal["fail", "retry"],
        doc(
            "When a message cannot be delivered: `fail` fails its task at once, `retry` tries "
            "again for `retry_s`."
        ),
    ] = "fail"
    retry_s: Annotated[
        float,
        doc(
            "Seconds of retries when the agent cannot be reached: always for a task that it "
            'already has, and for a message with `on_unreachable = "retry"`.',
            ge=0,
        ),
    ] = 60.0
    max_output_bytes: Annotated[
        int, doc("Maximum output of one turn; then the turn is stopped.", ge=1)
    ] = 16 * 1024 * 1024

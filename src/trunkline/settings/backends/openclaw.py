"""An agent of OpenClaw."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from trunkline.settings.secret import Secret


class OpenClawBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="openclaw"
):
    """An agent of OpenClaw, called over the gateway that OpenClaw runs."""

    url: Annotated[
        str,
        Meta(
            description="Where OpenClaw's gateway is: `ws://` or `wss://`; `http://` and "
            "`https://` are taken as well."
        ),
    ] = "ws://127.0.0.1:18789"
    token: Annotated[
        Secret | None,
        Meta(
            description="`gateway.auth.token` of OpenClaw, which is the access of its owner; best "
            'as `"${NAME_OF_VARIABLE}"`.'
        ),
    ] = None
    agent_id: Annotated[
        str,
        Meta(
            min_length=1,
            description="Which agent of OpenClaw answers. It must be one of `openclaw agents "
            "list`. Whoever may call this agent may use its tools: give it `tools.deny`.",
        ),
    ] = "main"
    session_key: Annotated[
        str,
        Meta(
            description="Name of the OpenClaw session of a conversation. `{agent_id}` is the agent "
            "and `{context}` the conversation; two callers never share one."
        ),
    ] = "agent:{agent_id}:br-{context}"
    surface: Annotated[
        Literal["websocket", "http"],
        Meta(
            description="`websocket` has all: tools, questions, cancel, restarts. `http` is "
            "`/v1/chat/completions`, for where no WebSocket gets through; it must be switched "
            "on in OpenClaw, and shows the text alone."
        ),
    ] = "websocket"
    device_identity: Annotated[
        bool,
        Meta(
            description="Prove who we are with a key of our own, as OpenClaw wants it from other "
            "machines. Needs the extra `openclaw`, and `openclaw devices approve` once."
        ),
    ] = False
    connect_s: Annotated[float, Meta(gt=0, description="Seconds for one attempt to connect.")] = (
        10.0
    )
    accept_s: Annotated[float, Meta(gt=0, description="Seconds for OpenClaw to accept a run.")] = (
        60.0
    )
    unreachable_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds for which a turn waits for an OpenClaw that is away, as while it "
            "restarts. Then the task fails.",
        ),
    ] = 60.0
    recovery_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds for OpenClaw to go on by itself with a run that its restart has "
            "interrupted. Then the task fails.",
        ),
    ] = 60.0
    idle_s: Annotated[
        float,
        Meta(
            gt=0, description="With `http`: seconds that an answer may pause before it is given up."
        ),
    ] = 300.0
    max_output_bytes: Annotated[
        int, Meta(ge=1, description="What it may say in one turn; then it is stopped.")
    ] = 16 * 1024 * 1024

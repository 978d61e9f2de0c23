"""Settings of `kind = "openclaw"`."""

from typing import Annotated, Literal

from trunkline.backends.kind import CallingTable
from trunkline.config import doc
from trunkline.config.secret import Secret


class OpenClawBackend(CallingTable, frozen=True, kw_only=True, tag="openclaw"):
    """An agent of OpenClaw, called through OpenClaw's own gateway."""

    url: Annotated[
        str,
        doc("URL of OpenClaw's gateway: `ws://` or `wss://`, or `http://` and `https://`."),
    ] = "ws://127.0.0.1:18789"
    token: Annotated[
        Secret | None,
        doc(
            "`gateway.auth.token` of OpenClaw, which gives the rights of its owner. Prefer "
            '`"${NAME_OF_VARIABLE}"`.'
        ),
    ] = None
    agent_id: Annotated[
        str,
        doc(
            "Agent of OpenClaw that answers, one of `openclaw agents list`. Every caller can use "
            "its tools: restrict them with `tools.deny`.",
            min_length=1,
        ),
    ] = "main"
    session_key: Annotated[
        str,
        doc(
            "Name of the OpenClaw session of a conversation. `{agent_id}` is the agent and "
            "`{context}` the conversation; two callers never share a session."
        ),
    ] = "agent:{agent_id}:br-{context}"
    surface: Annotated[
        Literal["websocket", "http"],
        doc(
            "`websocket` supports everything: tools, questions, cancel, restarts. `http` is "
            "`/v1/chat/completions`, for networks without WebSocket; OpenClaw must enable it, and "
            "only text is shown."
        ),
    ] = "websocket"
    device_identity: Annotated[
        bool,
        doc(
            "Authenticate with a device key, as OpenClaw requires from other machines. Needs the "
            "extra `openclaw`, and `openclaw devices approve` once."
        ),
    ] = False
    connect_s: Annotated[float, doc("Maximum seconds for one attempt to connect.", gt=0)] = 10.0
    accept_s: Annotated[float, doc("Maximum seconds until OpenClaw accepts a run.", gt=0)] = 60.0
    unreachable_s: Annotated[
        float,
        doc(
            "Maximum seconds that a turn waits for an unreachable OpenClaw, for example during its "
            "restart. Then the task fails.",
            ge=0,
        ),
    ] = 60.0
    recovery_s: Annotated[
        float,
        doc(
            "Maximum seconds until OpenClaw continues a run that its restart interrupted. Then the "
            "task fails.",
            ge=0,
        ),
    ] = 60.0
    idle_s: Annotated[
        float,
        doc("With `http`: maximum seconds without output before the answer is given up.", gt=0),
    ] = 300.0
    max_output_bytes: Annotated[
        int, doc("Maximum output of one turn; then the turn is stopped.", ge=1)
    ] = 16 * 1024 * 1024

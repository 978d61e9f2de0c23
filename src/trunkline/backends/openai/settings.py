"""Settings of `kind = "openai"`."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from trunkline.backends.kind import CallingTable
from trunkline.config import doc
from trunkline.config.secret import Secret, revealed
from trunkline.engine.agent_calls import CallTool


class OpenAIBackend(CallingTable, frozen=True, kw_only=True, tag="openai"):
    """A model behind any server that speaks OpenAI's chat completions: Ollama, vLLM, LiteLLM,
    LM Studio, OpenClaw, OpenAI."""

    base_url: Annotated[
        str, doc("Address of the server including `/v1`, for example `http://127.0.0.1:11434/v1`.")
    ]
    model: Annotated[str, doc("Name of the model on that server.", min_length=1)]
    api_key: Annotated[
        Secret | None, doc('Sent as bearer token. Prefer `"${NAME_OF_VARIABLE}"`.')
    ] = None
    headers: Annotated[
        dict[str, Secret], doc("Headers for every request. Their values are treated as secrets.")
    ] = field(default_factory=dict)
    system_prompt: Annotated[str, doc("Instructions that precede the conversation.")] = ""
    temperature: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        doc("Sampling temperature. Absent: the default of the server."),
    ] = None
    extra_body: Annotated[
        dict[str, Any],
        doc(
            "Additional keys of every request, for example `{ max_tokens = 500, reasoning_effort "
            '= "low" }`.'
        ),
    ] = field(default_factory=dict)
    stream: Annotated[
        bool, doc("Request a streamed answer; false for servers that do not support it.")
    ] = True
    max_history_turns: Annotated[
        int, doc("Maximum number of earlier turns that the model gets; 0: none.", ge=0)
    ] = 20
    max_history_tokens: Annotated[
        int,
        doc(
            "Maximum size of those turns, estimated at four characters per token. The oldest are "
            "dropped first.",
            ge=0,
        ),
    ] = 8000
    images: Annotated[
        bool,
        doc(
            "Whether the model accepts images. Add their media types to the agent's `input_modes` "
            "too."
        ),
    ] = False
    files: Annotated[
        bool,
        doc(
            "Whether the server accepts files as content. Text files are always sent as text. Add "
            "their media types to the agent's `input_modes` too."
        ),
    ] = False
    links: Annotated[
        bool,
        doc(
            "Pass links to images and files on to the server, which then fetches them. Callers "
            "choose the links."
        ),
    ] = False
    tools: Annotated[
        tuple[Literal["remote_agent", "a2a_send", CallTool], ...],
        doc(
            "Tools of the model. `remote_agent` delegates work to the agents in `[targets]`; "
            "`a2a_send` sends them one message. `agent_call` asks another agent of this gateway, "
            "`agent_call_batch` several of them, and `debate_call` has them debate; `agent_poll` "
            "tells how such a call stands."
        ),
    ] = ()
    max_tool_rounds: Annotated[
        int, doc("Maximum number of rounds of tool calls in one turn.", ge=1, le=100)
    ] = 8
    connect_s: Annotated[float, doc("Maximum seconds to connect.", gt=0)] = 10.0
    idle_s: Annotated[
        float,
        doc("Maximum seconds without output of the server, also before the first token.", gt=0),
    ] = 180.0
    total_s: Annotated[float, doc("Maximum seconds for one answer.", gt=0)] = 3600.0
    max_answer_bytes: Annotated[
        int, doc("Maximum size of an answer; a longer one is cut off.", ge=1024)
    ] = 4 * 1024 * 1024
    attempts: Annotated[
        int,
        doc(
            "Maximum number of attempts when the server cannot be reached or is overloaded.",
            ge=1,
            le=10,
        ),
    ] = 3

    def url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/')}/{path}"

    def request_headers(self) -> dict[str, str]:
        """The headers of every request, with the key in the clear."""
        sent = revealed(self.headers)
        if self.api_key is not None:
            sent["Authorization"] = f"Bearer {self.api_key.reveal()}"
        return sent

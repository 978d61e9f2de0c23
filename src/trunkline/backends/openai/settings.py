"""Settings of `kind = "openai"`."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from trunkline.backends.kind import BackendTable
from trunkline.config.secret import Secret, revealed


class OpenAIBackend(BackendTable, frozen=True, kw_only=True, tag="openai"):
    """A model behind any server that speaks OpenAI's chat completions: Ollama, vLLM, LiteLLM,
    LM Studio, OpenClaw, OpenAI."""

    base_url: Annotated[
        str,
        Meta(
            description="Address of the server including `/v1`, for example "
            "`http://127.0.0.1:11434/v1`."
        ),
    ]
    model: Annotated[str, Meta(min_length=1, description="Name of the model on that server.")]
    api_key: Annotated[
        Secret | None,
        Meta(description='Sent as bearer token. Prefer `"${NAME_OF_VARIABLE}"`.'),
    ] = None
    headers: Annotated[
        dict[str, Secret],
        Meta(description="Headers for every request. Their values are treated as secrets."),
    ] = field(default_factory=dict)
    system_prompt: Annotated[
        str, Meta(description="Instructions that precede the conversation.")
    ] = ""
    temperature: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="Sampling temperature. Absent: the default of the server."),
    ] = None
    extra_body: Annotated[
        dict[str, Any],
        Meta(
            description="Additional keys of every request, for example `{ max_tokens = 500, "
            'reasoning_effort = "low" }`.'
        ),
    ] = field(default_factory=dict)
    stream: Annotated[
        bool,
        Meta(description="Request a streamed answer; false for servers that do not support it."),
    ] = True
    max_history_turns: Annotated[
        int,
        Meta(ge=0, description="Maximum number of earlier turns that the model gets; 0: none."),
    ] = 20
    max_history_tokens: Annotated[
        int,
        Meta(
            ge=0,
            description="Maximum size of those turns, estimated at four characters per token. "
            "The oldest are dropped first.",
        ),
    ] = 8000
    images: Annotated[
        bool,
        Meta(
            description="Whether the model accepts images. Add their media types to the agent's"
            " `input_modes` too."
        ),
    ] = False
    files: Annotated[
        bool,
        Meta(
            description="Whether the server accepts files as content. Text files are always "
            "sent as text. Add their media types to the agent's `input_modes` too."
        ),
    ] = False
    links: Annotated[
        bool,
        Meta(
            description="Pass links to images and files on to the server, which then fetches "
            "them. Callers choose the links."
        ),
    ] = False
    tools: Annotated[
        tuple[Literal["remote_agent", "a2a_send"], ...],
        Meta(
            description="Tools of the model. `remote_agent` delegates work to the agents in "
            "`[targets]`; `a2a_send` sends them one message."
        ),
    ] = ()
    max_tool_rounds: Annotated[
        int, Meta(ge=1, le=100, description="Maximum number of rounds of tool calls in one turn.")
    ] = 8
    connect_s: Annotated[float, Meta(gt=0, description="Maximum seconds to connect.")] = 10.0
    idle_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Maximum seconds without output of the server, also before the first "
            "token.",
        ),
    ] = 180.0
    total_s: Annotated[float, Meta(gt=0, description="Maximum seconds for one answer.")] = 3600.0
    max_answer_bytes: Annotated[
        int, Meta(ge=1024, description="Maximum size of an answer; a longer one is cut off.")
    ] = 4 * 1024 * 1024
    attempts: Annotated[
        int,
        Meta(
            ge=1,
            le=10,
            description="Maximum number of attempts when the server cannot be reached or is "
            "overloaded.",
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

"""A model behind an OpenAI-compatible server."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from trunkline.settings.secret import Secret


class OpenAIBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="openai"
):
    """A model behind any server that speaks OpenAI's chat completions: Ollama, vLLM, LiteLLM,
    LM Studio, OpenClaw, OpenAI."""

    base_url: Annotated[
        str,
        Meta(
            description="Address of the server up to and with `/v1`, for example "
            "`http://127.0.0.1:11434/v1`."
        ),
    ]
    model: Annotated[str, Meta(min_length=1, description="Name of the model on that server.")]
    api_key: Annotated[
        Secret | None,
        Meta(description='Sent as bearer token; best as `"${NAME_OF_VARIABLE}"`.'),
    ] = None
    headers: Annotated[
        dict[str, Secret],
        Meta(description="Headers for every request. Their values are treated as secrets."),
    ] = {}
    system_prompt: Annotated[
        str, Meta(description="What the model is told before the conversation.")
    ] = ""
    temperature: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="How freely it answers. Absent: as the server has it."),
    ] = None
    extra_body: Annotated[
        dict[str, Any],
        Meta(
            description="Further keys of every request, for example "
            '`{ max_tokens = 500, reasoning_effort = "low" }`.'
        ),
    ] = {}
    stream: Annotated[
        bool,
        Meta(description="Ask for the answer word by word; false for servers that refuse that."),
    ] = True
    max_history_turns: Annotated[
        int,
        Meta(
            ge=0, description="Earlier turns of the conversation that the model is told; 0: none."
        ),
    ] = 20
    max_history_tokens: Annotated[
        int,
        Meta(
            ge=0,
            description="Most that those turns may take, estimated at four characters per token. "
            "The oldest go first.",
        ),
    ] = 8000
    images: Annotated[
        bool,
        Meta(
            description="Whether the model looks at images. They must be among the agent's "
            "`input_modes`, too."
        ),
    ] = False
    files: Annotated[
        bool,
        Meta(
            description="Whether the server takes files as content. Text files are always read, "
            "as text. They must be among the agent's `input_modes`, too."
        ),
    ] = False
    links: Annotated[
        bool,
        Meta(
            description="Hand links to images and files on to the server, which fetches them "
            "from wherever it stands. Callers choose the links."
        ),
    ] = False
    tools: Annotated[
        tuple[Literal["remote_agent"], ...],
        Meta(
            description="Tools that the model may use. `remote_agent` delegates work to the "
            "agents in `[targets]`."
        ),
    ] = ()
    max_tool_rounds: Annotated[
        int, Meta(ge=1, le=100, description="How often in a turn the model may call tools.")
    ] = 8
    connect_s: Annotated[float, Meta(gt=0, description="Seconds to connect.")] = 10.0
    idle_s: Annotated[
        float,
        Meta(gt=0, description="Seconds that the server may be silent, before the first word too."),
    ] = 180.0
    total_s: Annotated[float, Meta(gt=0, description="Seconds that one answer may take.")] = 3600.0
    max_answer_bytes: Annotated[
        int, Meta(ge=1024, description="Largest answer; a model that says more is cut off.")
    ] = 4 * 1024 * 1024
    attempts: Annotated[
        int,
        Meta(
            ge=1,
            le=10,
            description="How often a question is put to a server that cannot be reached or has "
            "too much to do.",
        ),
    ] = 3

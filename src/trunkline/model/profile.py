"""How an agent behaves where A2A, its versions and its users leave a choice.

Every key stands for one point on which real gateways differ. A preset is a whole set of
answers; any key may be set on top of it. The runtime decides by these values alone, and
never by the name of a preset.
"""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

DAY_S: Final = 86_400.0

RestartPolicy = Literal[
    "resume_queued", "resume_running", "fail_running", "retry_running", "leave_orphaned"
]
ResultPlace = Literal["artifact", "status", "history"]


def _key(row: str, description: str, **bounds: Any) -> Meta:
    """`row` names the point of difference; `bounds` are those of msgspec."""
    return Meta(description=description, extra={"row": row}, **bounds)


class GatewayTexts(Struct, frozen=True, kw_only=True):
    """Sentences of the gateway where an agent gives none. Empty: the message is left out."""

    empty_answer: str = ""
    approval: str = "The agent waits for your approval of a tool call."
    cancel: str = ""


class Profile(Struct, frozen=True, kw_only=True):
    """The defaults are the preset `standard`."""

    dialect: Annotated[
        Literal["auto", "v1.0", "v0.3", "v0.3-legacy"],
        _key(
            "X-01",
            "Protocol versions of the agent. `auto`: both; each request shows its "
            "version. `v0.3-legacy` also accepts parts with `type` instead of `kind`, "
            "and method names such as `message.send` and `sendMessage`.",
        ),
    ] = "auto"
    default_version: Annotated[
        Literal["1.0", "0.3"],
        _key(
            "X-02",
            "Protocol version of a request without `A2A-Version`. `1.0`: its form tells the "
            "version, and 1.0 is what shows none. `0.3`: always 0.3, as A2A 1.0 says, so that "
            "requests of 1.0 must state their version.",
        ),
    ] = "1.0"
    retention_s: Annotated[
        float,
        _key(
            "X-03",
            "Seconds that ended tasks and answers without a task are kept. 0: for ever.",
            ge=0,
        ),
    ] = 7 * DAY_S
    retention_max_tasks: Annotated[
        int,
        _key(
            "X-03",
            "Maximum number of ended tasks; the oldest are deleted first. 0: no limit. "
            "Answers without a task do not count.",
            ge=0,
        ),
    ] = 0
    context_mode: Annotated[
        Literal["session", "task", "client", "stateless"],
        _key(
            "X-04",
            "Unit that has a session and a queue: all tasks of one `contextId`, each "
            "task, all tasks of one caller, or none.",
        ),
    ] = "session"
    stateless_context: Annotated[
        Literal["reject", "echo"],
        _key("X-04", "With `stateless`: how a `contextId` of the client is treated."),
    ] = "reject"
    session_key: Annotated[
        Literal["scoped", "literal"],
        _key(
            "X-05",
            "`literal`: always `agent:{agentId}:a2a:{contextId}`. `scoped`: also has a "
            "mark of the caller, unless the caller is anonymous, for backends that see "
            "only the key.",
        ),
    ] = "scoped"
    busy: Annotated[
        Literal["queue", "fail"],
        _key(
            "X-06",
            "When the agent already works on the context: `queue` lets the message "
            "wait, `fail` fails its task.",
        ),
    ] = "queue"
    max_queue_per_context: Annotated[
        int, _key("X-06", "Maximum number of waiting messages per context; more are refused.", ge=1)
    ] = 9999
    max_concurrency: Annotated[
        int, _key("X-06", "Maximum number of turns that run at once. 0: no limit.", ge=0)
    ] = 0
    queued_send: Annotated[
        Literal["wait", "return"],
        _key(
            "X-06",
            "Whether a blocking send that is queued waits for the end of its task or "
            "returns at once.",
        ),
    ] = "wait"
    overflow: Annotated[
        Literal["task", "error"],
        _key("X-07", "Answer when the queue is full: a rejected task, or an error and no task."),
    ] = "task"
    cancel: Annotated[
        Literal["supported", "unsupported"], _key("X-08", "Whether callers may cancel tasks.")
    ] = "supported"
    cancel_terminal: Annotated[
        Literal["error", "passthrough"],
        _key("X-08", "Answer to the cancel of an ended task: an error, or the task as it is."),
    ] = "error"
    cancel_unsupported_code: Annotated[
        Literal[-32004, -32601], _key("X-08", "JSON-RPC error when cancel is not supported.")
    ] = -32004
    reply_wait_s: Annotated[
        float,
        _key("X-09", "Maximum seconds that a blocking send waits. 0: until the task ends.", ge=0),
    ] = 0.0
    on_reply_wait: Annotated[
        Literal["return_working", "fail"],
        _key("X-09", "After `reply_wait_s`: answer with the task as it is, or fail the task."),
    ] = "return_working"
    task_deadline_s: Annotated[
        float, _key("X-09", "Maximum seconds of a turn; then its task fails.", gt=0)
    ] = 1800.0
    cancel_grace_s: Annotated[
        float, _key("X-09", "Seconds that a canceled run has to stop by itself.", ge=0)
    ] = 5.0
    late_output: Annotated[
        Literal["keep", "drop"],
        _key(
            "X-10", "Output of an agent after the end of its task: kept in an artifact, or dropped."
        ),
    ] = "drop"
    on_restart: Annotated[
        tuple[RestartPolicy, ...],
        _key(
            "X-11",
            "How a restart treats unfinished tasks. `resume_queued` runs waiting tasks."
            " `resume_running` resumes running tasks if the backend can. `fail_running`"
            " fails running tasks with a reason. `retry_running` runs them again. "
            "`leave_orphaned` leaves all other tasks as they are. Without "
            "`leave_orphaned` and `resume_queued`, waiting tasks fail too.",
        ),
    ] = ("resume_queued", "resume_running", "fail_running")
    stream_replay: Annotated[
        bool, _key("X-12", "Replay missed events to a client that sends `Last-Event-ID`.")
    ] = True
    agent_style: Annotated[
        Literal["declared", "task-generating", "hybrid"],
        _key(
            "X-13",
            "`task-generating`: every message makes a task. `hybrid`: a short answer is"
            " a message, and a task is made when it is needed. `declared`: tasks, "
            "unless the agent itself answers with a message.",
        ),
    ] = "declared"
    promote_after_ms: Annotated[
        int,
        _key(
            "X-13",
            "With `hybrid`: a run that takes longer, including time in the queue, "
            "becomes a task. 0: never.",
            ge=0,
        ),
    ] = 0
    stream_shape: Annotated[
        Literal["events", "status-text", "snapshots"],
        _key(
            "X-14",
            "How an answer is streamed: as chunks of an artifact, as texts of the "
            "working status, or as the whole task at its start and end.",
        ),
    ] = "events"
    result_in: Annotated[
        tuple[ResultPlace, ...],
        _key(
            "X-15",
            "Places that hold the answer of a task. `history` keeps the message of the status.",
        ),
    ] = ("artifact", "status", "history")
    files: Annotated[
        Literal["accept", "reject", "ignore"],
        _key("X-17", "How file parts of messages are treated."),
    ] = "accept"
    files_reject_code: Annotated[
        Literal[-32005, -32602], _key("X-17", "JSON-RPC error for a rejected file part.")
    ] = -32005
    max_file_bytes: Annotated[
        int, _key("X-17", "Maximum size of a file in a message. 0: limited only by the body.", ge=0)
    ] = 0
    unnamed_output: Annotated[
        Literal["any", "card"],
        _key(
            "X-17",
            "What a caller gets that names no output modes: anything, or only the media types on "
            "the card, so that no file goes out unless the card names its type.",
        ),
    ] = "any"
    origin_routing_policy: Annotated[
        Literal["suppress-generic-followup", "legacy-origin-routing"],
        _key(
            "X-21",
            "Whether the backend learns an origin to which it could route follow-ups itself.",
        ),
    ] = "suppress-generic-followup"
    message_context: Annotated[
        Literal["openclaw-inbound", "openclaw-design"],
        _key("X-21", "Mapping of the message for backends that serve OpenClaw channels."),
    ] = "openclaw-inbound"
    refusal_state: Annotated[
        Literal["rejected", "failed"],
        _key("X-25", "State of a task that the agent or a full queue refused."),
    ] = "rejected"
    list_tasks: Annotated[
        Literal["served", "hidden"], _key("X-28", "Whether callers may list their tasks.")
    ] = "served"
    history_default: Annotated[
        Literal["all", "none"],
        _key("X-29", "History in the answer to GetTask without `historyLength`."),
    ] = "all"
    subscribe_ended: Annotated[
        Literal["error", "snapshot"],
        _key(
            "X-12",
            "Answer to a subscription to an ended task: an error, or the task and the "
            "end of the stream.",
        ),
    ] = "error"
    subscribe_pause: Annotated[
        Literal["by-version", "stay", "close"],
        _key(
            "X-12",
            "Whether a subscription stays open when the task asks a question. "
            "`by-version`: it stays open in 1.0 and closes in 0.3, where a question is "
            "final.",
        ),
    ] = "by-version"
    question_is_final: Annotated[
        bool,
        _key("X-14", "Whether the question that ends a 0.3 stream has `final: true`."),
    ] = True
    artifact_style: Annotated[
        Literal["answer", "openclaw-inbound", "openclaw-design"],
        _key(
            "X-14",
            "Artifacts that the gateway makes of the output. `answer`: one for each "
            "message and each tool call. `openclaw-inbound`: `assistant-output-0001`, "
            "`tool-progress-…`, `tool-result-0001`; a task also reports `submitted` "
            "before `working`, and a canceled task ends with the last text of the "
            "agent. `openclaw-design`: only tool results, as JSON text.",
        ),
    ] = "answer"
    addresses: Annotated[
        Literal["all", "exact"],
        _key(
            "X-20",
            "Addresses of the agent. `exact`: the card and JSON-RPC, at one path each. "
            "`all`: also below its handle, and with the HTTP+JSON binding.",
        ),
    ] = "all"
    card_style: Annotated[
        Literal["standard", "openclaw-inbound", "openclaw-design"],
        _key(
            "X-20",
            "Additions to the 0.3 card. `openclaw-inbound` lists the interface twice "
            "and sets `stateTransitionHistory` to false; `openclaw-design` sets it to "
            "true and also lists the schemes in `authentication`.",
        ),
    ] = "standard"
    message_checks: Annotated[
        Literal["strict", "openclaw-inbound"],
        _key(
            "X-01",
            "`openclaw-inbound` accepts messages of either role and media types that "
            "are not on the card, ignores 0.3 JSON-RPC parts of an unknown kind, and "
            "answers an empty message with a message that says so.",
        ),
    ] = "strict"
    error_style: Annotated[
        Literal["standard", "openclaw-inbound"],
        _key("X-01", "Codes and texts of JSON-RPC errors."),
    ] = "standard"
    streaming: Annotated[bool, _key("X-14", "Offer streams, and announce them on the card.")] = True
    deduplicate_messages: Annotated[
        bool,
        _key("X-06", "When a caller sends a message id again, return the first task."),
    ] = False

    @property
    def artifact_layout(self) -> Literal["answer", "numbered", "tool-results"]:
        """The artifacts of `artifact_style`, without the name of the gateway they come from."""
        if self.artifact_style == "openclaw-inbound":
            return "numbered"
        return "tool-results" if self.artifact_style == "openclaw-design" else "answer"

    @property
    def texts(self) -> GatewayTexts:
        return _OPENCLAW_TEXTS if self.artifact_style == "openclaw-inbound" else _TEXTS

    @property
    def has_channel_addresses(self) -> bool:
        """Whether the host of channels gets addresses such as `a2a:<principal>`."""
        return self.message_context == "openclaw-inbound"


_TEXTS: Final = GatewayTexts()
_OPENCLAW_TEXTS: Final = GatewayTexts(
    empty_answer="OpenClaw completed without a user-visible terminal reply.",
    approval="OpenClaw is waiting for tool approval to continue.",
    cancel="Task cancellation requested by the client.",
)

# The keys in which a preset differs from `standard`.
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "standard": {},
    "openclaw-inbound": {
        "dialect": "v0.3",
        "default_version": "0.3",
        "retention_s": 0.0,
        "cancel_terminal": "passthrough",
        "on_restart": ("leave_orphaned",),
        "stream_replay": False,
        "agent_style": "hybrid",
        "files": "reject",
        "files_reject_code": -32602,
        "unnamed_output": "card",
        "list_tasks": "hidden",
        "history_default": "none",
        "subscribe_ended": "snapshot",
        "subscribe_pause": "close",
        "question_is_final": False,
        "artifact_style": "openclaw-inbound",
        "addresses": "exact",
        "card_style": "openclaw-inbound",
        "message_checks": "openclaw-inbound",
        "error_style": "openclaw-inbound",
    },
    "openclaw-design": {
        "dialect": "v0.3-legacy",
        "default_version": "0.3",
        "session_key": "literal",
        "queued_send": "return",
        "overflow": "error",
        "agent_style": "task-generating",
        "stream_shape": "status-text",
        "result_in": ("status", "history"),
        "message_context": "openclaw-design",
        "artifact_style": "openclaw-design",
        "card_style": "openclaw-design",
    },
    "hub": {
        "retention_s": 1800.0,
        "busy": "fail",
        "cancel": "unsupported",
        "cancel_unsupported_code": -32601,
        "reply_wait_s": 60.0,
        "on_reply_wait": "fail",
        "task_deadline_s": 60.0,
        "agent_style": "task-generating",
        "stream_shape": "snapshots",
        "files": "ignore",
        "refusal_state": "failed",
        "list_tasks": "hidden",
    },
}

# Keys of features that are still to come, and the name of each feature.
NOT_AVAILABLE: Final[dict[str, str]] = {
    "push": "push notifications",
    "auth": "authentication per agent",
    "mode": "relay mode",
    "relay": "relay mode",
    "response_ttl_s": "response routing",
    "handles_ttl_s": "task handles",
}


def preset(name: str, **changes: Any) -> Profile:
    """The preset with some keys set differently."""
    return Profile(**{**PRESETS[name], **changes})

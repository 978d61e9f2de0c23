"""`Profile`: how an agent behaves where A2A, its versions and its users leave a choice.

Every key stands for one point on which real gateways differ. The settings name presets, which are
whole sets of values; any key may be set on top of one. The runtime decides by the values alone,
and never by the name of a preset.
"""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

DAY_S: Final = 86_400.0

RestartPolicy = Literal[
    "resume_queued", "resume_running", "fail_running", "retry_running", "leave_orphaned"
]
ResultPlace = Literal["artifact", "status", "history"]


def doc(description: str, **bounds: Any) -> Meta:
    """The description of a key, for the reference, for editors and for errors; `bounds` are those
    of msgspec."""
    return Meta(description=description, **bounds)


class GatewayTexts(Struct, frozen=True, kw_only=True):
    """Sentences of the gateway where an agent gives none. Empty: the message is left out."""

    empty_answer: str = ""
    approval: str = "The agent waits for your approval of a tool call."
    cancel: str = ""
    # With `{seconds}`: the ends of `reply_wait_s` and of `task_deadline_s`.
    no_reply: str = "agent did not reply within {seconds}s"
    deadline: str = "The agent did not finish within {seconds} s."
    # Follows the reason of a stop that the agent ignores, with `{seconds}` and `{late}`.
    ignores_stop: str = "The agent did not stop within {seconds} s; its late output is {late}."
    # In place of the reason that a backend gives when its agent cannot be reached. Empty: that
    # reason.
    unreachable: str = ""
    # In place of the text of a refusal that names a `limit`, and of one that says `busy`; with
    # `{handle}` and `{limit}`. Empty: the text of the refusal.
    budget_exhausted: str = ""
    busy: str = ""


class ProfileKeys(Struct, frozen=True, kw_only=True):
    """The keys of a profile. The defaults are the preset `standard`.

    The keys that are plain texts here choose a style. The settings have names of their own for
    the styles, and describe them. The comments name the rows of docs/evidence/inbound.md.
    """

    # Wire dialect.
    dialect: Annotated[
        Literal["auto", "v1.0", "v0.3", "v0.3-legacy"],
        doc(
            "Protocol versions of the agent. `auto`: both; each request shows its "
            "version. `v0.3-legacy` also accepts parts with `type` instead of `kind`, "
            "and method names such as `message.send` and `sendMessage`."
        ),
    ] = "auto"
    task_id_prefix: Annotated[
        Literal["", "task-"], doc("Beginning of the ids of new tasks, before a UUID.")
    ] = ""
    # No version stated.
    default_version: Annotated[
        Literal["1.0", "0.3"],
        doc(
            "Protocol version of a request without `A2A-Version`. `1.0`: its form tells the "
            "version, and 1.0 is what shows none. `0.3`: always 0.3, as A2A 1.0 says, so that "
            "requests of 1.0 must state their version."
        ),
    ] = "1.0"
    # Retention.
    retention_s: Annotated[
        float,
        doc("Seconds that ended tasks and answers without a task are kept. 0: for ever.", ge=0),
    ] = 7 * DAY_S
    retention_max_tasks: Annotated[
        int,
        doc(
            "Maximum number of ended tasks; the oldest are deleted first. 0: no limit. "
            "Answers without a task do not count.",
            ge=0,
        ),
    ] = 0
    # Contexts.
    context_mode: Annotated[
        Literal["session", "task", "client", "stateless"],
        doc(
            "Unit that has a session and a queue: all tasks of one `contextId`, each "
            "task, all tasks of one caller, or none."
        ),
    ] = "session"
    stateless_context: Annotated[
        Literal["reject", "echo"],
        doc("With `stateless`: how a `contextId` of the client is treated."),
    ] = "reject"
    # Session key.
    session_key: Annotated[
        Literal["scoped", "literal"],
        doc(
            "`literal`: always `agent:{agentId}:a2a:{contextId}`. `scoped`: also has a "
            "mark of the caller, unless the caller is anonymous, for backends that see "
            "only the key."
        ),
    ] = "scoped"
    # Busy agent.
    busy: Annotated[
        Literal["queue", "fail", "wait"],
        doc(
            "When the agent already works on the context, or for as many callers as it may: "
            "`queue` lets the message wait, `fail` fails its task, and `wait` fails it if its "
            "turn has not begun after `busy_wait_s`."
        ),
    ] = "queue"
    busy_wait_s: Annotated[
        float, doc('Maximum seconds that a new task waits with `busy = "wait"`.', gt=0)
    ] = 30.0
    driver_claim: Annotated[
        bool,
        doc(
            "Whether the agent works for one caller at a time: while a turn of a caller runs, "
            "messages of others meet `busy`. Contexts of the same caller run at once. Change it "
            "while no task of the agent is unfinished, if several nodes share the store."
        ),
    ] = False
    max_queue_per_context: Annotated[
        int, doc("Maximum number of waiting messages per context; more are refused.", ge=1)
    ] = 9999
    max_concurrency: Annotated[
        int,
        doc(
            "Maximum number of turns that run at once, over all nodes of the gateway. 0: no limit.",
            ge=0,
        ),
    ] = 0
    max_concurrency_per_node: Annotated[
        int,
        doc(
            "Maximum number of turns that run at once at one node of the gateway. Contexts that "
            "wait go to a node that has room. 0: no limit.",
            ge=0,
        ),
    ] = 0
    # Agent that is not there.
    offline: Annotated[
        Literal["wait", "fail"],
        doc(
            "When the agent cannot be reached: `wait` as long as its backend tries again, or "
            "`fail` the turn at once."
        ),
    ] = "wait"
    queued_send: Annotated[
        Literal["wait", "return"],
        doc(
            "Whether a blocking send that is queued waits for the end of its task or "
            "returns at once."
        ),
    ] = "wait"
    # Full queue.
    overflow: Annotated[
        Literal["task", "error"],
        doc("Answer when the queue is full: a rejected task, or an error and no task."),
    ] = "task"
    # Cancel.
    cancel: Annotated[
        Literal["supported", "unsupported"], doc("Whether callers may cancel tasks.")
    ] = "supported"
    cancel_terminal: Annotated[
        Literal["error", "passthrough"],
        doc("Answer to the cancel of an ended task: an error, or the task as it is."),
    ] = "error"
    cancel_unsupported_code: Annotated[
        Literal[-32004, -32601], doc("JSON-RPC error when cancel is not supported.")
    ] = -32004
    # Timeouts.
    reply_wait_s: Annotated[
        float, doc("Maximum seconds that a blocking send waits. 0: until the task ends.", ge=0)
    ] = 0.0
    on_reply_wait: Annotated[
        Literal["return_working", "fail"],
        doc("After `reply_wait_s`: answer with the task as it is, or fail the task."),
    ] = "return_working"
    task_deadline_s: Annotated[
        float, doc("Maximum seconds of a turn; then its task fails.", gt=0)
    ] = 1800.0
    cancel_grace_s: Annotated[
        float, doc("Seconds that a canceled run has to stop by itself.", ge=0)
    ] = 5.0
    # Late output.
    late_output: Annotated[
        Literal["keep", "drop"],
        doc("Output of an agent after the end of its task: kept in an artifact, or dropped."),
    ] = "drop"
    # Restart.
    on_restart: Annotated[
        tuple[RestartPolicy, ...],
        doc(
            "How a restart treats unfinished tasks. `resume_queued` runs waiting tasks."
            " `resume_running` resumes running tasks if the backend can. `fail_running`"
            " fails running tasks with a reason. `retry_running` runs them again. "
            "`leave_orphaned` leaves all other tasks as they are. Without "
            "`leave_orphaned` and `resume_queued`, waiting tasks fail too."
        ),
    ] = ("resume_queued", "resume_running", "fail_running")
    # Replay and subscriptions.
    stream_replay: Annotated[
        bool, doc("Replay missed events to a client that sends `Last-Event-ID`.")
    ] = True
    # Message or task.
    agent_style: Annotated[
        Literal["declared", "task-generating", "hybrid"],
        doc(
            "`task-generating`: every message makes a task. `hybrid`: a short answer is"
            " a message, and a task is made when it is needed. `declared`: tasks, "
            "unless the agent itself answers with a message."
        ),
    ] = "declared"
    promote_after_ms: Annotated[
        int,
        doc(
            "With `hybrid`: a run that takes longer, including time in the queue, "
            "becomes a task. 0: never.",
            ge=0,
        ),
    ] = 0
    # Shape of a stream.
    stream_shape: Annotated[
        Literal["events", "status-text", "snapshots"],
        doc(
            "How an answer is streamed: as chunks of an artifact, as texts of the "
            "working status, or as the whole task at its start and end."
        ),
    ] = "events"
    # Place of the answer.
    result_in: Annotated[
        tuple[ResultPlace, ...],
        doc("Places that hold the answer of a task. `history` keeps the message of the status."),
    ] = ("artifact", "status", "history")
    # Files.
    files: Annotated[
        Literal["accept", "reject", "ignore"], doc("How file parts of messages are treated.")
    ] = "accept"
    files_reject_code: Annotated[
        Literal[-32005, -32602], doc("JSON-RPC error for a rejected file part.")
    ] = -32005
    max_file_bytes: Annotated[
        int, doc("Maximum size of a file in a message. 0: limited only by the body.", ge=0)
    ] = 0
    unnamed_output: Annotated[
        Literal["any", "card"],
        doc(
            "What a caller gets that names no output modes: anything, or only the media types on "
            "the card, so that no file goes out unless the card names its type."
        ),
    ] = "any"
    # Outbound on the channel.
    origin_routing_policy: Annotated[
        Literal["suppress-generic-followup", "legacy-origin-routing"],
        doc("Whether the backend learns an origin to which it could route follow-ups itself."),
    ] = "suppress-generic-followup"
    message_context: str = "channel"
    # State of a refusal.
    refusal_state: Annotated[
        Literal["rejected", "failed"],
        doc("State of a task that the agent or a full queue refused."),
    ] = "rejected"
    # Hidden lists.
    list_tasks: Annotated[
        Literal["served", "hidden"], doc("Whether callers may list their tasks.")
    ] = "served"
    # History.
    history_default: Annotated[
        Literal["all", "none"], doc("History in the answer to GetTask without `historyLength`.")
    ] = "all"
    # Replay and subscriptions.
    subscribe_ended: Annotated[
        Literal["error", "snapshot"],
        doc(
            "Answer to a subscription to an ended task: an error, or the task and the "
            "end of the stream."
        ),
    ] = "error"
    subscribe_pause: Annotated[
        Literal["by-version", "stay", "close"],
        doc(
            "Whether a subscription stays open when the task asks a question. "
            "`by-version`: it stays open in 1.0 and closes in 0.3, where a question is "
            "final."
        ),
    ] = "by-version"
    # Shape of a stream.
    question_is_final: Annotated[
        bool, doc("Whether the question that ends a 0.3 stream has `final: true`.")
    ] = True
    artifact_style: str = "answer"
    # Addresses and cards.
    addresses: Annotated[
        Literal["all", "exact"],
        doc(
            "Addresses of the agent. `exact`: the card and JSON-RPC, at one path each. "
            "`all`: also below its handle, and with the HTTP+JSON binding."
        ),
    ] = "all"
    card_style: str = "standard"
    wire_style: str = "standard"
    message_checks: str = "strict"
    error_style: str = "standard"
    # Shape of a stream.
    streaming: Annotated[bool, doc("Offer streams, and announce them on the card.")] = True
    # Busy agent.
    deduplicate_messages: Annotated[
        bool, doc("When a caller sends a message id again, return the first task.")
    ] = False


class Profile(ProfileKeys, frozen=True, kw_only=True):
    """The keys, and the sentences that belong to the styles that they choose."""

    texts: GatewayTexts = GatewayTexts()

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


class Profile(Struct, frozen=True, kw_only=True):
    """The defaults are the preset `standard`."""

    dialect: Annotated[
        Literal["auto", "v1.0", "v0.3", "v0.3-legacy"],
        _key(
            "X-01",
            "Protocol versions that are spoken. `auto`: both, as each request shows. `v0.3-legacy` "
            "also takes parts that say `type` where 0.3 says `kind`, and method names such as "
            "`message.send` and `sendMessage`.",
        ),
    ] = "auto"
    default_version: Annotated[
        Literal["1.0", "0.3"],
        _key("X-02", "Protocol version of a request that shows none in any way."),
    ] = "1.0"
    retention_s: Annotated[
        float,
        _key(
            "X-03",
            "Seconds that ended tasks, and answers without a task, are kept; 0 keeps them for "
            "ever.",
            ge=0,
        ),
    ] = 7 * DAY_S
    retention_max_tasks: Annotated[
        int,
        _key(
            "X-03",
            "Ended tasks that are kept; the oldest go first. 0 is no bound. Answers without a "
            "task do not count.",
            ge=0,
        ),
    ] = 0
    context_mode: Annotated[
        Literal["session", "task", "client", "stateless"],
        _key(
            "X-04",
            "What shares a session and a queue: the tasks of one `contextId`, one task alone, "
            "all tasks of one caller, or nothing.",
        ),
    ] = "session"
    stateless_context: Annotated[
        Literal["reject", "echo"],
        _key("X-04", "With `stateless`: what to do with a `contextId` that the client gives."),
    ] = "reject"
    session_key: Annotated[
        Literal["scoped", "literal"],
        _key(
            "X-05",
            "`literal`: always `agent:{agentId}:a2a:{contextId}`. `scoped`: with a mark of the "
            "caller in it for all but anonymous callers, for backends that know the key alone.",
        ),
    ] = "scoped"
    busy: Annotated[
        Literal["queue", "fail"],
        _key("X-06", "A message for a context whose agent is at work waits, or its task fails."),
    ] = "queue"
    max_queue_per_context: Annotated[
        int, _key("X-06", "Messages that may wait in one context; more are refused.", ge=1)
    ] = 9999
    max_concurrency: Annotated[
        int, _key("X-06", "Turns that run at once; 0 is no limit.", ge=0)
    ] = 0
    queued_send: Annotated[
        Literal["wait", "return"],
        _key("X-06", "A blocking send that has to queue waits for its end, or returns at once."),
    ] = "wait"
    overflow: Annotated[
        Literal["task", "error"],
        _key("X-07", "What a full queue gives: a rejected task, or an error and no task."),
    ] = "task"
    cancel: Annotated[
        Literal["supported", "unsupported"], _key("X-08", "Whether callers may cancel tasks.")
    ] = "supported"
    cancel_terminal: Annotated[
        Literal["error", "passthrough"],
        _key("X-08", "Cancel of an ended task: an error, or the task as it is."),
    ] = "error"
    cancel_unsupported_code: Annotated[
        Literal[-32004, -32601], _key("X-08", "JSON-RPC error when cancel is not supported.")
    ] = -32004
    reply_wait_s: Annotated[
        float,
        _key("X-09", "Seconds that a blocking send waits at most; 0 waits for the task.", ge=0),
    ] = 0.0
    on_reply_wait: Annotated[
        Literal["return_working", "fail"],
        _key("X-09", "When that time is over: answer with the task as it is, or fail the task."),
    ] = "return_working"
    task_deadline_s: Annotated[
        float, _key("X-09", "Seconds after which a running turn is failed.", gt=0)
    ] = 1800.0
    cancel_grace_s: Annotated[
        float, _key("X-09", "Seconds that a canceled run gets to stop by itself.", ge=0)
    ] = 5.0
    late_output: Annotated[
        Literal["keep", "drop"],
        _key("X-10", "What an agent says after its task ended: kept in an artifact, or dropped."),
    ] = "drop"
    on_restart: Annotated[
        tuple[RestartPolicy, ...],
        _key(
            "X-11",
            "What a restart does with unfinished tasks: `resume_queued` runs those that waited, "
            "`resume_running` picks up those that ran where the backend can, "
            "`fail_running` ends those that ran with a reason, `retry_running` runs them again, "
            "`leave_orphaned` touches none of those that no other word covers. Without it and "
            "without `resume_queued`, those that waited are ended too.",
        ),
    ] = ("resume_queued", "resume_running", "fail_running")
    stream_replay: Annotated[
        bool, _key("X-12", "Replay what a client missed when it sends `Last-Event-ID`.")
    ] = True
    agent_style: Annotated[
        Literal["declared", "task-generating", "hybrid"],
        _key(
            "X-13",
            "`task-generating`: every message is a task. `hybrid`: a short answer is a message, "
            "and a task is made when one is needed. `declared`: tasks, unless the agent itself "
            "answers with a message.",
        ),
    ] = "declared"
    promote_after_ms: Annotated[
        int,
        _key(
            "X-13",
            "With `hybrid`: a run that takes longer, its wait in the queue included, becomes a "
            "task. 0: never.",
            ge=0,
        ),
    ] = 0
    stream_shape: Annotated[
        Literal["events", "status-text", "snapshots"],
        _key(
            "X-14",
            "How an answer streams: as pieces of an artifact, as texts of the working status, or "
            "as the whole task at its start and end.",
        ),
    ] = "events"
    result_in: Annotated[
        tuple[ResultPlace, ...],
        _key("X-15", "Where the answer of a task is. `history` keeps the message of the status."),
    ] = ("artifact", "status", "history")
    files: Annotated[
        Literal["accept", "reject", "ignore"],
        _key("X-17", "What to do with file parts in messages."),
    ] = "accept"
    files_reject_code: Annotated[
        Literal[-32005, -32602], _key("X-17", "JSON-RPC error for a file part that is rejected.")
    ] = -32005
    max_file_bytes: Annotated[
        int, _key("X-17", "Largest file in a message; 0: as the body allows.", ge=0)
    ] = 0
    origin_routing_policy: Annotated[
        Literal["suppress-generic-followup", "legacy-origin-routing"],
        _key("X-21", "Whether the backend learns an origin to which it could route by itself."),
    ] = "suppress-generic-followup"
    message_context: Annotated[
        Literal["openclaw-inbound", "openclaw-design"],
        _key("X-21", "Which document's mapping a backend gets that speaks to a host of channels."),
    ] = "openclaw-inbound"
    refusal_state: Annotated[
        Literal["rejected", "failed"],
        _key("X-25", "State of a task that was refused: by the agent, or by a full queue."),
    ] = "rejected"
    list_tasks: Annotated[
        Literal["served", "hidden"], _key("X-28", "Whether callers may list their tasks.")
    ] = "served"
    history_default: Annotated[
        Literal["all", "none"],
        _key("X-29", "History that GetTask gives when `historyLength` is absent."),
    ] = "all"
    subscribe_ended: Annotated[
        Literal["error", "snapshot"],
        _key("X-12", "Subscribing to an ended task: an error, or the task and the end."),
    ] = "error"
    subscribe_pause: Annotated[
        Literal["by-version", "stay", "close"],
        _key(
            "X-12",
            "A subscriber of a task that pauses stays or is let go. `by-version`: it stays in 1.0, "
            "and goes in 0.3, where a question is final.",
        ),
    ] = "by-version"
    question_is_final: Annotated[
        bool,
        _key("X-14", "Whether the question that ends a stream of 0.3 says `final: true`."),
    ] = True
    artifact_style: Annotated[
        Literal["answer", "openclaw-inbound", "openclaw-design"],
        _key(
            "X-14",
            "Which artifacts the gateway makes of an agent's output. `answer`: one for each "
            "message and each call of a tool. `openclaw-inbound`: `assistant-output-0001`, "
            "`tool-progress-…`, `tool-result-0001`; a task also says that it is submitted before "
            "it is worked on, and a canceled one ends with what the agent said last. "
            "`openclaw-design`: results of tools alone, as JSON text.",
        ),
    ] = "answer"
    addresses: Annotated[
        Literal["all", "exact"],
        _key(
            "X-20",
            "Where the agent is served. `exact`: its card and JSON-RPC, at one path each. `all`: "
            "also below its handle, and with the HTTP+JSON binding.",
        ),
    ] = "all"
    card_style: Annotated[
        Literal["standard", "openclaw-inbound", "openclaw-design"],
        _key(
            "X-20",
            "What the 0.3 card says beyond the standard. `openclaw-inbound` names the interface "
            "twice and denies `stateTransitionHistory`; `openclaw-design` affirms it, and names "
            "the schemes in `authentication` as well.",
        ),
    ] = "standard"
    message_checks: Annotated[
        Literal["strict", "openclaw-inbound"],
        _key(
            "X-01",
            "`openclaw-inbound` takes messages of either role and media types that the card does "
            "not name, passes over parts of 0.3 JSON-RPC whose kind it does not know, and answers "
            "a message without content with a message that says so.",
        ),
    ] = "strict"
    error_style: Annotated[
        Literal["standard", "openclaw-inbound"],
        _key("X-01", "Codes and texts of errors over JSON-RPC."),
    ] = "standard"
    streaming: Annotated[bool, _key("X-14", "Offer streams, on the card and in fact.")] = True
    deduplicate_messages: Annotated[
        bool,
        _key("X-06", "A message id sent twice by one caller gives the first task again."),
    ] = False


# What a preset says differently from `standard`.
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

# Keys of features that are still to come, with what they wait for.
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

"""What callers say to the gateway, and the agents that answer, for the recorded corpus.

A step is an operation and its parameters in the form of 1.0; the clients of `tests/bindings` write
them in each dialect. `TASK` in a parameter is the id of the last task, `CONTEXT` its context.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from trunkline.settings.profiles import PRESETS

Json: TypeAlias = dict[str, Any]


class Step(Struct, frozen=True):
    operation: str
    params: Json
    headers: dict[str, str] = {}


class Scenario(Struct, frozen=True, kw_only=True):
    name: str
    steps: tuple[Step, ...]
    # Settings of the agent.
    agent: dict[str, Any] = {}


def said(*content: str | Json, number: int = 1, **fields: Any) -> Json:
    parts = [{"text": each} if isinstance(each, str) else each for each in content]
    return {"messageId": f"message-{number}", "role": "ROLE_USER", "parts": parts, **fields}


def send(*content: str | Json, number: int = 1, **more: Any) -> Step:
    fields = {name: more.pop(name) for name in ("taskId", "contextId", "metadata") if name in more}
    params: Json = {"message": said(*content, number=number, **fields)}
    if more:
        params["configuration"] = more
    return Step("SendMessage", params)


def stream(*content: str | Json, number: int = 1, **more: Any) -> Step:
    return Step("SendStreamingMessage", send(*content, number=number, **more).params)


GET = Step("GetTask", {"id": "TASK"})
CANCEL = Step("CancelTask", {"id": "TASK"})
REPLAY = Step("SubscribeToTask", {"id": "TASK"}, {"last-event-id": "1"})
SUBSCRIBE = Step("SubscribeToTask", {"id": "TASK"})


def get(**params: Any) -> Step:
    return Step("GetTask", {"id": "TASK", **params})


def list_tasks(**params: Any) -> Step:
    return Step("ListTasks", params)


_LONG = "0123456789abcdef" * 256
_LINES = 'quotes " and \\ and\ttabs, ümlauts, 漢字, 🙂 and \u2028'
_RESULT_IN = {
    "artifact": ("artifact",),
    "status": ("status",),
    "history": ("history",),
    "all": ("artifact", "status", "history"),
}

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(name="echo", steps=(send("hello"), GET, list_tasks(), REPLAY)),
    Scenario(name="stream", steps=(stream("say one ; say two; say three"), GET, REPLAY, SUBSCRIBE)),
    Scenario(name="text of 4 KB", steps=(send(_LONG), GET, list_tasks(includeArtifacts=True))),
    Scenario(name="characters", steps=(send(_LINES), GET, stream(_LINES, number=2), REPLAY)),
    Scenario(
        name="artifacts",
        steps=(
            stream('say intro ; artifact text note two; artifact data facts {"a": [1, 2.5]}'),
            GET,
            get(historyLength=0),
            list_tasks(includeArtifacts=True, historyLength=0),
            REPLAY,
        ),
    ),
    Scenario(
        name="question",
        steps=(
            stream("ask which?"),
            GET,
            send("say this one", number=2, taskId="TASK", contextId="CONTEXT"),
            GET,
            get(historyLength=1),
            REPLAY,
            list_tasks(status="TASK_STATE_COMPLETED"),
        ),
    ),
    Scenario(name="sign-in", steps=(send("auth sign in at the door"), GET, CANCEL, GET, REPLAY)),
    Scenario(name="failure", steps=(send("fail no luck"), stream("fail again", number=2), GET)),
    Scenario(name="refusal", steps=(send("refuse not mine"), stream("refuse it", number=2), GET)),
    Scenario(
        name="turns of one task",
        steps=(
            send("ask one?"),
            send("ask two?", number=2, taskId="TASK"),
            send("ask three?", number=3, taskId="TASK"),
            stream("say done", number=4, taskId="TASK"),
            GET,
            get(historyLength=2),
            REPLAY,
        ),
    ),
    Scenario(
        name="tasks of one context",
        steps=(
            send("say one", contextId="context-1"),
            send("say two", number=2, contextId="context-1"),
            stream("fail three", number=3, contextId="context-1"),
            list_tasks(contextId="context-1"),
            list_tasks(contextId="context-1", pageSize=1),
            list_tasks(contextId="context-1", status="TASK_STATE_FAILED"),
        ),
    ),
    Scenario(
        name="parts",
        steps=(
            send(
                "say seen",
                {"data": {"b": 1, "a": {"z": None}}},
                {"url": "https://example.com/f.png", "mediaType": "image/png", "filename": "f.png"},
                {"raw": "AAEC", "mediaType": "image/png"},
                metadata={"origin": "corpus", "n": 1},
            ),
            GET,
            get(historyLength=1),
        ),
        agent={"input_modes": ("text/plain", "application/json", "image/png")},
    ),
    Scenario(
        name="options",
        steps=(
            stream("say short", historyLength=0),
            send("say modes", number=2, acceptedOutputModes=["text/plain"]),
            send("say history", number=3, historyLength=1),
        ),
    ),
    Scenario(
        name="errors",
        steps=(
            Step("GetTask", {"id": "unknown"}),
            Step("CancelTask", {"id": "unknown"}),
            Step("SubscribeToTask", {"id": "unknown"}),
            Step("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}),
            Step("ListTasks", {"pageSize": 1000}),
            Step("ListTasks", {"pageToken": "nonsense"}),
            Step("GetExtendedAgentCard", {}),
            send("say done"),
            CANCEL,
            send("say more", number=2, taskId="TASK"),
            SUBSCRIBE,
        ),
    ),
    Scenario(
        name="direct reply",
        steps=(send("reply hello"), stream("reply again", number=2)),
        agent={"agent_style": "hybrid"},
    ),
    *(
        Scenario(
            name=f"result in {name}",
            steps=(send("say an answer"), stream("say a ; say b", number=2), GET, REPLAY),
            agent={"result_in": places},
        )
        for name, places in _RESULT_IN.items()
    ),
    *(
        Scenario(
            name=f"profile {profile}",
            steps=(
                send("say one ; artifact text note two"),
                stream("say a ; say b", number=2),
                GET,
                stream("ask which?", number=3),
                GET,
                send("fail no luck", number=4),
                list_tasks(),
                REPLAY,
            ),
            agent={"profile": profile, **PRESETS[profile]},
        )
        for profile in ("standard", "openclaw-inbound", "openclaw-design", "hub")
    ),
)

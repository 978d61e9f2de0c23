"""What models read of the tools by which agents ask each other."""

from typing import Any, Final

from trunkline.engine.batch import MAX_CALLS, MAX_CONCURRENCY
from trunkline.engine.debate_arguments import MAX_CRITICS, MAX_ROUNDS
from trunkline.ports.tools import ToolDefinition

AGENT_CALL: Final = "agent_call"
AGENT_POLL: Final = "agent_poll"
BATCH: Final = "agent_call_batch"
DEBATE: Final = "debate_call"

_TEXT: Final = {"type": "string"}
_AGENT: Final = {
    "agent": {**_TEXT, "description": "The agent, such as owner/slug."},
    "skill": {**_TEXT, "description": "A skill of the agent. Leave it out for its first."},
}
_ASKED: Final = {
    **_AGENT,
    "input": {"description": "What the agent gets: a text, or any JSON."},
}
_QUESTION: Final = {**_TEXT, "description": "The task that asked a question."}
_SECONDS: Final = {"type": "number", "exclusiveMinimum": 0}
_WAIT: Final = {
    "type": "boolean",
    "description": (
        "Whether to wait for the result here, as is usual. With false it arrives later in this "
        "conversation, as a skill_response."
    ),
}


def _object(properties: dict[str, Any], *required: str, description: str = "") -> dict[str, Any]:
    described = {"description": description} if description else {}
    return {
        "type": "object",
        **described,
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


CALL_DEFINITION: Final = ToolDefinition(
    name=AGENT_CALL,
    title="Ask another agent",
    description=(
        "Ask another agent of this gateway. It answers at once with the status pending; the answer "
        "itself arrives later in this conversation, as a skill_response with the same "
        "correlationId. With wait, the result is the answer. An answer with the status "
        "input_required is a question: answer it by a new call with its taskId."
    ),
    input_schema=_object(
        {
            **_ASKED,
            "timeoutSeconds": {
                "type": "number",
                "minimum": 0,
                "description": "How long to wait for the answer. 0: no answer is expected.",
            },
            "wait": {"type": "boolean", "description": "Whether to wait for the answer here."},
            "taskId": _QUESTION,
        },
        "agent",
        "input",
    ),
)
POLL_DEFINITION: Final = ToolDefinition(
    name=AGENT_POLL,
    title="See how a call stands",
    description=(
        "Tell how a call of this conversation stands: working, completed, error, input_required or "
        "timeout, with its output where there is one."
    ),
    input_schema=_object(
        {
            "taskId": {**_TEXT, "description": "The taskId that agent_call returned."},
            "correlationId": {**_TEXT, "description": "The correlationId that it returned."},
        }
    ),
)
BATCH_DEFINITION: Final = ToolDefinition(
    name=BATCH,
    title="Ask several agents",
    description=(
        "Ask several agents of this gateway, or one of them several times, side by side. The "
        "result has an entry for each call, in their order; one that fails does not stop the "
        "others."
    ),
    input_schema=_object(
        {
            "calls": {
                "type": "array",
                "description": "The calls, each as of `agent_call`.",
                "minItems": 1,
                "maxItems": MAX_CALLS,
                "items": _object(
                    {
                        **_ASKED,
                        "timeoutSeconds": {
                            **_SECONDS,
                            "description": "How long this answer may take.",
                        },
                        "taskId": _QUESTION,
                    },
                    "agent",
                    "input",
                ),
            },
            "concurrency": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_CONCURRENCY,
                "default": 5,
                "description": "How many calls are under way at once.",
            },
            "totalTimeoutSeconds": {**_SECONDS, "description": "How long all calls may take."},
            "wait": _WAIT,
        },
        "calls",
    ),
)
DEBATE_DEFINITION: Final = ToolDefinition(
    name=DEBATE,
    title="Have agents debate",
    description=(
        "Have agents of this gateway debate a topic: one proposes, critics find flaws, the "
        "proposer refines, for some rounds or until it is sure enough, and a resolver concludes. "
        "The result has the conclusion, its confidence, all rounds and the dissent."
    ),
    input_schema=_object(
        {
            "topic": {**_TEXT, "description": "What the debate is about."},
            "proposer": _object(_AGENT, "agent", description="The agent that proposes."),
            "critics": {
                "type": "array",
                "description": "The agents that look for flaws in the proposal.",
                "minItems": 1,
                "maxItems": MAX_CRITICS,
                "items": _object(
                    {
                        **_AGENT,
                        "perspective": {
                            **_TEXT,
                            "description": "From which point of view it criticises.",
                        },
                        "weight": {
                            "type": "number",
                            "minimum": 0,
                            "maximum": 1,
                            "default": 1,
                            "description": "How much it counts among the critics.",
                        },
                    },
                    "agent",
                ),
            },
            "resolver": _object(_AGENT, "agent", description="The agent that concludes."),
            "input": {"description": "What the proposer gets beside the topic: any JSON."},
            "rounds": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_ROUNDS,
                "default": 2,
                "description": "How many rounds of critiques there are at most.",
            },
            "minConfidence": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": 0.85,
                "description": "A proposal that is as sure as this is debated no further.",
            },
            "anonymous": {
                "type": "boolean",
                "default": False,
                "description": "Whether participants do not learn which agent wrote a critique.",
            },
            "timeoutSeconds": {**_SECONDS, "description": "How long each answer may take."},
            "totalTimeoutSeconds": {
                **_SECONDS,
                "description": "How long the whole debate may take.",
            },
            "wait": _WAIT,
        },
        "topic",
        "proposer",
        "critics",
        "resolver",
    ),
)

"""The table of the tools by which agents ask each other."""

from typing import Any, get_args

from trunkline.engine import batch, debate_arguments
from trunkline.engine.agent_calls import CallTool
from trunkline.model.errors import StoreUnusable
from trunkline.routing.tool_definitions import BATCH_DEFINITION, DEBATE_DEFINITION
from trunkline.routing.tools import NOT_NOW, TOOLS, carried_out


def test_every_name_that_a_configuration_takes_has_a_definition() -> None:
    assert tuple(TOOLS) == get_args(CallTool)
    assert [tool.definition.name for tool in TOOLS.values()] == [*TOOLS]


def test_models_read_of_every_argument_of_a_batch_and_of_a_debate() -> None:
    in_milliseconds = {"timeout", "totalTimeout"}
    for definition, known in (
        (BATCH_DEFINITION, batch._ARGUMENTS),
        (DEBATE_DEFINITION, debate_arguments._ARGUMENTS),
    ):
        assert {*definition.input_schema["properties"]} == known - in_milliseconds
    debate = DEBATE_DEFINITION.input_schema["properties"]
    assert {*debate["proposer"]["properties"]} == debate_arguments._OF_PARTICIPANT
    assert {*debate["critics"]["items"]["properties"]} == debate_arguments._OF_CRITIC


async def test_a_store_that_cannot_be_used_is_an_answer_and_no_exception() -> None:
    """An exception would end the turn, and tell what only the operator may read."""

    async def fails(*_: Any) -> Any:
        raise StoreUnusable("/var/lib/trunkline.db is gone")

    found = await carried_out(fails, None, {})  # type: ignore[arg-type]
    error = {"code": "call_failed", "message": NOT_NOW}
    assert (found.value, found.is_error) == ({"status": "error", "error": error}, True)

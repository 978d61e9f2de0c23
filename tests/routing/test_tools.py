"""The table of the tools by which agents ask each other."""

from typing import get_args

from trunkline.engine import batch, debate_arguments
from trunkline.engine.agent_calls import CallTool
from trunkline.routing.tool_definitions import BATCH_DEFINITION, DEBATE_DEFINITION
from trunkline.routing.tools import TOOLS


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

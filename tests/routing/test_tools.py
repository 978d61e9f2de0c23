"""The table of the tools by which agents ask each other."""

from typing import get_args

from trunkline.engine.agent_calls import CallTool
from trunkline.routing.tools import TOOLS


def test_every_name_that_a_configuration_takes_has_a_definition() -> None:
    assert tuple(TOOLS) == get_args(CallTool)
    assert [tool.definition.name for tool in TOOLS.values()] == [*TOOLS]

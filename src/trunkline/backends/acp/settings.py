"""Settings of `kind = "acp"`."""

from typing import Annotated, Literal

from trunkline.backends.programs.settings import ProgramSettings
from trunkline.config import doc


class AcpBackend(ProgramSettings, frozen=True, kw_only=True, tag="acp"):
    """A program that speaks the Agent Client Protocol on its standard input and output.

    Each session has its own process.
    """

    mode: Annotated[
        str, doc("Id of the mode to set in each session. Empty: the default of the agent.")
    ] = ""
    permissions: Annotated[
        Literal["ask", "reject"],
        doc("When the agent needs permission for a tool: ask the caller, or reject."),
    ] = "ask"
    start_timeout_s: Annotated[
        float,
        doc("Maximum seconds to start and open a session.", gt=0),
    ] = 60.0
    question_timeout_s: Annotated[
        float,
        doc(
            "Maximum seconds that the process waits for the answer to a question. A later answer "
            "fails the task.",
            gt=0,
        ),
    ] = 3600.0

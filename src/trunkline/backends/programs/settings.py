"""Settings that all backends share whose agent is a program."""

from typing import Annotated

from msgspec import Meta, field

from trunkline.backends.kind import BackendTable
from trunkline.config.secret import Secret

MIB = 1024 * 1024


class ProgramSettings(BackendTable, frozen=True, kw_only=True):
    """The program, its environment and its limits."""

    command: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="The program and its arguments as a list; no shell is involved. A "
            "program without a slash is looked up in PATH; a relative path starts "
            "at the folder of this file.",
        ),
    ]
    cwd: Annotated[str, Meta(description="Working directory. Empty: the folder of this file.")] = ""
    inherit_env: Annotated[
        tuple[str, ...],
        Meta(
            description="Environment variables of the gateway that the program inherits. It "
            "gets no others."
        ),
    ] = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
    env: Annotated[
        dict[str, Secret],
        Meta(
            description="Additional environment variables of the program. Their values are "
            "treated as secrets."
        ),
    ] = field(default_factory=dict)
    timeout_s: Annotated[
        float, Meta(gt=0, description="Maximum seconds for one turn; then the turn is stopped.")
    ] = 1800.0
    stop_grace_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds between SIGTERM and SIGKILL; both go to the whole process group.",
        ),
    ] = 2.0
    max_output_bytes: Annotated[
        int, Meta(ge=1, description="Maximum output of one turn; then the turn is stopped.")
    ] = 16 * MIB
    max_line_bytes: Annotated[
        int,
        Meta(ge=1, description="Maximum length of a line when the output is read line by line."),
    ] = 8 * MIB
    max_memory_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Maximum writable memory of each process (`RLIMIT_DATA`, Linux). 0: no "
            "limit.",
        ),
    ] = 0
    max_processes: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of processes. When it is reached, an idle process is "
            "ended to make room; without one the turn fails.",
        ),
    ] = 16
    idle_s: Annotated[
        float, Meta(gt=0, description="Seconds that an idle process is kept after its last turn.")
    ] = 600.0

"""What agents that are programs of their own have in common."""

from typing import Annotated

from msgspec import Meta, Struct, field

from trunkline.settings.secret import Secret

MIB = 1024 * 1024


class ProgramSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is started, with what, and what it may take."""

    command: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="The program and its arguments, a list; no shell reads it. A program "
            "without a slash is looked up in PATH, a relative one with a slash starts at the "
            "folder of this file.",
        ),
    ]
    cwd: Annotated[
        str, Meta(description="Folder that it runs in. Empty: the folder of this file.")
    ] = ""
    inherit_env: Annotated[
        tuple[str, ...],
        Meta(description="Variables that it gets of the gateway's environment; no others."),
    ] = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
    env: Annotated[
        dict[str, Secret],
        Meta(description="Variables for it alone; the values are secret."),
    ] = field(default_factory=dict)
    timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds for one turn; then it is stopped.")
    ] = 1800.0
    stop_grace_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds between the signals SIGTERM and SIGKILL, both for its whole "
            "process group.",
        ),
    ] = 2.0
    max_output_bytes: Annotated[
        int, Meta(ge=1, description="What it may write in one turn; then it is stopped.")
    ] = 16 * MIB
    max_line_bytes: Annotated[
        int, Meta(ge=1, description="Longest line where its output is read by lines.")
    ] = 8 * MIB
    max_memory_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Memory that each of its processes may write to (`RLIMIT_DATA`, Linux). "
            "0: no limit.",
        ),
    ] = 0
    max_processes: Annotated[
        int,
        Meta(
            ge=1,
            description="Processes at once. Beyond that, one that is idle makes room, or the "
            "turn fails.",
        ),
    ] = 16
    idle_s: Annotated[
        float, Meta(gt=0, description="Seconds that a process is kept after its last turn.")
    ] = 600.0

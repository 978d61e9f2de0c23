"""Backends that are programs, made of their settings."""

from trunkline.backends.acp import AcpBackend, AcpOptions, check_acp
from trunkline.backends.command import (
    ClaudeFormat,
    CodexFormat,
    CommandBackend,
    Format,
    TextFormat,
    check_command,
)
from trunkline.backends.process.children import Limits
from trunkline.backends.process.program import Program
from trunkline.clock import SystemClock
from trunkline.ports.clock import Clock
from trunkline.ports.doctor import Finding
from trunkline.settings import backends as kinds
from trunkline.settings.backends.program import ProgramSettings


def program_of(settings: ProgramSettings) -> Program:
    return Program(
        settings.command,
        cwd=settings.cwd,
        inherit=settings.inherit_env,
        own={name: value.reveal() for name, value in settings.env.items()},
        max_memory_bytes=settings.max_memory_bytes,
    )


def limits_of(settings: ProgramSettings) -> Limits:
    return Limits(
        max_output_bytes=settings.max_output_bytes,
        max_line_bytes=settings.max_line_bytes,
        timeout_s=settings.timeout_s,
        stop_grace_s=settings.stop_grace_s,
        max_processes=settings.max_processes,
    )


def make_command(settings: kinds.CommandBackend, clock: Clock) -> CommandBackend:
    return CommandBackend(
        program_of(settings),
        _format(settings),
        clock=clock,
        limits=limits_of(settings),
        keeps_for_s=settings.idle_s if settings.session == "session" else None,
        has_folder=settings.files == "folder",
    )


def make_acp(settings: kinds.AcpBackend, clock: Clock) -> AcpBackend:
    options = AcpOptions(
        mode=settings.mode,
        permissions=settings.permissions,
        start_timeout_s=settings.start_timeout_s,
        idle_s=settings.idle_s,
        question_timeout_s=settings.question_timeout_s,
    )
    return AcpBackend(
        program_of(settings), clock=clock, limits=limits_of(settings), options=options
    )


async def check_program(settings: kinds.CommandBackend | kinds.AcpBackend) -> list[Finding]:
    """What `trunkline doctor` says about it."""
    program, clock = program_of(settings), SystemClock()
    if isinstance(settings, kinds.AcpBackend):
        return await check_acp(program, clock=clock, timeout_s=settings.start_timeout_s)
    # Any other program may do whatever it likes with `--version`.
    is_known = settings.format != "text"
    return await check_command(program, clock=clock, asks_version=is_known)


def _format(settings: kinds.CommandBackend) -> Format:
    match settings.format:
        case "text":
            return TextFormat(settings.command, end_line=settings.end_line)
        case "claude":
            return ClaudeFormat()
        case "codex":
            return CodexFormat()

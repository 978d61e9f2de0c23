"""Agents that are programs: plain text, Claude Code, Codex.

Read in this order: `format` (what differs between them), `text`, `claude` and `codex` (what
their bytes mean, without I/O), `run` (one turn), `backend`, `checking` (for the operator).
"""

from trunkline.backends.command.backend import CommandBackend
from trunkline.backends.command.checking import check_command
from trunkline.backends.command.claude import ClaudeFormat
from trunkline.backends.command.codex import CodexFormat
from trunkline.backends.command.format import Format
from trunkline.backends.command.text import TextFormat

__all__ = [
    "ClaudeFormat",
    "CodexFormat",
    "CommandBackend",
    "Format",
    "TextFormat",
    "check_command",
]

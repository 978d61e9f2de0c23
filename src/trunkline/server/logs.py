"""`configure`: one log handler for the gateway and uvicorn, human or JSON lines, without
secrets."""

import json
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from trunkline.config.masking import MASK, SENSITIVE, KnownSecrets, clean

Form = Literal["auto", "human", "json"]

# Attributes that logging itself sets. None has a caller's text, except for the message.
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"taskName"}
# Other attributes come from `extra`. `color_message` is uvicorn's message with escape codes.
STANDARD = _OWN | {"message", "asctime", "color_message"}
COLOURS = {"DEBUG": "2", "INFO": "36", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


def configure(
    *,
    level: str = "info",
    form: Form = "auto",
    secrets: Iterable[str] = (),
    requests: bool = False,
    colour: bool | None = None,
    stream: TextIO | None = None,
) -> None:
    """Set up logging for the whole process; run uvicorn with `log_config=None` after it.

    `secrets` never appear in the log, whoever logs them, and neither do those that an earlier call
    has hidden. `colour` is for the human form;
    None means on a terminal, unless NO_COLOR is set.
    """
    out = stream if stream is not None else sys.stderr
    terminal = out.isatty()
    human = form == "human" or (form == "auto" and terminal)
    handler = logging.StreamHandler(out)
    redaction = next(iter(_redactions()), None) or Redaction()
    redaction.hide(secrets)
    handler.addFilter(redaction)
    coloured = terminal and not os.environ.get("NO_COLOR") if colour is None else colour
    handler.setFormatter(HumanFormatter(colour=coloured) if human else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    # "Started server process" and the like say nothing that the start-up screen does not.
    logging.getLogger("uvicorn.error").setLevel(max(root.level, logging.WARNING))
    logging.getLogger("uvicorn.access").disabled = not requests
    # The library logs the ids of sessions, and whoever knows an id can use the session.
    logging.getLogger("mcp").setLevel(max(root.level, logging.WARNING))
    # Slow callbacks and the selector in use do not help an operator.
    logging.getLogger("asyncio").setLevel(max(root.level, logging.WARNING))


def hide(secrets: Iterable[str]) -> None:
    """Keep further secrets out of the log of this process."""
    known = [*secrets]
    for redaction in _redactions():
        redaction.hide(known)


def forget(secrets: Iterable[str]) -> None:
    """Undo `hide` for these secrets, whose owner is gone."""
    known = [*secrets]
    for redaction in _redactions():
        redaction.forget(known)


def _redactions() -> "list[Redaction]":
    handlers = logging.getLogger().handlers
    return [each for handler in handlers for each in handler.filters if isinstance(each, Redaction)]


def extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in record.__dict__.items() if key not in STANDARD}


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ts, level, logger, msg, the extra fields, error."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "ts": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        for key, value in extras(record).items():
            # An extra field must not replace the record's own level or time.
            fields[key if key not in fields else f"{key}_"] = value
        error = _traceback(self, record)
        if error:
            fields["error"] = error
        return json.dumps(fields, ensure_ascii=False, default=str)


class HumanFormatter(logging.Formatter):
    """`12:30:01 INFO  server: message  key=value`, coloured on a terminal."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self.colour = colour

    def format(self, record: logging.LogRecord) -> str:
        time = _moment(record).astimezone().strftime("%H:%M:%S")
        level = self.paint(f"{record.levelname:<5}", COLOURS.get(record.levelname, ""))
        name = self.paint(record.name.removeprefix("trunkline.") + ":", "2")
        fields = " ".join(f"{key}={_word(value)}" for key, value in extras(record).items())
        text = f"{time} {level} {name} {_one_line(record.getMessage())}"
        if fields:
            text = f"{text}  {self.paint(fields, '2')}"
        error = _traceback(self, record)
        return "\n  ".join([text, *map(_one_line, error.split("\n"))]) if error else text

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info and not record.exc_text:
        record.exc_text = formatter.formatException(record.exc_info)
    parts = [record.exc_text or ""]
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(part for part in parts if part)


def _one_line(text: str) -> str:
    # A caller's text in a message must not be able to forge a second line, nor drive the
    # terminal with escape codes.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _word(value: object) -> str:
    text = _one_line(str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


class Redaction(logging.Filter):
    """Masks configured secrets and anything that looks like a credential, in all of a record."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = KnownSecrets(secrets)
        self._formatter = logging.Formatter()

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these too."""
        self._secrets.hide(secrets)

    def forget(self, secrets: Iterable[str]) -> None:
        """Mask these no more, unless another part has them as well."""
        self._secrets.forget(secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        # The message is formatted first: a secret may be split over format and arguments.
        record.msg, record.args = self.clean(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = self._formatter.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self.clean(record.exc_text)
        for name, value in record.__dict__.items():
            if name not in _OWN:
                record.__dict__[name] = self._clean_value(name, value)
        return True

    def clean(self, text: str) -> str:
        return clean(self._secrets.without(text))

    def _clean_value(self, name: str, value: Any) -> Any:
        if isinstance(value, bool | int | float | None):
            return value
        if SENSITIVE.fullmatch(name):
            return MASK
        if isinstance(value, Mapping):
            return {key: self._clean_value(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean_value("", item) for item in value]
        return self.clean(value if isinstance(value, str) else str(value))

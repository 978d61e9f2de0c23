"""Keep secrets out of log records."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

MASK = "***"
# A shorter text would be masked inside ordinary words.
SHORTEST_SECRET = 6

_NAMES = (
    r"x-api-key|api[-_ ]?key|(?:access|refresh|id|session|notification)[-_]?token|token"
    r"|client[-_]?secret|secret|password|passwd|set-cookie|cookie|credentials"
)
# Between a name and its value, in a header, a query, JSON, a dict or a list of byte pairs.
_SEPARATOR = r"""\\?["']?\s*(?:[:=]|,(?=\s*b?["']))\s*(?:b?\\?["'])?"""
_VALUE = r"""[^\s"'\\,;&)}\]]+"""
AUTHORIZATION = re.compile(
    rf"((?:proxy-)?authorization{_SEPARATOR})([A-Za-z]+\s+)?{_VALUE}", re.IGNORECASE
)
BEARER = re.compile(r"\b(bearer\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
NAMED = re.compile(rf"(?<![A-Za-z0-9])({_NAMES})({_SEPARATOR}){_VALUE}", re.IGNORECASE)
SENSITIVE = re.compile(rf"(?:.*[-_.])?(?:(?:proxy-)?authorization|bearer|{_NAMES})", re.IGNORECASE)


class Redaction(logging.Filter):
    """Masks configured secrets and anything that looks like a credential, in all of a record."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        forms = {form for secret in secrets for form in (secret, quote(secret, safe=""))}
        known = sorted((f for f in forms if len(f) >= SHORTEST_SECRET), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        # The message is put together first: a secret may be split over format and arguments.
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
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = AUTHORIZATION.sub(lambda m: f"{m[1]}{m[2] or ''}{MASK}", text)
        text = BEARER.sub(rf"\1{MASK}", text)
        return NAMED.sub(rf"\1\2{MASK}", text)

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


# Set by logging itself, and never a caller's text, but for the message that is cleaned above.
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"taskName"}

"""`Redaction`: the beginning of a question, without secrets and e-mail addresses."""

import re
from collections.abc import Iterable
from typing import Final

from trunkline.model.values import Part

MAX_CHARS: Final = 500
# A secret that the cut would halve must be seen whole. The longest that has an end is in a URL.
_LOOK_CHARS: Final = MAX_CHARS + 320
MARK: Final = "[redacted]"
MAX_WILDCARDS: Final = 2

# None of these can take long: a repetition is never followed by what it may itself contain.
_SECRETS = (
    r"-----BEGIN [A-Z ]{1,40}-----[A-Za-z0-9+/=\s]*(?:-----END [A-Z ]{1,40}-----)?",
    r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)?",
    r"\b(?:tl|cw)_[a-z]{2,8}_[A-Za-z0-9_-]{8,}",
    r"\bck_live_[A-Za-z0-9_-]{8,}",
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
    r"\b(?:ghp|gho|ghu|ghs|ghr|glpat|github_pat|xoxb|xoxp|xoxa)[-_][A-Za-z0-9_-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"(?i:\bbearer\s+[A-Za-z0-9._~+/=-]{8,})",
    r"(?i:\bauthorization[\"']{0,2}\s{0,3}:\s{0,3}[\"']?[A-Za-z]{1,20}\s+\S+)",
    # Also as a part of a name, such as `DB_PASSWORD=` and `clientSecret:`, and in quotes, as in
    # JSON. A text in quotes is hidden to its end.
    r"(?i:passphrase|passwor[dt]|passwd|pwd|secret|credential|token|(?:api|access|private)[_-]?key)"
    r"(?:[_-]\w{0,30}|[A-Z]\w{0,30}|s)?[\"']{0,2}\s{0,3}[:=]\s{0,3}(?:\"[^\"]*\"?|'[^']*'?|\S+)",
    r"(?i:\b(?:passphrase|passwor[dt]|passwd|pwd)\s{1,3}is\s{1,3}\S+)",
    r"://[^\s/:@]{1,100}:[^\s/@]{1,200}@",
    r"\b[A-Za-z0-9_-]{40,}\b",
    r"[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}",
)


class Redaction:
    def __init__(self, more: Iterable[str] = ()) -> None:
        """`more` are further texts to hide, in which `*` stands for any characters of a word and
        `#` for a digit."""
        self._pattern = re.compile("|".join([*_SECRETS, *map(_of_text, more)]))

    def question(self, parts: Iterable[Part]) -> str:
        """The beginning of the text of a message."""
        text = ""
        for part in parts:
            if part.text is not None:
                text += (" " if text else "") + part.text[:_LOOK_CHARS]
            if len(text) >= _LOOK_CHARS:
                break
        shown, at = "", 0
        # What is behind the cut stays there, however much before it is hidden: the end of what is
        # looked at may halve a secret.
        for found in self._pattern.finditer(text[:_LOOK_CHARS]):
            if found.start() >= MAX_CHARS:
                break
            shown += text[at : found.start()] + MARK
            at = found.end()
        shown += text[at:MAX_CHARS]
        is_whole = len(text) <= max(at, MAX_CHARS) and len(shown) <= MAX_CHARS
        return shown if is_whole else shown[: MAX_CHARS - 1] + "…"


def _of_text(text: str) -> str:
    """Not a regular expression: some take for ever on some texts, and Python cannot stop them."""
    signs = {"*": r"\S*", "#": r"\d"}
    return "".join([signs.get(char) or re.escape(char) for char in text])

"""`Masker`: takes the secrets out of what is recorded, before it is kept."""

import json
import re
from typing import Final
from urllib.parse import unquote_plus

from trunkline.config.masking import (
    MASK,
    KnownSecrets,
    clean,
    is_secret_header,
    is_secret_member,
    is_secret_parameter,
    may_name_a_secret,
    without_tokens,
)

# A JSON string, also one that the end of the text cuts off.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
# White space, and the names of the lines over which an event spreads its JSON. Not possessive: the
# first releases of Python 3.11 forget what such a group of alternatives has matched.
_SPACE: Final = r"(?:\s|(?<=[\r\n])data:)*"
_COLON = re.compile(rf"{_SPACE}:{_SPACE}")
_TOKEN = re.compile(rf'{_STRING.pattern}|[{{}}\[\]]|[^\s"{{}}\[\],:]++', re.DOTALL)
_LITERALS: Final = frozenset({"true", "false", "null"})
# The value of a security scheme on a card says how to sign in, and holds no secret.
_SCHEME = re.compile(
    r'\{\s*"(?:[A-Za-z0-9]+SecurityScheme"|type"\s*:\s*"(?:apiKey|http|oauth2|openIdConnect|mutualTLS)")'
)
# JSON within a string: the arguments of a tool, for example. The bounds keep the time of a search
# in proportion to the text, whatever the text is.
_EMBEDDED = re.compile(
    r'((?<!\\)\\{1,15}+"([\w.-]{1,64}+)\\{1,15}+"\s{0,16}+:\s{0,16}+\\{1,15}+")'
    r'((?:[^"\\]|\\++[^"\\])*)'
)
_PARAMETER = re.compile(r"(?<![^?&;\s])([^?&;=\s]+)=([^&;\s#]*)")
# An address within a text, behind its scheme; its parts that may hold a secret.
_ADDRESS = re.compile(r"""(?<=://)[^\s"'<>\\]++""")
_USER = re.compile(r"[^/?#@]+@")
_IN_ADDRESS = re.compile(r"(?<=[?&;#])([^?&;=#]+)=([^&;#]*)")
# JSON in a string in JSON, and so on: what is deeper stays as it is.
_MAX_EMBEDDED: Final = 6
# An address in a parameter of an address in a parameter.
_MAX_ENCODED: Final = 2
# What the end of a text leaves of an escape.
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_USER_INFO = re.compile(r"(?<=://)[^/?#@\s]+@")
# The names of headers whose values keep their first word, which names the scheme.
_SCHEMED: Final = frozenset({"authorization", "proxy-authorization"})
_JSON_BEGINS = re.compile(r'\s*[\[{"]')


class Masker:
    def __init__(self, known: KnownSecrets) -> None:
        self._known = known

    @property
    def margin_chars(self) -> int:
        """How much of a text behind the part to keep must be there when it is masked, so that no
        secret at the end of that part is cut in two."""
        return max(4096, 2 * self._known.longest)

    def known(self, text: str) -> str:
        """A name that the gateway gave, such as `token:ci`: only the secrets of the settings."""
        return clean(self._known.without(text))

    def plain(self, text: str) -> str:
        """A short text, such as an error."""
        return clean(without_tokens(self._known.without(text)))

    def header(self, name: str, value: str) -> str:
        if not is_secret_header(name):
            return self._parameters(self._addresses(without_tokens(self._known.without(value))))
        scheme, space, rest = value.strip().partition(" ")
        if rest and name.lower() in _SCHEMED and scheme.isalpha() and len(scheme) <= 16:
            return f"{scheme}{space}{MASK}"
        return MASK if value else ""

    def url(self, url: str) -> str:
        url = _USER_INFO.sub(f"{MASK}@", without_tokens(self._known.without(url)))
        path, mark, query = url.partition("?")
        return f"{path}{mark}{self._parameters(query)}" if mark else url

    def body(self, text: str, *, is_form: bool = False) -> str:
        """A body, an event or a message: JSON keeps its form, but for the secrets in it."""
        text = self._known.without(text)
        if is_form:
            return self._parameters(without_tokens(text))
        # A name in escapes is found only when they are decoded.
        if '"' in text and ("\\" in text or may_name_a_secret(text)):
            text = self._json(text)
        text = self._addresses(text)
        if _JSON_BEGINS.match(text) or text.startswith(("data:", "id:", "event:", ":")):
            return without_tokens(text)
        return self._parameters(clean(without_tokens(text)))

    def _parameters(self, text: str) -> str:
        if "=" not in text:
            return text
        return _PARAMETER.sub(self._parameter, text)

    def _parameter(self, found: re.Match[str], depth: int = 0) -> str:
        name, value = found[1], found[2]
        is_secret = bool(value) and is_secret_parameter(unquote_plus(name))
        if not is_secret and "%" in value and depth < _MAX_ENCODED:
            # An address or JSON in a parameter.
            inner = unquote_plus(value)
            masked = without_tokens(self._known.without(inner))
            masked = self._json(masked) if '"' in masked else masked
            is_secret = self._addresses(masked, depth + 1) != inner
        return f"{name}={MASK}" if is_secret else found[0]

    def _addresses(self, text: str, depth: int = 0) -> str:
        """The text without the secrets of the addresses in it."""

        def address(found: re.Match[str]) -> str:
            whole = found[0]
            if "@" in whole and (user := _USER.match(whole)) is not None:
                whole = f"{MASK}@{whole[user.end() :]}"
            if "=" not in whole:
                return whole
            return _IN_ADDRESS.sub(lambda each: self._parameter(each, depth), whole)

        return _ADDRESS.sub(address, text) if "://" in text else text

    def _json(self, text: str, depth: int = 0) -> str:
        out: list[str] = []
        # The end of what is in `out`.
        done = at = 0
        while (found := _STRING.search(text, at)) is not None:
            at = found.end()
            string = found[0]
            colon = _COLON.match(text, at)
            if colon is not None and is_secret_member(_decoded(string)):
                out.append(text[done : colon.end()])
                done = at = self._mask_value(text, colon.end(), out)
            elif "\\" in string:
                cleaned = self._string(string, depth)
                if cleaned is not string:
                    out += (text[done : found.start()], cleaned)
                    done = at
        if not out:
            return text
        out.append(text[done:])
        return "".join(out)

    def _string(self, string: str, depth: int) -> str:
        """A string with escapes, behind which a secret may be hidden."""
        if '\\"' in string:
            if depth < _MAX_EMBEDDED:
                string = self._with_json(string, depth)
            masked = _EMBEDDED.sub(_embedded, string)
            string = string if masked == string else masked
        if "\\u" in string or "\\/" in string:
            plain = _decoded(string)
            cleaned = self._addresses(without_tokens(self._known.without(plain)))
            if cleaned != plain:
                return json.dumps(cleaned)
        return string

    def _with_json(self, string: str, depth: int) -> str:
        """A string that holds JSON, such as the arguments of a tool."""
        try:
            plain, is_cut = json.loads(string, strict=False), False
        except ValueError:
            try:
                # The end of the text may have cut it off.
                plain = json.loads(_CUT_ESCAPE.sub("", string) + '"', strict=False)
            except ValueError:
                return string
            is_cut = True
        if '"' not in plain or not ("\\" in plain or may_name_a_secret(plain)):
            return string
        masked = self._json(plain, depth + 1)
        if masked == plain:
            return string
        written = json.dumps(masked)
        return written[:-1] if is_cut else written

    def _mask_value(self, text: str, at: int, out: list[str]) -> int:
        """Add the value that begins there, masked; returns its end."""
        if _SCHEME.match(text, at):
            return at
        depth = 0
        done = at
        while (found := _TOKEN.search(text, at)) is not None:
            token, at = found[0], found.end()
            if token in "{[":
                depth += 1
            elif token in "}]":
                depth -= 1
                if depth < 0:
                    # No value is there; the text is no JSON.
                    out.append(text[done : found.start()])
                    return found.start()
            elif token not in _LITERALS and token != '""':
                colon = _COLON.match(text, at) if depth and token.startswith('"') else None
                if colon is None:
                    out += (text[done : found.start()], f'"{MASK}"')
                    done = at
                else:
                    at = colon.end()
            if depth == 0:
                break
        end = len(text) if found is None else at
        out.append(text[done:end])
        return end


def _embedded(found: re.Match[str]) -> str:
    return f"{found[1]}{MASK}" if is_secret_member(found[2]) else found[0]


def _decoded(string: str) -> str:
    """The text of a JSON string; what is not valid stays as it is."""
    if "\\" not in string:
        return string.strip('"')
    try:
        decoded = json.loads(string, strict=False)
    except ValueError:
        return _UNICODE.sub(lambda found: chr(int(found[1], 16)), string.strip('"'))
    return decoded if isinstance(decoded, str) else string


_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")

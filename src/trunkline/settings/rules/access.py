"""Rules of the server and of who may call it."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from trunkline.config.problems import Path, Problem, shown
from trunkline.config.secret import MASK
from trunkline.config.urls import web_url_fault
from trunkline.settings.hosts import is_loopback_host, is_loopback_url
from trunkline.settings.root import Settings
from trunkline.settings.server import ApiKey

# Shorter keys can be guessed; 16 random characters hold 96 bits in base64.
MIN_KEY_CHARS = 16
PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")

ADD_A_KEY = """\
add a key to the configuration file, \
and put it in the environment (export TRUNKLINE_KEY=$(openssl rand -hex 24)):
    [auth.keys.me]
    key = "${TRUNKLINE_KEY}\""""


def access_problems(settings: Settings) -> Iterator[Problem]:
    yield from _server(settings)
    seen: dict[str, str] = {}
    for name, key in settings.auth.keys.items():
        yield from _key(name, key)
        twin = seen.setdefault(key.digest(), name)
        if twin != name and (key.key or key.sha256):
            yield Problem(
                path=("auth", "keys", name),
                what=f'has the same key as "{twin}"',
                remedy="Give each name a key of its own: the key decides who the caller is.",
            )
    yield from _nobody_or_everybody(settings)


def _server(settings: Settings) -> Iterator[Problem]:
    server = settings.server
    if not server.host or any(character.isspace() for character in server.host):
        yield Problem(
            path=("server", "host"),
            value=shown(server.host),
            what="expected an address or a host name",
            remedy='For this machine only: host = "127.0.0.1".',
        )
    for path, url in _public_urls(settings):
        fault = _public_url_fault(url)
        if fault:
            yield Problem(
                path=path,
                value=shown(url),
                what=fault,
                remedy='Example: public_url = "https://agents.example.com".',
            )


def _public_urls(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Those that are configured, and where."""
    if settings.server.public_url:
        yield ("server", "public_url"), settings.server.public_url
    for handle, agent in settings.agents.items():
        if agent.public_url:
            yield ("agents", handle, "public_url"), agent.public_url


def _public_url_fault(url: str) -> str:
    fault = web_url_fault(url)
    parts = None if fault else urlsplit(url)
    if parts and (parts.query or parts.fragment or url.endswith(("?", "#"))):
        fault = "expected a URL without query and fragment"
    return fault


def _key(name: str, key: ApiKey) -> Iterator[Problem]:
    path = ("auth", "keys", name)
    if not PRINCIPAL.fullmatch(name) or name == "anonymous":
        yield Problem(
            path=path,
            what="cannot be the name of a principal",
            remedy="Use up to 64 letters, digits and . _ @ -, starting with a letter or digit, "
            'and not "anonymous".',
        )
    if (key.key is None) == (key.sha256 is None):
        yield Problem(
            path=path,
            what="needs key or sha256, and not both",
            remedy='Example: key = "${TRUNKLINE_KEY}".',
        )
    if key.key is not None and len(key.key.reveal()) < MIN_KEY_CHARS:
        yield Problem(
            path=(*path, "key"),
            value=MASK,
            what=f"shorter than {MIN_KEY_CHARS} characters",
            remedy="Make one with: openssl rand -hex 24",
        )
    elif key.key is not None and not _fits_a_header(key.key.reveal()):
        yield Problem(
            path=(*path, "key"),
            value=MASK,
            what="holds characters that cannot be sent in a header",
            remedy="Use visible ASCII characters. Make one with: openssl rand -hex 24",
        )
    if key.sha256 is not None and not SHA256.fullmatch(key.sha256.reveal()):
        yield Problem(
            path=(*path, "sha256"),
            value=MASK,
            what="expected 64 hexadecimal digits",
            remedy='Make it with: printf %s "$TRUNKLINE_KEY" | sha256sum',
        )


def _fits_a_header(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key


def _nobody_or_everybody(settings: Settings) -> Iterator[Problem]:
    server, auth = settings.server, settings.auth
    reads = (("auth",),)
    if auth.anonymous == "always" and auth.keys and not is_loopback_host(server.host):
        yield Problem(
            path=("auth", "anonymous"),
            value=shown(auth.anonymous),
            what=f"is for a proxy on this machine, and host = {shown(server.host)} lets "
            "every caller bypass the proxy",
            remedy='Listen on loopback with host = "127.0.0.1", or leave anonymous out.',
            reads=(*reads, ("server", "host")),
        )
    if auth.keys:
        return
    if not is_loopback_host(server.host):
        yield Problem(
            path=("server", "host"),
            value=shown(server.host),
            what="other machines could call the gateway, and no key is configured",
            remedy=f'Listen on loopback with host = "127.0.0.1", or {ADD_A_KEY}',
            reads=reads,
        )
    elif auth.anonymous != "always" and settings.is_exposed():
        for path, url in _public_urls(settings):
            if not is_loopback_url(url) and not web_url_fault(url):
                yield Problem(
                    path=path,
                    value=shown(url),
                    what="other machines are to call the gateway, and no key is configured",
                    remedy=f"To let callers in, {ADD_A_KEY}",
                    reads=reads,
                )
    elif auth.anonymous == "never":
        yield Problem(
            path=("auth", "anonymous"),
            value=shown(auth.anonymous),
            what="nobody could call, because no key is configured",
            remedy=f"To let callers in, {ADD_A_KEY}",
            reads=reads,
        )

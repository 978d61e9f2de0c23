"""Rules of the agents that are called, and of the tool that calls them."""

from collections.abc import Iterator

from trunkline.config.called_agents import (
    card_path_problems,
    credential_problems,
    header_problems,
    origin_problems,
    transport_problems,
)
from trunkline.config.problems import Path, Problem, shown
from trunkline.config.urls import url_fault
from trunkline.settings.outbound import RemoteSettings, TargetSettings
from trunkline.settings.root import Settings

MAX_ALIAS_CHARS = 100


def target_problems(settings: Settings) -> Iterator[Problem]:
    yield from _remote(settings.remote)
    defaults = [alias for alias, target in settings.targets.items() if target.default]
    for alias in defaults[1:]:
        yield Problem(
            path=("targets", alias, "default"),
            value="true",
            what=f'"{defaults[0]}" is the default target already',
            remedy="Keep default = true in one target only.",
        )
    for alias, target in settings.targets.items():
        yield from _target(alias, target, settings.remote)


def _remote(remote: RemoteSettings) -> Iterator[Problem]:
    if remote.mcp and not remote.enabled:
        yield Problem(
            path=("remote", "mcp"),
            value="true",
            what="there is no tool to serve: enabled is false",
            remedy="Set enabled = true, or leave mcp out.",
            reads=(("remote", "enabled"),),
        )
    yield from card_path_problems(remote.card_path, ("remote", "card_path"))
    yield from _transports(remote.transports, ("remote", "transports"), remote)
    yield from header_problems(remote.headers, None, ("remote",))


def _target(alias: str, target: TargetSettings, remote: RemoteSettings) -> Iterator[Problem]:
    path = ("targets", alias)
    if not _is_alias(alias):
        yield Problem(
            path=path,
            what="cannot be an alias",
            remedy=f"Use up to {MAX_ALIAS_CHARS} visible characters without :// in them, for "
            "example [targets.support].",
        )
    fault = url_fault(target.base_url)
    if fault:
        yield Problem(
            path=(*path, "base_url"),
            value=shown(target.base_url),
            what=fault,
            remedy='Example: base_url = "https://support.example.com".',
        )
    yield from card_path_problems(target.card_path, (*path, "card_path"))
    yield from _transports(target.transports, (*path, "transports"), remote)
    yield from header_problems(target.headers, target.credentials, path)
    if target.credentials is not None:
        yield from credential_problems(target.credentials, (*path, "credentials"))
    yield from origin_problems(target.trusted_origins, (*path, "trusted_origins"))
    yield from _card_keys(target, path)


def _transports(names: tuple[str, ...], path: Path, remote: RemoteSettings) -> Iterator[Problem]:
    if remote.enforce_transports:
        yield from transport_problems(names, path, reads=(("remote", "enforce_transports"),))


def _card_keys(target: TargetSettings, path: Path) -> Iterator[Problem]:
    if target.require_signature and not target.card_keys:
        yield Problem(
            path=(*path, "require_signature"),
            value="true",
            what="needs a key to check the signature with",
            remedy="Put the public key of the signer into card_keys.",
        )
    if not target.card_keys:
        return
    # Here, because few need it and it takes a while.
    from trunkline.remote import InvalidTarget
    from trunkline.remote.card_signatures import CardKeys

    for i, text in enumerate(target.card_keys):
        try:
            CardKeys((text,), is_required=True)
        except InvalidTarget as error:
            yield Problem(
                path=(*path, "card_keys", i),
                what=error.message,
                remedy='Example: card_keys = [\'{"kty":"EC","crv":"P-256",…}\'].',
            )


def _is_alias(alias: str) -> bool:
    is_short = 0 < len(alias) <= MAX_ALIAS_CHARS
    return is_short and alias == alias.strip() and alias.isprintable() and "://" not in alias

"""`trunkline card`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.exit_codes import Exit
from trunkline.cli.output import json_document, one_line
from trunkline.cli.remote.invocation import Invocation, agent_command

if TYPE_CHECKING:
    from rich.text import Text

    from trunkline.model.card import AgentCard, SecurityScheme


@agent_command
async def card(
    call: Invocation,
    extended: Annotated[
        bool, typer.Option("--extended", help="Fetch the extended card, which needs a credential.")
    ] = False,
) -> Exit:
    """Show the card of an agent.

    With -o json, prints the card exactly as the agent serves it.
    """
    import msgspec

    async with call.agent() as (agent, public):
        found = await agent.extended_card() if extended else public
        served = found if extended else msgspec.Raw(await agent.served_card())
    if call.is_json:
        print(json_document(served))
    else:
        from trunkline.cli.remote.tables import print_pairs

        signed = ("Signed", _signed(found, is_checked=bool(call.target.card_keys)))
        print_pairs([*_about(found), *_access(found), signed, *_skills(found)])
    return Exit.DONE


def _about(card: "AgentCard") -> Iterator[tuple[str, str]]:
    yield "Name", f"{card.name} {card.version}".strip()
    if card.description:
        yield "About", card.description
    if card.provider is not None:
        yield "Provider", f"{card.provider.organization} {card.provider.url}".strip()
    if card.documentation_url:
        yield "More", card.documentation_url
    for one in card.supported_interfaces:
        tenant = f" tenant {one.tenant}" if one.tenant else ""
        yield "Interface", f"{one.protocol_binding} {one.protocol_version} {one.url}{tenant}"
    able = card.capabilities
    abilities = {
        "streaming": able.streaming,
        "push notifications": able.push_notifications,
        "extended card": able.extended_agent_card,
    }
    yield "Supports", ", ".join(name for name, has in abilities.items() if has) or "answers only"
    for extension in able.extensions:
        yield "Extension", extension.uri + (" (required)" if extension.required else "")
    yield "Input", ", ".join(card.default_input_modes) or "not stated"
    yield "Output", ", ".join(card.default_output_modes) or "not stated"


def _access(card: "AgentCard") -> Iterator[tuple[str, str]]:
    if not card.security_requirements:
        optional = (
            f" ({', '.join(card.security_schemes)} possible)" if card.security_schemes else ""
        )
        yield "Access", f"open{optional}"
    for requirement in card.security_requirements:
        words = [_scheme(name, card.security_schemes.get(name)) for name in requirement.schemes]
        yield "Access", " and ".join(words) or "open"


def _signed(card: "AgentCard", *, is_checked: bool) -> str:
    """With configured keys, `remote` has removed every signature that it could not verify."""
    from trunkline.remote.card_signatures import signers

    keys = ", ".join(filter(None, signers(card)))
    if is_checked:
        if not card.signatures:
            return "not by a key of this target"
        return f"yes, verified{f': {keys}' if keys else ''}"
    if not card.signatures:
        return "no"
    return f"{keys or 'yes'}; not verified, because the target has no card_keys"


def _scheme(name: str, scheme: "SecurityScheme | None") -> str:
    if scheme is None:
        return name
    if (key := scheme.api_key_security_scheme) is not None:
        return f"{name}: API key in {key.location} {key.name}"
    if (http := scheme.http_auth_security_scheme) is not None:
        return f"{name}: HTTP {http.scheme}"
    if scheme.oauth2_security_scheme is not None:
        return f"{name}: OAuth 2"
    if scheme.open_id_connect_security_scheme is not None:
        return f"{name}: OpenID Connect"
    return f"{name}: client certificate" if scheme.mtls_security_scheme is not None else name


def _skills(card: "AgentCard") -> Iterator[tuple[str, "str | Text"]]:
    from rich.text import Text

    for skill in card.skills:
        text = Text(one_line(skill.name), style="bold")
        tags = f" [{', '.join(skill.tags)}]" if skill.tags else ""
        text.append(one_line(tags) and f" {one_line(tags)}", style="not bold dim")
        if skill.description and skill.description != skill.name:
            text.append(f"\n{one_line(skill.description)}", style="not bold")
        for example in skill.examples:
            text.append(f"\n“{one_line(example)}”", style="not bold italic")
        yield "Skills", text

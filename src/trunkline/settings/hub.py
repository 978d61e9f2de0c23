"""`HubSettings`: the registry of agents, its credentials and its limits."""

from typing import Annotated, Literal

from msgspec import Struct, field

from trunkline.config import doc
from trunkline.hub.agent_limits import Rate
from trunkline.hub.credential_settings import ClientCertificates, JwtIssuer
from trunkline.hub.sign_in_settings import SignInSettings
from trunkline.settings.hub_audit import HubAuditSettings


class HubSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hub: agents that are published while the gateway runs, and credentials to call them. The
    table turns it on."""

    style: Annotated[
        Literal["trunkline", "clawborrator"],
        doc(
            "Names that clients see: the prefix of tokens (`tl_` or `cw_`), the session cookie "
            "(`tl_session` or `cw_session`) and the extra block of agent cards (`_trunkline` or "
            "`_clawborrator`)."
        ),
    ] = "trunkline"
    rate_per_caller: Annotated[
        Rate | None,
        doc(
            "Maximum number of queries of one caller to one agent in each window, for agents "
            "without a rate of their own. Absent: no limit."
        ),
    ] = None
    rate_window_s: Annotated[
        int, doc("Length in seconds of the windows of `rate_per_caller`.", ge=1, le=86_400)
    ] = 60
    owner_backends: Annotated[
        tuple[str, ...],
        doc(
            "Kinds of backends that owners may choose for their agents. Operators may choose any "
            "kind. `command` and `acp` run programs on the machine of the gateway, `python` runs "
            "code inside it, and the others call the URLs that they are given. For owners they "
            "call public addresses alone, unless `network.allow_private_addresses` is set."
        ),
    ] = ()
    jwt: Annotated[
        dict[str, JwtIssuer],
        doc("Issuers of JSON Web Tokens, by a name for each, whose bearer tokens are accepted."),
    ] = {}
    client_certificates: Annotated[
        ClientCertificates | None,
        doc("Client certificates that a proxy in front verified (RFC 9440). Absent: none count."),
    ] = None
    sign_in: Annotated[SignInSettings, doc("How people sign in.")] = field(
        default_factory=SignInSettings
    )
    audit: Annotated[HubAuditSettings, doc("What the audit keeps: see `[hub.audit]`.")] = (
        HubAuditSettings()
    )

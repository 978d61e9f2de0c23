"""`CardView`: the card of an agent as it is served, with what checks of it found."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.errors import RouteNotFound
from trunkline.model.findings import FINDING_TEXTS, Finding, SignatureStatus
from trunkline.ports.directory import Directory

# Both get the JSON of a card in the form of 1.0.
CheckSignatures: TypeAlias = Callable[[bytes], Sequence[SignatureStatus]]
CheckCard: TypeAlias = Callable[[bytes], Sequence[Finding]]

CARD_TEXTS = {
    "CardView.card": "The card in the form of A2A 1.0.",
    "CardView.signatures": "Its signatures, and whether they are good.",
    "CardView.findings": "What its check by the rules of A2A found.",
    "SignatureStatus.keyId": "The id of the key, as the signature states it.",
    "SignatureStatus.algorithm": "The algorithm, as the signature states it.",
    "SignatureStatus.verdict": "`unknown_key`: the gateway does not have the key.",
    "SignatureStatus.text": "The verdict in words.",
    **FINDING_TEXTS,
}


class CardView(Struct, frozen=True, kw_only=True):
    """The card of an agent."""

    card: dict[str, Any]
    signatures: list[SignatureStatus]
    findings: list[Finding]


class AgentCards(Struct, frozen=True, kw_only=True):
    directory: Directory
    check_signatures: CheckSignatures = lambda _: ()
    check_card: CheckCard = lambda _: ()

    def of(self, handle: str) -> CardView:
        """Raises RouteNotFound."""
        body = self.directory.card_json(handle)
        if body is None:
            raise RouteNotFound("This agent is not published, so it has no card now")
        return CardView(
            card=msgspec.json.decode(body),
            signatures=[*self.check_signatures(body)],
            findings=[*self.check_card(body)],
        )

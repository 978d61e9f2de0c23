"""`agent_cards`: cards with the verdict on their signatures and the findings of their check."""

import msgspec

from trunkline.app.front import Front
from trunkline.hub.agent_cards import AgentCards
from trunkline.model.findings import SignatureStatus
from trunkline.ports.directory import Directory
from trunkline.protocol.checks import card_report
from trunkline.remote.card_signatures import signature_statuses


def agent_cards(front: Front, directory: Directory) -> AgentCards:
    def signatures(body: bytes) -> list[SignatureStatus]:
        # The card is that of this gateway, so its own key is the one that counts.
        keys = [] if front.signer is None else [front.signer.jwks().decode()]
        return signature_statuses(body, keys)

    return AgentCards(
        directory=directory,
        check_signatures=signatures,
        check_card=lambda body: card_report(msgspec.json.decode(body)),
    )

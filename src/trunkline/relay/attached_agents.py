"""`AttachedAgent`: an agent that a host has attached, as operators see it."""

from collections.abc import Iterator

from msgspec import Struct

from trunkline.relay.relay import Relay


class AttachedAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    # As in `acme/helper`.
    agent: str
    # The principal of its host.
    host: str
    # The beginning of the id of the session, which tells sessions apart.
    session: str
    epoch: int
    # `attached`, or `reconnecting` while the session waits for its host.
    state: str
    # Those under way.
    requests: int


def attached_agents(relay: Relay) -> Iterator[AttachedAgent]:
    """In the order of their names."""
    found: list[AttachedAgent] = []
    for attached in relay.attached():
        session = attached.session
        streams = [stream.agent for stream in session.streams.values()]
        found += [
            AttachedAgent(
                agent=agent,
                host=attached.principal.id,
                session=session.id[:8],
                epoch=epoch,
                state="attached" if session.is_connected else "reconnecting",
                requests=streams.count(agent),
            )
            for agent, epoch in session.leases.items()
        ]
    return iter(sorted(found, key=lambda each: each.agent))

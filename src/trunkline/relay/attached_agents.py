"""`AttachedAgent`: an agent that a host has attached, as operators see it."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from trunkline.relay.relay import Relay


class AttachedAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    # As in `acme/helper`.
    agent: str
    # The principal of its host. Only the node with the session knows it.
    host: str = ""
    # The beginning of the id of the session, which tells sessions apart.
    session: str = ""
    epoch: int = 0
    # `attached`, or `reconnecting` while the session waits for its host, or `at another node`.
    state: str
    # Those under way here.
    requests: int = 0


async def attached_agents(relay: Relay, tenants: Iterable[str]) -> Sequence[AttachedAgent]:
    """In the order of their names: those of the tenants that other nodes have, and all that are
    attached here. Raises Unavailable."""
    here = {each.agent: each for each in _attached_here(relay)}
    found = dict(here)
    for tenant in {*tenants, *(agent.partition("/")[0] for agent in here)}:
        for agent in await relay.attached_in(tenant):
            found.setdefault(agent, AttachedAgent(agent=agent, state="at another node"))
    return [found[agent] for agent in sorted(found)]


def _attached_here(relay: Relay) -> Iterator[AttachedAgent]:
    for attached in relay.attached():
        session = attached.session
        streams = [stream.agent for stream in session.streams.values()]
        for agent, epoch in session.leases.items():
            yield AttachedAgent(
                agent=agent,
                host=attached.principal.id,
                session=session.id[:8],
                epoch=epoch,
                state="attached" if session.is_connected else "reconnecting",
                requests=streams.count(agent),
            )

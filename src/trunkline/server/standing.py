"""The standing of agents that a registry published: whether they are still published, and whether a
caller may know of them."""

from msgspec.structs import replace

from trunkline.engine.access import reaches
from trunkline.model.errors import PermissionDenied, RouteNotFound, StoreError, Unauthenticated
from trunkline.model.principal import Principal
from trunkline.ports.directory import Standing
from trunkline.server.access import Access
from trunkline.server.endpoint import Endpoint
from trunkline.server.http import Request


class NotServed(Exception):
    """The request gets the answer of an address at which nothing is, byte for byte. With `error`,
    the gateway cannot tell at the moment whether something is there."""

    def __init__(self, error: StoreError | None = None) -> None:
        super().__init__()
        self.error = error


async def renew(standing: Standing) -> None:
    """Raises NotServed for an agent that is not published any more, and StoreError."""
    if not standing.is_fresh:
        try:
            await standing.renew()
        except RouteNotFound:
            raise NotServed from None


async def identify(
    endpoint: Endpoint,
    standing: Standing,
    access: Access,
    request: Request,
    principal: Principal | None,
) -> Principal:
    """The principal of a request to the agent, where memory does not hold it. Raises NotServed for
    one that must not learn that the agent exists, before anything of the request is read."""
    try:
        await renew(standing)
    except StoreError as error:
        raise NotServed(error) from None
    if principal is None:
        try:
            principal = await access.identify(request)
        except (Unauthenticated, PermissionDenied):
            if standing.is_private:
                raise NotServed from None
            raise
    if not standing.is_private:
        return principal
    if not reaches(principal, endpoint.agent.handle, is_open=False):
        raise NotServed
    # The agent itself counts as open, so that it need not be replaced when its registry opens or
    # closes it.
    return replace(principal, reaches_open=False) if principal.reaches_open else principal

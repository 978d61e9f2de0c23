"""`Provider`: where people sign in, and who they are there."""

from typing import Protocol, TypeAlias

from msgspec import Struct

from trunkline.hub.sign_in_flow import SignInFlow
from trunkline.hub.users import Identity


class Profile(Struct, frozen=True, kw_only=True):
    """A person at a provider elsewhere. Only `identity` tells people apart."""

    identity: Identity
    # The name of the account, which the person may change there. Empty where it has none.
    account: str
    # For the login where the account has no name. Everyone may choose it, so it lets no one in.
    nickname: str = ""
    display_name: str = ""
    # Empty unless the provider has verified it.
    verified_email: str = ""


class LocalLogin(Struct, frozen=True):
    """A user of the gateway's own provider."""

    login: str


Person: TypeAlias = Profile | LocalLogin


class Answer(Struct, frozen=True, kw_only=True):
    """The query of the callback (RFC 6749, 4.1.2, and RFC 9207)."""

    code: str = ""
    state: str = ""
    iss: str = ""
    error: str = ""


class Provider(Protocol):
    name: str
    # As people know it.
    title: str
    # Who becomes a user at the first sign-in (`allows_sign_up`).
    sign_up: tuple[str, ...]

    async def address(self, flow: SignInFlow, callback_url: str) -> str:
        """Where the browser signs in. Raises Unavailable."""
        ...

    async def person(self, answer: Answer, flow: SignInFlow, callback_url: str) -> Person:
        """Who has signed in. The answer has a code and the state of the flow. Raises InvalidParams
        for a code that the provider refuses, PermissionDenied for an answer that cannot be
        trusted, and Unavailable."""
        ...

    async def close(self) -> None:
        """Close the connections to it."""
        ...

"""`Me`: the caller, as every gateway shows it to itself; and how it signs in with a key."""

from typing import Annotated

from msgspec import Meta, Struct


class UserView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A person who is signed in."""

    login: str
    display_name: str
    roles: tuple[str, ...]


class Me(Struct, frozen=True, kw_only=True, rename="camel"):
    """The caller."""

    # The id that tasks, grants and the audit name.
    principal: str
    roles: tuple[str, ...]
    # None for a caller that is no person.
    user: UserView | None = None
    # The id of the credential.
    token: str = ""


class KeyBody(Struct, frozen=True, kw_only=True, rename="camel"):
    """An API key of the configuration."""

    key: Annotated[str, Meta(min_length=1, max_length=4096)]

    def __repr__(self) -> str:
        return "KeyBody()"

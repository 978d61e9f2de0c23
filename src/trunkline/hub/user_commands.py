"""`UserCommands`: what operators on the machine do with the people who may sign in."""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct

from trunkline.hub.users import Identity, User, Users
from trunkline.model.errors import InvalidParams
from trunkline.model.timestamps import format_timestamp

_MAX_SUBJECT: Final = 255


class AddUser(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    login: str
    display_name: str = ""
    password: str = ""
    # The name of a provider in the configuration, and the subject of the person there.
    provider: str = ""
    subject: str = ""
    is_admin: bool = False

    def __repr__(self) -> str:
        return f"AddUser({self.login!r})"


class ListUsers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 500


class NameUser(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    login: str


class SetPassword(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    login: str
    password: str

    def __repr__(self) -> str:
        return f"SetPassword({self.login!r})"


class SetDisabled(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    login: str
    is_disabled: bool


class ListedUser(Struct, frozen=True, kw_only=True):
    """A user, without anything by which one could sign in."""

    login: str
    display_name: str
    is_admin: bool
    is_disabled: bool
    has_password: bool
    # The issuer of the provider at which the person signs in; empty for none.
    issuer: str
    created: str


class UserList(Struct, frozen=True, kw_only=True):
    items: list[ListedUser]
    # Whether there are more behind the last one.
    has_more: bool


class UserCommands(Struct, frozen=True, kw_only=True):
    users: Users
    # The issuers of the providers in the configuration, by their names.
    issuers: Mapping[str, str]

    async def add(self, given: AddUser) -> ListedUser:
        """Raises InvalidParams, Conflict and StoreError."""
        user = await self.users.add(
            given.login,
            display_name=given.display_name,
            password=given.password,
            identity=self._identity(given.provider, given.subject),
            is_admin=given.is_admin,
        )
        return _listed(user)

    def _identity(self, provider: str, subject: str) -> Identity | None:
        if not provider and not subject:
            return None
        if provider not in self.issuers:
            known = ", ".join(self.issuers) or "none"
            raise InvalidParams.at("provider", f"must be one of the configuration: {known}")
        if not 1 <= len(subject) <= _MAX_SUBJECT:
            raise InvalidParams.at(
                "subject", f"must have 1 to {_MAX_SUBJECT} characters, as the provider states it"
            )
        return Identity(self.issuers[provider], subject)

    async def list(self, given: ListUsers) -> UserList:
        found = await self.users.list(after=given.after, limit=given.limit + 1)
        return UserList(
            items=[_listed(user) for user in found[: given.limit]],
            has_more=len(found) > given.limit,
        )

    async def set_password(self, given: SetPassword) -> ListedUser:
        await self.users.set_password(given.login, given.password)
        return await self._shown(given.login)

    async def set_disabled(self, given: SetDisabled) -> ListedUser:
        await self.users.set_disabled(given.login, is_disabled=given.is_disabled)
        return await self._shown(given.login)

    async def remove(self, given: NameUser) -> ListedUser:
        shown = await self._shown(given.login)
        await self.users.remove(given.login)
        return shown

    async def _shown(self, login: str) -> ListedUser:
        return _listed(await self.users.get(login))


def _listed(user: User) -> ListedUser:
    return ListedUser(
        login=user.login,
        display_name=user.display_name,
        is_admin=user.is_admin,
        is_disabled=user.is_disabled,
        has_password=bool(user.password_hash),
        issuer="" if user.identity is None else user.identity.issuer,
        created=format_timestamp(user.created_ms),
    )

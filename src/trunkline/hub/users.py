"""`Users`: the people who may sign in, as records.

A user is known by a login, which also names the agents it owns. A user of a provider is found by
the issuer and the subject that the provider states, never by a name or an e-mail address: those
change hands. A login is never given to another identity by itself, also after its user was removed,
because tasks and agents belong to it.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.hub.logins import LOGIN, RESERVED, login_of
from trunkline.hub.passwords import Passwords, check_password
from trunkline.model.errors import (
    Conflict,
    InvalidParams,
    RecordConflict,
    RouteNotFound,
    Unavailable,
)
from trunkline.model.handles import folded
from trunkline.model.principal import OPERATOR
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Delete, Key, Put
from trunkline.runtime.record_changes import RecordChanges, Touched

KIND: Final = "user"
USER: Final = "user.1"
IDENTITY: Final = "user-identity.1"
MAX_NAME_CHARS: Final = 200
_SUFFIXES: Final = 50
_PAGE: Final = 200


class Identity(Struct, frozen=True):
    """A person at a provider."""

    issuer: str
    subject: str

    @property
    def key(self) -> Key:
        # Both are texts of the provider, of any length.
        issuer = hashlib.sha256(self.issuer.encode()).hexdigest()[:32]
        return Key(IDENTITY, issuer, hashlib.sha256(self.subject.encode()).hexdigest())


class User(Struct, frozen=True, kw_only=True, omit_defaults=True):
    login: str
    display_name: str = ""
    # Empty for a user without a password.
    password_hash: str = ""
    identity: Identity | None = None
    is_admin: bool = False
    is_disabled: bool = False
    # Removed: the record keeps the login from being given to another person.
    is_removed: bool = False
    created_ms: int = 0

    def __repr__(self) -> str:
        return f"User({self.login!r})"

    @property
    def may_sign_in(self) -> bool:
        return not (self.is_disabled or self.is_removed)

    @property
    def principal(self) -> str:
        return f"user:{self.login}"

    @property
    def roles(self) -> tuple[str, ...]:
        own = (f"owner:{self.login}",)
        return (OPERATOR, *own) if self.is_admin else own


class Sessions(Protocol):
    """The credentials of people."""

    async def revoke_all(self, principal: str, *, but: str = "") -> object:
        """Revoke all credentials of a principal but one; none is accepted when this returns."""
        ...


class Rights(Protocol):
    """What others let people do."""

    async def take_all(self, principal: str) -> None:
        """Take all grants of a principal. Raises StoreError."""
        ...


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(User).decode


class Found(Struct, frozen=True):
    user: User
    version: int


class Users:
    def __init__(
        self,
        changes: RecordChanges,
        *,
        passwords: Passwords,
        sessions: Sessions,
        rights: Rights,
        clock: Clock,
        is_taken: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`is_taken`: whether agents, rights or a key belong to a login already, in any case.
        Raises StoreError."""
        self._changes = changes
        self._passwords = passwords
        self._sessions = sessions
        self._clock = clock
        self._rights = rights
        self._is_taken = is_taken

    async def find(self, login: str) -> User | None:
        """Raises StoreError."""
        found = await self._found(login)
        return None if found is None else found.user

    async def get(self, login: str) -> User:
        """Raises RouteNotFound and StoreError."""
        return (await self._existing(login)).user

    async def _found(self, login: str) -> Found | None:
        if not LOGIN.fullmatch(login):
            return None
        record = await self._changes.store.record(_key(login))
        return None if record is None else Found(_decode(record.body), record.version)

    async def list(self, *, after: str = "", limit: int = _PAGE) -> Sequence[User]:
        """A page of the users, in the order of their logins. Those that were removed are left
        out."""
        start = _key(after) if after else None
        page: list[User] = []
        while len(page) < limit:
            records = await self._changes.store.records(USER, scope="", after=start, limit=_PAGE)
            users = [_decode(record.body) for record in records]
            page += [user for user in users if not user.is_removed]
            if len(records) < _PAGE:
                break
            start = records[-1].key
        return page[:limit]

    async def has_admin(self) -> bool:
        return any(user.is_admin and user.may_sign_in for user in await self._all())

    async def _all(self) -> Sequence[User]:
        users: list[User] = []
        while page := await self.list(after=users[-1].login if users else ""):
            users += page
        return users

    async def add(
        self,
        login: str,
        *,
        display_name: str = "",
        password: str = "",
        identity: Identity | None = None,
        is_admin: bool = False,
    ) -> User:
        """Add a user, also with the login of one that was removed. Raises InvalidParams and
        Conflict."""
        _check(login, display_name)
        if not password and identity is None:
            raise InvalidParams.at("password", "is missing, and the user has no provider either")
        before = await self._found(login)
        if before is not None and not before.user.is_removed:
            raise Conflict(f'The login "{login}" is taken')
        user = User(
            login=login,
            display_name=display_name,
            password_hash=await self._passwords.hashed(password) if password else "",
            identity=identity,
            is_admin=is_admin,
            created_ms=self._clock.now_ms(),
        )
        await self._create(user, expected=0 if before is None else before.version)
        return user

    async def _create(self, user: User, *, expected: int) -> None:
        changes: list[Change] = [_put(user, expected=expected)]
        if user.identity is not None:
            changes.append(Put(key=user.identity.key, body=user.login.encode(), expected=0))
        try:
            await self._commit(user, *changes)
        except RecordConflict:
            raise Conflict(
                f'The login "{user.login}", or its account at the provider, is taken'
            ) from None

    async def check(self, login: str, password: str) -> User | None:
        """The user, if this is its password. An unknown login takes as long as a wrong password.
        Raises Unavailable and StoreError."""
        user = await self.find(login)
        may = user is not None and user.may_sign_in
        fits = await self._passwords.fits(
            password, user.password_hash if user is not None and may else ""
        )
        return user if fits else None

    async def of_identity(self, identity: Identity) -> User | None:
        """The user of a person at a provider; None for one that has none."""
        record = await self._changes.store.record(identity.key)
        if record is None:
            return None
        user = await self.find(record.body.decode())
        return user if user is not None and user.identity == identity else None

    async def sign_up(self, identity: Identity, *, account: str, display_name: str) -> User:
        """Make a user of a person at a provider. Its login is the name of the account, or that
        name and a number where it is taken. Raises Unavailable."""
        name = login_of(account)
        for number in range(1, _SUFFIXES):
            login = name if number == 1 else f"{name}-{number}"
            if folded(login) in RESERVED or await self._found(login) is not None:
                continue
            # A team may own agents under this name, or an operator have let a person of this name
            # call some: an account elsewhere must not take them.
            if await self._is_taken(login):
                continue
            user = User(
                login=login,
                display_name=display_name[:MAX_NAME_CHARS],
                identity=identity,
                created_ms=self._clock.now_ms(),
            )
            try:
                await self._create(user, expected=0)
            except Conflict:
                # Another sign-in took the login, or is that of the same person.
                if (known := await self.of_identity(identity)) is not None:
                    return known
                continue
            return user
        raise Unavailable("No login is free for this account; try again later", retry_after_s=60)

    async def set_password(self, login: str, password: str) -> None:
        """Set the password, and end all sessions of the user. Raises InvalidParams and
        RouteNotFound."""
        check_password(password)
        hashed = await self._passwords.hashed(password)
        await self._change(login, password_hash=hashed)

    async def set_disabled(self, login: str, *, is_disabled: bool) -> None:
        """A disabled user cannot sign in, and its credentials are revoked. Raises RouteNotFound."""
        await self._change(login, is_disabled=is_disabled)

    async def set_admin(self, login: str, *, is_admin: bool) -> None:
        """Sessions carry the roles of their sign-in, so they end. Raises RouteNotFound."""
        await self._change(login, is_admin=is_admin)

    async def remove(self, login: str) -> None:
        """Remove a user with its credentials and grants. The login stays reserved. Raises
        RouteNotFound."""
        found = await self._existing(login)
        gone = User(login=found.user.login, is_removed=True, created_ms=found.user.created_ms)
        changes: list[Change] = [_put(gone, expected=found.version)]
        if found.user.identity is not None:
            changes.append(Delete(key=found.user.identity.key))
        await self._commit(gone, *changes)
        await self._sessions.revoke_all(gone.principal)
        # Whoever an operator gives the login later is another person.
        await self._rights.take_all(gone.principal)

    async def _change(self, login: str, **values: object) -> None:
        while True:
            found = await self._existing(login)
            user = replace(found.user, **values)
            try:
                await self._commit(user, _put(user, expected=found.version))
                break
            except RecordConflict:
                continue
        await self._sessions.revoke_all(user.principal)

    async def _existing(self, login: str) -> Found:
        found = await self._found(login)
        if found is None or found.user.is_removed:
            raise RouteNotFound(f'There is no user "{login[:64]}"')
        return found

    async def _commit(self, user: User, *changes: Change) -> None:
        await self._changes.commit(*changes, touched=[Touched(KIND, user.login)])


def _key(login: str) -> Key:
    return Key(USER, "", folded(login))


def _put(user: User, *, expected: int) -> Put:
    return Put(key=_key(user.login), body=_encode(user), expected=expected)


def _check(login: str, display_name: str) -> None:
    if not LOGIN.fullmatch(login):
        raise InvalidParams.at(
            "login",
            "has up to 64 letters, digits and hyphens, and does not start with a hyphen",
        )
    if len(display_name) > MAX_NAME_CHARS:
        raise InvalidParams.at("displayName", f"has more than {MAX_NAME_CHARS} characters")

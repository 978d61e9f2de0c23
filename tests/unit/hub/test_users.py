"""Users: added, changed and removed; and logins that nobody takes over."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from trunkline.hub.grants import Grants
from trunkline.hub.logins import login_of
from trunkline.hub.passwords import Passwords
from trunkline.hub.users import USER, Identity, User, Users
from trunkline.model.errors import Conflict, InvalidParams, RouteNotFound, Unavailable
from trunkline.runtime.record_changes import RecordChanges
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

PASSWORD = "correct horse"
ADA = Identity("https://id.example.com", "1815")
OTHER = Identity("https://id.example.com", "1816")


class Sessions:
    def __init__(self) -> None:
        self.revoked: list[str] = []

    async def revoke_all(self, principal: str, *, but: str = "") -> None:
        self.revoked.append(principal)


class World:
    def __init__(self) -> None:
        clock = FakeClock()
        self.store = MemoryStore(clock)
        self.changes = RecordChanges(clock, feature="hub")
        self.passwords = Passwords()
        self.sessions = Sessions()
        self.owners: set[str] = set()
        self.users = Users(
            self.changes,
            passwords=self.passwords,
            sessions=self.sessions,
            rights=Grants(self.changes, clock=clock),
            clock=clock,
            is_taken=self._is_taken,
        )

    async def _is_taken(self, login: str) -> bool:
        return login.lower() in self.owners


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.store.open()
    await world.changes.open(world.store, is_shared=False, tell=lambda: None)
    yield world
    await world.changes.close()
    world.passwords.close()


async def test_a_user_signs_in_with_its_password_alone(world: World) -> None:
    await world.users.add("ada", display_name="Ada", password=PASSWORD)
    user = await world.users.check("ada", PASSWORD)
    assert user is not None
    assert (user.principal, user.roles) == ("user:ada", ("owner:ada",))
    assert await world.users.check("ada", PASSWORD + "x") is None
    assert await world.users.check("ada", "") is None
    assert await world.users.check("bob", PASSWORD) is None
    assert await world.users.check("../ada", PASSWORD) is None
    # Two logins that differ in case are one.
    assert await world.users.check("ADA", PASSWORD) == user
    with pytest.raises(Conflict):
        await world.users.add("Ada", password=PASSWORD)


async def test_an_admin_is_an_operator(world: World) -> None:
    assert not await world.users.has_admin()
    await world.users.add("ada", password=PASSWORD, is_admin=True)
    user = await world.users.find("ada")
    assert user is not None
    assert user.roles == ("operator", "owner:ada")
    assert await world.users.has_admin()
    await world.users.set_admin("ada", is_admin=False)
    assert not await world.users.has_admin()
    assert world.sessions.revoked == ["user:ada"]


@pytest.mark.parametrize(
    "login", ["", "-ada", "a/b", "a b", "é", "a" * 65, "ada\n", "..", "user:ada", "*"]
)
async def test_logins_have_the_form_of_owners(world: World, login: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        await world.users.add(login, password=PASSWORD)
    assert caught.value.violations[0].field == "login"


async def test_a_user_needs_a_way_to_sign_in(world: World) -> None:
    with pytest.raises(InvalidParams):
        await world.users.add("ada")
    with pytest.raises(InvalidParams):
        await world.users.add("ada", password="short")
    assert await world.users.find("ada") is None


async def test_a_login_is_given_once(world: World) -> None:
    await world.users.add("ada", password=PASSWORD)
    with pytest.raises(Conflict):
        await world.users.add("ada", password="another password")
    await world.users.add("bob", identity=ADA)
    with pytest.raises(Conflict):
        await world.users.add("carl", identity=ADA)
    assert await world.users.find("carl") is None


async def test_changes_end_the_sessions(world: World) -> None:
    await world.users.add("ada", password=PASSWORD)
    await world.users.set_password("ada", "a new password")
    assert await world.users.check("ada", PASSWORD) is None
    assert await world.users.check("ada", "a new password") is not None
    await world.users.set_disabled("ada", is_disabled=True)
    assert await world.users.check("ada", "a new password") is None
    await world.users.set_disabled("ada", is_disabled=False)
    assert await world.users.check("ada", "a new password") is not None
    await world.users.remove("ada")
    assert await world.users.check("ada", "a new password") is None
    assert world.sessions.revoked == ["user:ada"] * 4


async def test_whoever_is_not_there_cannot_be_changed(world: World) -> None:
    await world.users.add("ada", password=PASSWORD)
    await world.users.remove("ada")
    for login in ("ada", "bob", "../bob"):
        with pytest.raises(RouteNotFound):
            await world.users.set_password(login, PASSWORD)
        with pytest.raises(RouteNotFound):
            await world.users.set_disabled(login, is_disabled=True)
        with pytest.raises(RouteNotFound):
            await world.users.remove(login)
    assert world.sessions.revoked == ["user:ada"]


async def test_lists_leave_removed_users_out(world: World) -> None:
    for name in ("dora", "ada", "carl", "bob"):
        await world.users.add(name, identity=Identity("https://id.example.com", name))
    await world.users.remove("bob")
    assert [user.login for user in await world.users.list()] == ["ada", "carl", "dora"]
    assert [user.login for user in await world.users.list(after="ada", limit=1)] == ["carl"]
    assert await world.users.list(after="dora") == []


async def test_a_person_elsewhere_is_known_by_issuer_and_subject(world: World) -> None:
    user = await world.users.sign_up(ADA, account="Ada.Lovelace", display_name="Ada")
    assert user.login == "Ada-Lovelace"
    assert await world.users.of_identity(ADA) == user
    assert await world.users.of_identity(OTHER) is None
    assert await world.users.of_identity(Identity("https://evil.example", "1815")) is None
    # It has no password.
    assert await world.users.check("Ada-Lovelace", "") is None


async def test_an_equal_name_takes_no_account_over(world: World) -> None:
    await world.users.add("ada", password=PASSWORD, is_admin=True)
    user = await world.users.sign_up(ADA, account="ada", display_name="Ada")
    assert (user.login, user.is_admin) == ("ada-2", False)
    other = await world.users.sign_up(OTHER, account="ADA", display_name="Ada")
    assert other.login == "ADA-3"


async def test_nor_does_it_become_the_owner_of_agents(world: World) -> None:
    world.owners |= {"acme", "acme-2"}
    user = await world.users.sign_up(ADA, account="acme", display_name="")
    assert user.login == "acme-3"
    assert (await world.users.sign_up(OTHER, account="Admin", display_name="")).login == "Admin-2"


async def test_the_login_of_a_removed_user_is_given_by_operators_alone(world: World) -> None:
    await world.users.sign_up(ADA, account="ada", display_name="")
    await world.users.remove("ada")
    assert await world.users.of_identity(ADA) is None
    assert (await world.users.sign_up(OTHER, account="ada", display_name="")).login == "ada-2"
    await world.users.add("ada", password=PASSWORD)
    assert await world.users.check("ada", PASSWORD) is not None
    # The person that had it before is a new one.
    assert await world.users.of_identity(ADA) is None


async def test_two_first_sign_ins_at_once_make_one_user(world: World) -> None:
    users = await asyncio.gather(
        *(world.users.sign_up(ADA, account="ada", display_name="") for _ in range(5))
    )
    assert {user.login for user in users} == {"ada"}
    assert len(await world.users.list()) == 1


async def test_names_run_out(world: World) -> None:
    world.owners |= {"ada", *(f"ada-{number}" for number in range(100))}
    with pytest.raises(Unavailable):
        await world.users.sign_up(ADA, account="ada", display_name="")


async def test_no_password_in_records_or_texts(world: World) -> None:
    user = await world.users.add("ada", password=PASSWORD)
    assert "argon2" not in repr(user)
    (record,) = await world.store.records(USER, limit=10)
    assert PASSWORD.encode() not in record.body
    assert isinstance(user, User)


@pytest.mark.parametrize(
    ("account", "login"),
    [
        ("octocat", "octocat"),
        ("MRIIOT", "MRIIOT"),
        ("Ada.Lovelace", "Ada-Lovelace"),
        ("ada@example.com", "ada-example-com"),
        ("Zoë Müller", "Zoe-Muller"),
        ("--", "user"),
        ("", "user"),
        ("山田", "user"),
        ("a" * 300, "a" * 48),
        ("../../etc", "etc"),
    ],
)
def test_the_name_of_an_account_as_a_login(account: str, login: str) -> None:
    assert login_of(account) == login

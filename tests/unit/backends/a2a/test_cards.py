"""The card of the agent behind: kept, renewed, and shown at our addresses."""

from typing import Any

import msgspec
import pytest
from tests.runtime.loopback import Loopback
from tests.runtime.world import World

from trunkline.app.cards import Place, addresses_of, agent_card, describe_upstream
from trunkline.backends.a2a.cards import LOOK_EVERY_S, UpstreamCard
from trunkline.backends.a2a.doctor import check_a2a
from trunkline.background import BackgroundTasks
from trunkline.model.card import AgentCard
from trunkline.model.errors import StoreUnusable
from trunkline.remote.errors import PeerRefused, PeerUnreachable
from trunkline.settings import from_document
from trunkline.testing import FakeClock, FakeSession, settle

URL = "http://upstream.example"


def settings_of(**table: Any) -> Any:
    agent = {"backend": {"kind": "a2a", "url": URL}, **table}
    return from_document({"agents": {"acme/support": agent}})


def card_of(upstream: AgentCard | None, **table: Any) -> AgentCard:
    settings = settings_of(**table)
    agent = settings.agents["acme/support"]
    [_, addresses] = addresses_of("acme/support", agent, is_default=True)
    return agent_card(
        "acme/support",
        agent,
        code=None if upstream is None else describe_upstream(upstream),
        places=[Place("https://gateway.example", addresses)],
        access=settings,
    )


async def test_the_card_is_theirs_where_the_settings_are_silent() -> None:
    upstream = await Loopback(World()).card()
    card = card_of(upstream)
    assert (card.name, card.version, card.skills) == ("Upstream", "2.1", upstream.skills)
    assert card.default_input_modes == ("text/plain",)
    assert {each.url.partition("/api")[0] for each in card.supported_interfaces} == {
        "https://gateway.example"
    }
    own = card_of(upstream, name="Support", version="3", input_modes=["image/png"])
    assert (own.name, own.version) == ("Support", "3")
    assert own.default_input_modes == ("image/png",)
    unknown = card_of(None)
    assert unknown.name == "acme/support"
    assert [skill.id for skill in unknown.skills] == ["support"]


async def test_the_last_card_is_shown_while_the_agent_is_down() -> None:
    up, notes, clock, tasks = Loopback(World()), FakeSession(), FakeClock(), BackgroundTasks("test")
    first = UpstreamCard(url=URL, clock=clock)
    tasks.spawn(first.keep_fresh(up, notes), name="fresh")
    await settle()
    assert first.latest is not None
    up.fails["all"] = PeerUnreachable("down")
    second = UpstreamCard(url=URL, clock=clock)
    shown: list[str] = []
    second.watchers.append(lambda card: shown.append(card.name))
    await second.recall(notes)
    assert (second.latest, shown) == (first.latest, ["Upstream"])
    tasks.spawn(second.keep_fresh(up, notes), name="fresh")
    await clock.wait_until_sleeping(2)
    await clock.advance(5)
    up.fails.clear()
    up.name = "Renamed"
    await clock.advance(2 * LOOK_EVERY_S)
    assert shown == ["Upstream", "Renamed"]
    assert msgspec.json.decode(notes.notes["card"])["name"] == "Renamed"
    await tasks.close()


async def test_a_card_that_cannot_be_kept_is_shown_all_the_same() -> None:
    class Full(FakeSession):
        async def keep(self, name: str, text: str) -> None:
            raise StoreUnusable("full")

    tasks, card = BackgroundTasks("test"), UpstreamCard(url=URL, clock=FakeClock())
    tasks.spawn(card.keep_fresh(Loopback(World()), Full()), name="fresh")
    await settle()
    assert card.latest is not None
    await tasks.close()


async def test_a_note_of_another_shape_is_passed_over() -> None:
    notes = FakeSession()
    notes.notes["card"] = '{"name": 1}'
    card = UpstreamCard(url=URL, clock=FakeClock())
    await card.recall(notes)
    assert card.latest is None


@pytest.mark.parametrize(
    ("call", "error", "level", "words"),
    [
        ("card", PeerUnreachable("connection refused"), "error", "connection refused"),
        ("list", PeerRefused("who are you?", status=401), "error", "credentials"),
        ("list", PeerRefused("what?", reason="METHOD_NOT_FOUND"), "ok", "answers"),
        ("list", PeerUnreachable("no route"), "error", "reachable from here"),
    ],
)
async def test_the_doctor_says_what_to_fix(
    call: str, error: Exception, level: str, words: str
) -> None:
    there = World()
    await there.open()
    up = Loopback(there)
    assert [finding.level for finding in await check_a2a(up, URL)] == ["ok", "ok"]
    up.fails[call] = error  # type: ignore[assignment]
    last = (await check_a2a(up, URL))[-1]
    assert last.level == level
    assert words in f"{last.what} {last.remedy}"
    await there.close()


async def test_the_doctor_mentions_an_agent_that_does_not_stream() -> None:
    there = World()
    await there.open()
    levels = [finding.level for finding in await check_a2a(Loopback(there, streams=False), URL)]
    assert levels == ["ok", "warning", "ok"]
    await there.close()

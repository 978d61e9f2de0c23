import re
import time
import uuid

import pytest

from trunkline.clock import SystemClock, Uuid7Ids

FORM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def ids(count: int) -> list[str]:
    source = Uuid7Ids()
    return [source.new() for _ in range(count)]


def stopped_at(monkeypatch: pytest.MonkeyPatch, *moments_ms: int) -> None:
    """The system's clock says these, and then stays with the last."""
    left = list(moments_ms)

    def time_ns() -> int:
        return (left.pop(0) if len(left) > 1 else left[0]) * 1_000_000

    monkeypatch.setattr(time, "time_ns", time_ns)


def test_ids_have_the_form_of_version_7() -> None:
    for text in ids(300):
        assert FORM.fullmatch(text)
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


def test_ids_sort_by_when_they_were_made_and_differ() -> None:
    made = ids(20_000)
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_an_id_begins_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_at(monkeypatch, 0x0190_1234_5678)
    assert ids(1)[0].startswith("01901234-5678-7000-")


def test_a_millisecond_with_many_ids_borrows_from_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped_at(monkeypatch, 1)
    made = ids(4098)
    assert made[4095].startswith("00000000-0001-7fff-")
    assert made[4096].startswith("00000000-0002-7000-")
    assert made == sorted(made)


def test_ids_sort_also_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_at(monkeypatch, 100, 50, 60, 101)
    made = ids(4)
    assert made == sorted(made)
    assert made[3].startswith("00000000-0065-7000-")


def test_two_sources_give_different_ids_in_the_same_millisecond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped_at(monkeypatch, 1)
    assert not set(ids(500)) & set(ids(500))


async def test_the_system_clock_tells_the_time() -> None:
    system = SystemClock()
    before = time.clock_gettime(time.CLOCK_REALTIME)
    assert abs(system.now_ms() - before * 1000) < 60_000
    first = system.monotonic()
    await system.sleep(0)
    assert system.monotonic() >= first

import pytest

from trunkline.engine.admission import context_of
from trunkline.engine.lanes import Lanes
from trunkline.engine.queue_limits import BUSY, BUSY_ELSEWHERE, QUEUE_FULL, why_refused
from trunkline.model.errors import InvalidParams
from trunkline.model.profile import Profile
from trunkline.model.values import Message, Part, Role
from trunkline.settings.profiles import preset


def lanes(*tickets: int, max_running: int = 0) -> Lanes[str, int]:
    made: Lanes[str, int] = Lanes(max_waiting=2, max_running=max_running)
    for ticket in tickets:
        made.enter("a", ticket)
    return made


def message(context_id: str = "") -> Message:
    return Message(
        message_id="m-1", context_id=context_id, role=Role.USER, parts=(Part(text="hello"),)
    )


def test_x06_a_queue_takes_as_many_as_it_has_places() -> None:
    profile = Profile()
    assert why_refused(profile, lanes(), "a") is None
    assert why_refused(profile, lanes(1, 2), "a") is None
    assert why_refused(profile, lanes(1, 2, 3), "a") is QUEUE_FULL
    assert why_refused(profile, lanes(1, 2, 3), "b") is None


def test_x06_with_busy_fail_nothing_ever_waits() -> None:
    profile = preset("hub")
    assert why_refused(profile, lanes(), "a") is None
    assert why_refused(profile, lanes(1), "a") is BUSY
    assert why_refused(profile, lanes(1), "b") is None
    # H-11: someone else is driving.
    assert why_refused(profile, lanes(1, max_running=1), "b") is BUSY_ELSEWHERE
    assert BUSY_ELSEWHERE.text == "agent is processing a turn for another caller"


@pytest.mark.parametrize("mode", ["session", "task", "client"])
def test_x04_a_context_is_the_one_that_the_client_gives_or_a_new_one(mode: str) -> None:
    profile = preset("standard", context_mode=mode)
    assert context_of(profile, message("c")) == "c"
    assert context_of(profile, message()) == ""


def test_x04_without_contexts_the_message_is_its_own() -> None:
    profile = preset("standard", context_mode="stateless")
    assert context_of(profile, message()) == "m-1"
    with pytest.raises(InvalidParams) as refused:
        context_of(profile, message("c"))
    assert [violation.field for violation in refused.value.violations] == ["message.contextId"]


def test_x04_a_given_context_may_be_echoed() -> None:
    profile = preset("standard", context_mode="stateless", stateless_context="echo")
    assert context_of(profile, message("c")) == "c"

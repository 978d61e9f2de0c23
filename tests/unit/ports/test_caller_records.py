"""Keys of requests, direct answers and notes never meet, and answers are in the order of time."""

from hypothesis import given
from hypothesis import strategies as st

from trunkline.ports.caller_records import (
    ANSWER,
    answer_id,
    answer_ms,
    caller_tag,
    note_key,
    request_key,
)
from trunkline.ports.records import Key
from trunkline.ports.store import Scope

# Few characters, among them those that could blur where a text ends.
TEXT = st.text('a",[]\\ ', max_size=4)
SCOPE = st.builds(Scope, TEXT, TEXT, TEXT)
MOMENT = st.integers(0, 10**14)


@given(SCOPE, TEXT, SCOPE, TEXT)
def test_a_key_belongs_to_one_caller(scope: Scope, key: str, other: Scope, other_key: str) -> None:
    is_same = (scope, key) == (other, other_key)
    assert (request_key(scope, key) == request_key(other, other_key)) is is_same


@given(SCOPE, TEXT, TEXT, SCOPE, TEXT, TEXT)
def test_a_note_belongs_to_one_context_of_one_caller(
    scope: Scope, context_id: str, name: str, other: Scope, other_context: str, other_name: str
) -> None:
    is_same = (scope, context_id, name) == (other, other_context, other_name)
    assert (note_key(scope, context_id, name) == note_key(other, other_context, other_name)) is (
        is_same
    )


@given(SCOPE, TEXT, SCOPE, TEXT)
def test_a_tag_belongs_to_one_context_of_one_caller_or_to_the_caller(
    scope: Scope, context_id: str, other: Scope, other_context: str
) -> None:
    # The scope of the record is the agent.
    mine = (scope.tenant, scope.principal, context_id)
    theirs = (other.tenant, other.principal, other_context)
    assert (caller_tag(scope, context_id) == caller_tag(other, other_context)) is (mine == theirs)


@given(MOMENT, st.integers(0, 10**8), TEXT, MOMENT, st.integers(0, 10**8), TEXT)
def test_answers_are_in_the_order_of_time_and_then_of_their_numbers(
    at_ms: int, number: int, task_id: str, other_ms: int, other_number: int, other_task: str
) -> None:
    mine, other = answer_id(at_ms, number, task_id), answer_id(other_ms, other_number, other_task)
    if (at_ms, number) != (other_ms, other_number):
        assert (mine < other) is ((at_ms, number) < (other_ms, other_number))
    assert answer_ms(Key(ANSWER, "agent", mine)) == at_ms

from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.principal import ANONYMOUS
from trunkline.model.values import TaskState
from trunkline.ports.store import Append, Creation, Scope, TaskQuery
from trunkline.stores.indexes import Head, TaskIndex

AGENTS = ("a/one", "a/two")
STATES = (TaskState.WORKING, TaskState.COMPLETED, TaskState.FAILED)


def head(key: int, agent: str, context_id: str, state: TaskState, status_ms: int) -> Head:
    append = Append(
        task_id=f"t{key}",
        expected_seq=0,
        entries=(),
        state=state,
        status_ms=status_ms,
        creation=Creation(Scope(agent, "", ANONYMOUS.id), context_id, status_ms),
        snapshot=None,
    )
    return Head.of(key, append)


def filled(rows: list[tuple[str, str, TaskState, int]]) -> TaskIndex[Head]:
    index: TaskIndex[Head] = TaskIndex()
    for key, row in enumerate(rows):
        index.add(head(key, *row))
    return index


def seen(index: TaskIndex[Head]) -> object:
    """All that can be read of it."""
    pages = [
        [task.id for task in index.page(query)[0]]
        for agent in AGENTS
        for context_id in ("", "c", "d")
        for state in (None, *STATES)
        for query in [
            TaskQuery(
                scope=Scope(agent, "", ANONYMOUS.id), context_id=context_id, state=state, limit=99
            )
        ]
    ]
    ended = [[task.id for task in index.ended(agent, before_ms=None, limit=99)] for agent in AGENTS]
    to_do = [task.id for task in index.unfinished()]
    return pages, ended, to_do, set(index.scopes()), [task.id for task in index]


ROW = st.tuples(
    st.sampled_from(AGENTS), st.sampled_from("cd"), st.sampled_from(STATES), st.integers(0, 5)
)


@given(st.lists(ROW, max_size=9), st.sets(st.integers(0, 8)))
def test_many_removed_together_are_as_gone_as_one_by_one(
    rows: list[tuple[str, str, TaskState, int]], chosen: set[int]
) -> None:
    together, alone = filled(rows), filled(rows)
    wanted = [number for number in chosen if number < len(rows)]
    together.remove(*[task for number in wanted if (task := together.get(f"t{number}"))])
    for number in wanted:
        task = alone.get(f"t{number}")
        assert task is not None
        alone.remove(task)
    kept = [number for number in range(len(rows)) if number not in chosen]
    assert seen(together) == seen(alone)
    assert [task.id for task in together] == [f"t{number}" for number in kept]

"""The statements of `queries.sql`, and those for a list with filters."""

from collections.abc import Sequence

from trunkline.ports.store import TaskQuery
from trunkline.stores.statements import Statements

SQL = Statements.of_package(__package__)


def needs_count(query: TaskQuery) -> bool:
    """Whether SQLite has to count the rows, because no counter holds the total."""
    return bool(query.context_id) or query.status_from_ms is not None


def count_statement(states: tuple[int, ...], query: TaskQuery) -> str:
    filters = [*_filters(query), _one_of(states)]
    return SQL["count_by_index"].format(index=_index(query), filters=" AND ".join(filters))


def page_statement(states: tuple[int, ...], query: TaskQuery) -> str:
    filters = _filters(query)
    if query.after is not None:
        filters.append("(status_ms, key) < (:after_ms, :after_key)")
    if query.context_id:
        # A context is a conversation: few enough tasks to be sorted.
        branches = [[*filters, _one_of(states)]]
    else:
        # Each state is in order in its index; SQLite merges them and stops in time.
        branches = [[*filters, f"state = {state}"] for state in states]
    keys = [
        SQL["page_keys"].format(index=_index(query), filters=" AND ".join(branch))
        for branch in branches
    ]
    return SQL["page"].format(
        keys=" UNION ALL ".join(keys),
        artifacts="s.artifacts" if query.with_artifacts else "x''",
    )


def rows_statement(keys: Sequence[int]) -> str:
    """The rows of these tasks, without artifacts."""
    numbers = ", ".join(map(str, keys))
    found = f"SELECT key, status_ms FROM tasks WHERE key IN ({numbers})"
    return SQL["page"].format(keys=found, artifacts="x''")


def _index(query: TaskQuery) -> str:
    # Named, because SQLite has no statistics to choose by and takes the wrong one.
    return "tasks_by_context" if query.context_id else "tasks_by_state"


def _filters(query: TaskQuery) -> list[str]:
    filters = ["scope = :scope"]
    if query.context_id:
        filters.append("context = :context")
    if query.status_from_ms is not None:
        filters.append("status_ms >= :from_ms")
    return filters


def _one_of(states: tuple[int, ...]) -> str:
    return f"state IN ({', '.join(map(str, states))})"

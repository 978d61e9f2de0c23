"""`RefusalCounts`: decides which refusals get a row of their own in the audit.

The first refusals of a source in a minute do. Further ones are counted, and become one row for each
source, agent and reason when the minute is over, so that a flood costs few rows.
"""

from typing import Final

from msgspec.structs import replace

from trunkline.hub.audit_rows import Row

LISTED_PER_SOURCE: Final = 10
# Beyond these numbers in a minute, sources and groups share one entry: an attacker may have many
# addresses.
MAX_SOURCES: Final = 1000
MAX_GROUPS: Final = 1000
OTHERS: Final = "(others)"
MINUTE_MS: Final = 60_000


class RefusalCounts:
    def __init__(self) -> None:
        self._minute = -1
        self._listed: dict[tuple[str, str], int] = {}
        self._groups: dict[tuple[str, str, str, str], Row] = {}

    def take(self, row: Row, now_ms: int) -> list[Row]:
        """The rows to write now: those of a minute that is over, and this one unless it is only
        counted. A message may have come in an earlier minute and waited until now: it counts for
        this one, or the minutes of a busy gateway would begin again and again."""
        due = self.due(now_ms)
        source = (row.who, row.source)
        if source not in self._listed and len(self._listed) >= MAX_SOURCES:
            source = (OTHERS, "")
        listed = self._listed.get(source, 0)
        self._listed[source] = listed + 1
        if listed < LISTED_PER_SOURCE:
            return [*due, row]
        self._count(row, source)
        return due

    def due(self, now_ms: int) -> list[Row]:
        """The rows of the counted minute, if it is over."""
        if now_ms // MINUTE_MS == self._minute:
            return []
        rows = self.rest()
        self._minute = now_ms // MINUTE_MS
        self._listed.clear()
        return rows

    def rest(self) -> list[Row]:
        """The counted refusals, which are then forgotten."""
        rows = [*self._groups.values()]
        self._groups.clear()
        return rows

    @property
    def is_counting(self) -> bool:
        return bool(self._groups)

    def _count(self, row: Row, source: tuple[str, str]) -> None:
        who, address = source
        group = (who, address, row.agent, row.reason)
        if group not in self._groups and len(self._groups) >= MAX_GROUPS:
            who, address = OTHERS, ""
            group = (who, address, "", row.reason)
        counted = self._groups.get(group)
        if counted is None:
            self._groups[group] = Row(
                kind="refusal",
                at_ms=row.at_ms,
                who=who,
                source=address,
                token=row.token,
                agent=group[2],
                reason=row.reason,
            )
        else:
            # Several credentials of one caller may be refused together.
            token = counted.token if counted.token == row.token else ""
            self._groups[group] = replace(counted, count=counted.count + 1, token=token)

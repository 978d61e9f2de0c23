"""`AgentLimits`: how much callers may ask of one agent. Settings, records and the API share it."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from trunkline.config import doc
from trunkline.model.errors import InvalidParams

MAX_DAILY_QUERIES: Final = 100_000
MAX_CONCURRENCY: Final = 20
_MAX_COST: Final = 10**12

Budget = Annotated[int, msgspec.Meta(ge=0, le=MAX_DAILY_QUERIES)]
CostBudget = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COST)]
Rate = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Busy = Literal["queue", "fail", "wait"]


class AgentLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one agent. A day is a day of UTC, and a query belongs to the day on which its
    message was accepted."""

    daily_budget_queries: Annotated[
        int,
        doc(
            "Maximum number of queries per day, of all callers together. 0 refuses all.",
            ge=0,
            le=MAX_DAILY_QUERIES,
        ),
    ] = 1000
    daily_budget_per_caller: Annotated[
        Budget | None, doc("Maximum number of queries per day of one caller. Absent: no limit.")
    ] = None
    daily_budget_per_token: Annotated[
        Budget | None, doc("Maximum number of queries per day of one credential. Absent: no limit.")
    ] = None
    daily_budget_cost: Annotated[
        CostBudget | None,
        doc("Maximum cost per day, in units that the backend reports. Absent: no limit."),
    ] = None
    cost_estimate: Annotated[
        int,
        doc("Cost units that a query reserves until its turn has ended.", ge=0, le=_MAX_COST),
    ] = 1
    cost_unit: Annotated[
        Literal["tokens", "micro_usd"],
        doc(
            "Unit of the cost that backends report with the end of a turn: tokens, or millionths "
            "of a US dollar. A turn without a report costs its estimate."
        ),
    ] = "tokens"
    rate_per_caller: Annotated[
        Rate | None,
        doc(
            "Maximum number of queries of one caller in each window. Absent: as "
            "`[hub] rate_per_caller` says."
        ),
    ] = None
    rate_window_s: Annotated[
        int, doc("Length in seconds of the windows of `rate_per_caller`.", ge=1, le=86_400)
    ] = 60
    concurrency_cap: Annotated[
        int,
        doc(
            "Maximum number of turns that run at once, over all nodes. It replaces "
            "`max_concurrency`.",
            ge=1,
            le=MAX_CONCURRENCY,
        ),
    ] = 5
    busy: Annotated[
        Busy | None,
        doc(
            "Treatment of a message for a busy agent: it waits in the queue, is refused, or waits "
            "for `wait_s` and is then refused. Absent: as `busy` of the profile says."
        ),
    ] = None
    wait_s: Annotated[
        float, doc('Seconds that a message waits with `busy = "wait"`.', gt=0, le=3600)
    ] = 30.0
    claim: Annotated[
        bool | None,
        doc(
            "Whether the agent works for one caller at a time: while a turn of a caller runs, "
            "others meet `busy`. Absent: as `driver_claim` of the profile says."
        ),
    ] = None

    def profile_keys(self) -> dict[str, Any]:
        """The keys of a profile that these limits replace."""
        keys: dict[str, Any] = {"max_concurrency": self.concurrency_cap}
        if self.busy is not None:
            keys["busy"] = self.busy
            keys["busy_wait_s"] = self.wait_s
        if self.claim is not None:
            keys["driver_claim"] = self.claim
        return keys


class LimitsBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Limits in the API. A member that is absent from a change stays as it is."""

    daily_budget_queries: int | UnsetType = UNSET
    daily_budget_per_caller: int | UnsetType | None = UNSET
    daily_budget_per_token: int | UnsetType | None = UNSET
    daily_budget_cost: int | UnsetType | None = UNSET
    cost_estimate: int | UnsetType = UNSET
    cost_unit: Literal["tokens", "micro_usd"] | UnsetType = UNSET
    rate_per_caller: int | UnsetType | None = UNSET
    rate_window_s: int | UnsetType = UNSET
    concurrency_cap: int | UnsetType = UNSET
    busy: Busy | UnsetType | None = UNSET
    wait_s: float | UnsetType = UNSET
    claim: bool | UnsetType | None = UNSET

    @classmethod
    def of(cls, limits: AgentLimits) -> "LimitsBody":
        return cls(**msgspec.structs.asdict(limits))

    def applied_to(self, limits: AgentLimits) -> AgentLimits:
        """The limits after this change. Raises InvalidParams, which names the member."""
        given = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if value is not UNSET
        }
        values = msgspec.structs.asdict(limits) | given
        try:
            return msgspec.convert(values, AgentLimits)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$.")
            name = where.rstrip("`")
            shown = {
                field.name: field.encode_name for field in msgspec.structs.fields(LimitsBody)
            }.get(name, name)
            raise InvalidParams.at(shown or "limits", what) from None


def _texts() -> Iterator[tuple[str, str]]:
    """What each limit means, by its name in the API."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(LimitsBody)}
    for field in msgspec.structs.fields(AgentLimits):
        for part in get_args(field.type)[1:]:
            if isinstance(part, Meta) and part.description and field.name in names:
                yield names[field.name], part.description


LIMIT_TEXTS: Final = dict(_texts())

"""`RoutingSettings` and `RouteSettings`: calls of agents to agents."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Problem, bad_value
from trunkline.engine.agent_calls import CallLimits, OnCrash
from trunkline.engine.routes import Route, RouteEvent


class RoutingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of calls that the agents of this gateway make."""

    timeout_s: Annotated[
        float, doc("Seconds that an answer may take if the call names no timeout.", gt=0)
    ] = 60.0
    max_timeout_s: Annotated[
        float, doc("Maximum seconds of a timeout. A call that asks for more gets this.", gt=0)
    ] = 300.0
    max_total_timeout_s: Annotated[
        float, doc("Maximum seconds for all calls of a batch or of a debate together.", gt=0)
    ] = 1800.0
    grace_s: Annotated[
        float,
        doc("Seconds beyond its timeout for which the outcome of a call can be read.", ge=0),
    ] = 60.0
    max_hops: Annotated[
        int, doc("Maximum number of agents through which a call may come.", ge=1, le=8)
    ] = 5
    max_depth: Annotated[
        int, doc("Maximum number of calls of this gateway that lead to a turn.", ge=1, le=8)
    ] = 5
    max_turns: Annotated[
        int,
        doc("Maximum number of turns in a row that begin with an answer.", ge=0, le=1000),
    ] = 20
    max_input_bytes: Annotated[int, doc("Maximum size of the input of a call, as JSON.", ge=1)] = (
        1024 * 1024
    )
    on_callee_crash: Annotated[
        OnCrash,
        doc(
            "What the caller gets when the called agent crashes: `error` tells it at once, "
            "`wait_for_timeout` leaves it to the timeout."
        ),
    ] = "error"

    @property
    def limits(self) -> CallLimits:
        return CallLimits(
            timeout_s=min(self.timeout_s, self.max_timeout_s),
            max_timeout_s=self.max_timeout_s,
            max_total_timeout_s=self.max_total_timeout_s,
            grace_s=self.grace_s,
            max_hops=self.max_hops,
            max_depth=self.max_depth,
            max_turns=self.max_turns,
            max_input_bytes=self.max_input_bytes,
            on_callee_crash=self.on_callee_crash,
        )


class RouteSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One route: what follows the work of an agent."""

    name: Annotated[str, doc("Name of the route, for logs.", min_length=1)]
    agent: Annotated[str, doc("Agents whose tasks it follows, as a pattern of `owner/slug`.")]
    on: Annotated[
        RouteEvent,
        doc(
            "What it follows: a task that `completed` or `failed` (also one that was rejected), or "
            "an `artifact` that is complete."
        ),
    ]
    artifact: Annotated[str, doc("For `artifact`: a pattern of its name.")] = "*"
    media_type: Annotated[
        str, doc("For `artifact`: a media type of one of its parts, such as `text/*`. Empty: any.")
    ] = ""
    call: Annotated[
        str, doc("Agent of this gateway, or alias of a target, to call. It gets the output.")
    ] = ""
    skill: Annotated[str, doc("Skill to call. Empty: the first of the agent.")] = ""
    channel: Annotated[
        Literal["", "log"], doc("Channel to tell: `log` writes the output to the log.")
    ] = ""
    timeout_s: Annotated[
        float,
        doc(
            "Seconds that the answer may take, which then comes to the session of the task. 0: no "
            "answer is expected.",
            ge=0,
        ),
    ] = 0.0
    max_per_hour: Annotated[
        int, doc("How often the route is taken in an hour at most. 0: no limit.", ge=0)
    ] = 0

    @property
    def route(self) -> Route:
        return Route(
            name=self.name,
            agent=self.agent,
            on=self.on,
            artifact=self.artifact,
            media_type=self.media_type,
            call=self.call,
            skill=self.skill,
            channel=self.channel,
            timeout_ms=round(self.timeout_s * 1000),
            max_per_hour=self.max_per_hour,
        )


def route_problems(routes: Sequence[RouteSettings], known: Sequence[str]) -> Iterator[Problem]:
    """`known` are the handles of agents and the aliases of targets."""
    names: set[str] = set()
    for number, route in enumerate(routes):
        path = ("routes", number)
        if route.name in names:
            yield bad_value(
                (*path, "name"), "another route has this name", "Give each route its own."
            )
        names.add(route.name)
        if not route.call and not route.channel:
            yield Problem(
                path, "leads nowhere", 'Name an agent (call = "owner/slug") or channel = "log".'
            )
        if route.call and route.call not in known:
            yield bad_value(
                (*path, "call"),
                "no agent and no target has this name",
                "Name an agent of [agents] by its handle, or a target by an alias of letters, "
                "digits, hyphens and underscores.",
            )

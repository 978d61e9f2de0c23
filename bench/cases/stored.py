"""The same calls on an empty database and on one with a million tasks: the cost must not grow."""

import random
from collections.abc import Sequence

from bench.calls import Get, ListPage, Send
from bench.cases.case import Case, Scale
from bench.cases.loop import closed_loop
from bench.cases.send import measured_sends
from bench.figures import Figures
from bench.servers import STORED
from bench.target import Target

PAGE_SIZE = 50
# More than the store keeps in its own cache.
LOOKED_UP = 4_000


def run_send(target: Target, scale: Scale) -> Figures:
    return measured_sends(target, scale, 32)


def run_get(target: Target, scale: Scale) -> Figures:
    """Of as many tasks on both, where there are more from all over the database.

    Each is looked up once before: how long a disk takes is not what is compared.
    """
    ids: Sequence[str]
    if target.stored:
        ids = random.Random(scale.stored_tasks).sample(target.stored, LOOKED_UP)
    else:
        send = Send(target.caller, remember=LOOKED_UP)
        target.ask(send, times=LOOKED_UP, connections=32)
        ids = tuple(send.task_ids)
    get = Get(target.caller, ids)
    target.ask(get, times=LOOKED_UP, connections=32)
    return closed_loop(target, get, scale, connections=32)


def run_list(target: Target, scale: Scale) -> Figures:
    target.ask(Send(target.caller), times=2 * PAGE_SIZE, connections=8)  # a full page for all
    page = ListPage(target.caller, page_size=PAGE_SIZE)
    return closed_loop(target, page, scale, connections=32, requests=scale.requests // 2)


CASES = (
    Case(name="stored-send", title="Send by stored tasks", per="send", needs=STORED, run=run_send),
    Case(
        name="stored-get", title="GetTask by stored tasks", per="look-up", needs=STORED, run=run_get
    ),
    Case(
        name="stored-list",
        title=f"ListTasks page of {PAGE_SIZE} by stored tasks",
        per="page",
        needs=STORED,
        run=run_list,
    ),
)

"""The same calls on an empty database and on one with a million tasks: the cost must not grow."""

from bench.calls import ListPage, Send
from bench.cases.case import Case, Scale
from bench.cases.get import measured_gets
from bench.cases.loop import closed_loop
from bench.cases.send import measured_sends
from bench.figures import Figures
from bench.servers import STORED
from bench.target import Target

PAGE_SIZE = 50


def run_send(target: Target, scale: Scale) -> Figures:
    return measured_sends(target, scale, 32)


def run_get(target: Target, scale: Scale) -> Figures:
    return measured_gets(target, scale)


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

"""Look-ups of finished tasks."""

from bench.calls import Get, Send
from bench.cases.case import Case, Scale
from bench.cases.loop import closed_loop
from bench.cases.send import expect_finished
from bench.figures import Figures
from bench.servers import GET
from bench.target import Target

TASKS = 200


def run(target: Target, scale: Scale) -> Figures:
    return measured_gets(target, scale)


def measured_gets(target: Target, scale: Scale) -> dict[str, float]:
    send = Send(target.caller, remember=TASKS)
    target.ask(send, times=TASKS, connections=8)
    expect_finished(target, send)
    return closed_loop(target, Get(target.caller, send.task_ids), scale, connections=32)


CASES = (Case(name="get-32", title="GetTask, 32 at a time", per="look-up", needs=GET, run=run),)

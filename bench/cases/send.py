"""Blocking sends: each creates a task, runs the agent and is answered with the finished task."""

import time

from bench.calls import Get, Send
from bench.cases.case import Case, Scale
from bench.cases.loop import closed_loop
from bench.figures import Figures
from bench.servers import SEND
from bench.target import Target, WrongAnswers

SETTLE_S = 10.0


def send_case(concurrency: int, text_kb: int = 0) -> Case:
    def run(target: Target, scale: Scale) -> Figures:
        return measured_sends(target, scale, concurrency, text_kb * 1024)

    size = f"-{text_kb}k" if text_kb else ""
    about = f", texts of {text_kb} KB" if text_kb else ""
    return Case(
        name=f"send{size}-{concurrency}",
        title=f"Blocking send, {concurrency} at a time{about}",
        per="send",
        needs=SEND,
        run=run,
    )


def measured_sends(
    target: Target, scale: Scale, concurrency: int, text_bytes: int = 0
) -> dict[str, float]:
    send = Send(target.caller, text_bytes=text_bytes)
    figures = closed_loop(target, send, scale, connections=concurrency)
    if not target.server.dialect.answers_when_done:
        expect_finished(target, send)
    return figures


def expect_finished(target: Target, send: Send) -> None:
    """Tasks that were answered early must have been finished all the same."""
    look_up = Get(target.caller, send.task_ids)
    give_up = time.monotonic() + SETTLE_S
    with target.client(1) as client:
        while True:
            outcome = client.run(look_up, total=len(send.task_ids), limit_s=SETTLE_S)
            if not outcome.errors:
                return
            if time.monotonic() > give_up:
                raise WrongAnswers(f"unfinished tasks: {outcome.errors.most_common(2)}")


CASES = (
    *(send_case(concurrency) for concurrency in (1, 32, 256)),
    *(send_case(32, text_kb) for text_kb in (4, 16)),
)

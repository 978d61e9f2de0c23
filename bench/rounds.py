"""The run: all servers up, cases interleaved over rounds, so that noise falls on all alike."""

import sys
from collections.abc import Callable, Sequence

from bench.calls import Send
from bench.cases.case import Case, Scale
from bench.client import ServerGone
from bench.figures import FIGURES, written
from bench.fill import NotFilled, filled
from bench.fleet import Fleet
from bench.process import DidNotStart
from bench.samples import Results
from bench.servers import Server
from bench.target import Target, WrongAnswers

# Sends before the first round: enough for a compiling runtime such as Node's to have compiled.
WARM_UP = 3_000
WARM_UP_S = 4.0


class Run:
    def __init__(self, fleet: Fleet, python: str, scale: Scale, results: Results) -> None:
        self._fleet = fleet
        self._python = python
        self._scale = scale
        self._results = results
        self._up: dict[str, Target] = {}

    def measure(
        self,
        cases: Sequence[Case],
        servers: Sequence[Server],
        *,
        between_rounds: Callable[[], None],
    ) -> None:
        for server in servers:
            if any(case.needs in server.can and not case.own_process for case in cases):
                self._bring_up(server, cases)
        for number in range(self._scale.rounds):
            for case in cases:
                if case.once and number:
                    continue
                # Another server goes first in each round.
                turn = number % len(servers)
                for server in (*servers[turn:], *servers[:turn]):
                    if case.needs in server.can:
                        self._one(number, case, server)
            if number + 1 < self._scale.rounds:
                between_rounds()

    def _bring_up(self, server: Server, cases: Sequence[Case]) -> None:
        try:
            data = filled(self._python, server.stored_tasks) if server.stored_tasks else None
            say(f"starting {server.name}")
            target = self._fleet.start(server, data=data)
            with target.client(8) as client:
                client.run(Send(target.caller), total=WARM_UP, limit_s=WARM_UP_S)
            self._up[server.name] = target
        except (NotFilled, DidNotStart, ServerGone, OSError) as problem:
            for case in cases:
                if case.needs in server.can and not case.own_process:
                    self._results.cell(case.name, server.name).problem = str(problem)
            say(f"{server.name}: {problem}")

    def _one(self, number: int, case: Case, server: Server) -> None:
        cell = self._results.cell(case.name, server.name)
        if cell.problem:
            return
        target: Target | None = None
        try:
            target = self._fleet.start(server) if case.own_process else self._up[server.name]
            figures = case.run(target, self._scale)
        except (WrongAnswers, ServerGone, DidNotStart, OSError) as problem:
            cell.problem = str(problem)
            say(f"round {number + 1}  {case.name:<12} {server.name:<16} {problem}")
            return
        finally:
            if case.own_process and target is not None:
                self._fleet.stop(target)
        cell.samples.append(figures)
        value = written(case.headline, figures[case.headline])
        label = FIGURES[case.headline].label
        say(f"round {number + 1}  {case.name:<12} {server.name:<16} {value:>9} {label}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

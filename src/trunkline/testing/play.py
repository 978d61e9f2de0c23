"""`play`: scripts for pure machines, with each input and the outputs it must give."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Input = TypeVar("Input")
Output = TypeVar("Output")


def play(
    machine: Callable[[Input], Iterable[Output]], *script: tuple[Input, Iterable[Output]]
) -> None:
    """Feed each input to the machine and compare its outputs, in order.

    For a function `(state, input) -> (state, outputs)`, wrap it in `stateful`.
    """
    for number, (given, expected) in enumerate(script, 1):
        outputs, wanted = list(machine(given)), list(expected)
        assert outputs == wanted, (
            f"step {number}, {given!r}:\n  expected {wanted!r}\n  got      {outputs!r}"
        )


State = TypeVar("State")


def stateful(
    step: Callable[[State, Input], tuple[State, Iterable[Output]]], state: State
) -> Callable[[Input], Iterable[Output]]:
    """A machine for `play` out of a pure step and the state to begin with."""

    def machine(given: Input) -> Iterable[Output]:
        nonlocal state
        state, outputs = step(state, given)
        return outputs

    return machine

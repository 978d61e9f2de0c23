"""The cases of the benchmark, in the order they are run and reported. One file per question."""

from bench.cases import fanout, get, memory, send, stored, stream
from bench.cases.case import Case

CASES: tuple[Case, ...] = (
    *send.CASES,
    *get.CASES,
    *stream.CASES,
    *fanout.CASES,
    *stored.CASES,
    *memory.CASES,
)

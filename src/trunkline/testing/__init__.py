"""Test doubles and behavioural suites, shipped for developers who build on Trunkline.

- `FakeClock`, `SequentialIds`, `settle`: time and ids that a test decides.
- `ScriptedBackend`, `Gates`: an agent that does what the message says.
- `turn_request`, `run_turn`, `answer_text`: one turn, without a gateway around it.
- `FakeSession`: a conversation for such a turn.
- `check_backend`, `BACKEND_CHECKS`, `BackendSubject`: what every backend must do.
- `check_store`, `CrashingStore`: what every store must do, and one that fails on purpose.
- `trunkline.testing.fake_model`: a model behind real sockets, for agents that need one.
- `play`, `stateful`: scripts for pure machines.

`docs/guides/testing.md` shows each at work.
"""

from trunkline.backends.scripted.backend import Gates, ScriptedBackend
from trunkline.testing.check_backend import BACKEND_CHECKS, BackendSubject, check_backend
from trunkline.testing.check_store import check_store
from trunkline.testing.clock import FakeClock, SequentialIds, settle
from trunkline.testing.crashing_store import CrashingStore
from trunkline.testing.play import play, stateful
from trunkline.testing.turns import FakeSession, answer_text, run_turn, turn_request

__all__ = [
    "BACKEND_CHECKS",
    "BackendSubject",
    "CrashingStore",
    "FakeClock",
    "FakeSession",
    "Gates",
    "ScriptedBackend",
    "SequentialIds",
    "answer_text",
    "check_backend",
    "check_store",
    "play",
    "run_turn",
    "settle",
    "stateful",
    "turn_request",
]

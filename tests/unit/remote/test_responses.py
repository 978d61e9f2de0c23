from typing import Any

from trunkline.protocol.client_responses import Refusal
from trunkline.remote.http import Answer
from trunkline.remote.responses import ResponseReader
from trunkline.testing import FakeClock


def refused(data: Any) -> Any:
    reader = ResponseReader(FakeClock(), lambda: ("the-key",))
    refusal = Refusal(code=-32001, reason="TASK_NOT_FOUND", message="no", data=data)
    return reader.refused(refusal, Answer(200, {}, b"")).data


def test_what_a_peer_repeats_of_us_is_not_shown() -> None:
    assert refused([{"sent": "Bearer the-key"}]) == [{"sent": "Bearer ***"}]


def test_an_error_that_is_nested_deeply_is_an_error_all_the_same() -> None:
    tree: Any = "the-key"
    for _ in range(900):
        tree = [tree]
    shown = str(refused({"data": tree}))
    assert shown.endswith("'…'" + "]" * 32 + "}")

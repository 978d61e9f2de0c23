import pytest
from tests.unit.cli.remote.test_events import COMPLETED, WORKING, artifact, chunk, message, moved
from tests.unit.cli.remote.test_events import task as task_of

from trunkline.cli.remote.events import AnswerSize
from trunkline.model.values import Part
from trunkline.remote import StreamItem

LONG = "x" * 100_000


def total(*items: StreamItem) -> int:
    size = AnswerSize()
    for item in items:
        size.add(item)
    return size.total


def test_pieces_of_a_text_add_up() -> None:
    pieces = [chunk(artifact("a", LONG), append=number > 0) for number in range(10)]
    assert 1_000_000 <= total(*pieces) < 1_005_000


def test_a_text_that_is_sent_anew_as_it_grows_counts_once() -> None:
    texts = [artifact("a", LONG * number) for number in range(1, 11)]
    assert 1_000_000 <= total(*map(chunk, texts)) < 1_005_000
    assert 1_000_000 <= total(*(task_of(WORKING, text) for text in texts)) < 1_005_000


def test_every_artifact_costs_something() -> None:
    assert total(*(chunk(artifact(f"a{number}", "x")) for number in range(1000))) >= 1_000_000


def test_what_an_agent_says_about_its_work_is_not_kept() -> None:
    assert total(moved(WORKING, LONG)) == 0
    assert total(moved(COMPLETED, LONG)) >= 100_000
    assert total(message(LONG)) >= 100_000


@pytest.mark.parametrize(
    ("part", "least"),
    [
        (Part(text="\U0001f600" + LONG), 400_000),
        (Part(raw=b"x" * 100_000), 100_000),
        (Part(data=[[]] * 10_000), 500_000),
        (Part(data={"a": {"b": ["x" * 1000] * 100}}), 100_000),
        (Part(text="x", metadata={"a": LONG}), 100_000),
        (Part(url=f"https://a.test/{LONG}"), 100_000),
    ],
    ids=["wide text", "file", "lists", "tree", "metadata", "link"],
)
def test_each_kind_of_content_counts_as_the_memory_that_it_takes(part: Part, least: int) -> None:
    assert total(chunk(artifact("a", part))) >= least

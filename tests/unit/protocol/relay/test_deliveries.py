import msgspec
import pytest

from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry, TaskSubmitted, TurnOptions
from trunkline.model.principal import Principal
from trunkline.model.routed_calls import CallOrigin
from trunkline.model.values import Message, Part, Role, Task, TaskState, TaskStatus
from trunkline.protocol.relay.deliveries import Delivery, decode, encode

MESSAGE = Message(
    message_id="m", context_id="c", task_id="t", role=Role.USER, parts=(Part(text="ö\n"),)
)
TASK = Task(
    id="t",
    context_id="c",
    status=TaskStatus(state=TaskState.SUBMITTED, timestamp="2026-01-31T23:59:59.000Z"),
    history=(MESSAGE,),
)

OTHER = Principal(id="bob", grants=())


def delivery(event: Task | TaskSubmitted = TASK, **members: object) -> Delivery:
    entry = Entry.of(1, event)
    given = Delivery(
        task_id="t",
        context_id="c",
        created_ms=1,
        kind=entry.kind,
        entry=msgspec.Raw(entry.body),
    )
    return msgspec.structs.replace(given, **members)


@pytest.mark.parametrize(
    "event",
    [TASK, TaskSubmitted(task=TASK, options=TurnOptions(accepted_output_modes=("text/plain",)))],
    ids=["task", "with options"],
)
def test_the_first_entry_arrives_as_it_was_written(event: Task | TaskSubmitted) -> None:
    sent = delivery(event, tenant="a", idempotency_key="k", operation="SendMessage", binding="REST")
    read = decode(encode(sent), task_id="t")
    assert read.first_entry == Entry.of(1, event)
    assert read.task == TASK
    assert (read.tenant, read.idempotency_key, read.created_ms) == ("a", "k", 1)


def test_later_members_are_passed_over() -> None:
    body = encode(delivery())[:-1] + b',"later":[1]}'
    assert decode(body, task_id="t") == delivery()


def test_an_entry_keeps_members_that_this_release_does_not_know() -> None:
    """Decoding and encoding again would lose them."""
    entry = Entry.of(1, TASK).body[:-1] + b',"later":[1]}'
    read = decode(encode(delivery(entry=msgspec.Raw(entry))), task_id="t")
    assert read.first_entry.body == entry


def changed(**members: object) -> Task:
    return msgspec.structs.replace(TASK, **members)


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        (delivery(task_id="other"), "task_id"),
        (delivery(kind="status.1"), "kind"),
        (delivery(kind="submitted.1"), "entry"),
        (delivery(entry=msgspec.Raw(b'{"id":1}')), "entry"),
        (delivery(changed(id="other")), "entry.id"),
        (delivery(context_id="other"), "entry.contextId"),
        (delivery(changed(status=TaskStatus(state=TaskState.WORKING))), "entry.status"),
        (delivery(changed(history=())), "entry.history"),
        (delivery(changed(history=(MESSAGE, MESSAGE))), "entry.history"),
        (
            delivery(changed(status=TaskStatus(state=TaskState.SUBMITTED, timestamp="now"))),
            "entry.status.timestamp",
        ),
        (
            delivery(
                TaskSubmitted(task=TASK, options=TurnOptions(call=CallOrigin(principal=OTHER)))
            ),
            "entry.options.call",
        ),
        # JSON all the same, and the end of an event of a stream.
        (delivery(entry=msgspec.Raw(Entry.of(1, TASK).body[:-1] + b"\n\n}")), "entry"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_delivery_that_no_host_can_take(sent: Delivery, named: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        decode(encode(sent), task_id="t")
    assert [each.field for each in refused.value.violations] == [named]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"\xff", b"{}", b'{"task_id":"t","entry":}', b"[" * 100_000],
    ids=["nothing", "an array", "no text", "empty", "no JSON", "deep"],
)
def test_a_body_that_is_no_delivery(body: bytes) -> None:
    with pytest.raises(InvalidParams, match="cannot be read"):
        decode(body, task_id="t")


@pytest.mark.parametrize("member", ["task_id", "context_id"])
@pytest.mark.parametrize("value", ["", "x" * 257], ids=["empty", "long"])
def test_ids_have_a_length_that_every_store_keeps(member: str, value: str) -> None:
    with pytest.raises(InvalidParams, match=member):
        decode(encode(msgspec.structs.replace(delivery(), **{member: value})), task_id="t")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("operation", "CancelTask"),
        ("digest", "abc"),
        ("digest", "xy"),
        ("task_id", "t\0"),
        ("tenant", "a\0"),
        ("idempotency_key", "k\0"),
    ],
)
def test_members_that_no_relay_writes(member: str, value: str) -> None:
    with pytest.raises(InvalidParams, match=member):
        decode(encode(msgspec.structs.replace(delivery(), **{member: value})), task_id="t")


def test_the_digest_is_that_of_the_request() -> None:
    assert decode(encode(delivery(digest="00ff")), task_id="t").digest == "00ff"

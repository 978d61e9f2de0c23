"""Every list of a request has a limit. One that is too long is refused with its name, the
limit and what to do, and nobody pays for its length."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.bindings.asgi import Http
from tests.bindings.cases import JSONRPC, REST, in_memory, over
from tests.bindings.clients import Client, message
from tests.bindings.test_bad_input import edited, put, refusal, sending
from tests.bindings.world import World

from trunkline.protocol.limits import (
    MAX_CONTAINERS,
    MAX_EXTENSIONS,
    MAX_OUTPUT_MODES,
    MAX_PARTS,
    MAX_QUERY_FIELDS,
    MAX_REFERENCES,
    MAX_VALUES,
)

database = in_memory

MILLION = 1_000_000


@pytest.fixture
async def client(world: World, dialect: str) -> AsyncIterator[Client]:
    client = world.client(dialect)
    yield client
    assert (await client.run("say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"


def part_of(client: Client) -> Any:
    """A part as it is on the wire."""
    request = sending(client)
    assert isinstance(request.body, bytes)
    body = msgspec.json.decode(request.body)
    sent = (body["params"] if client.binding == "jsonrpc" else body)["message"]
    return (sent.get("parts") or sent["content"])[0]


# Path, one item, and the limit.
LISTS = [
    ("message.parts", None, MAX_PARTS),
    ("message.extensions", "https://a.example", MAX_EXTENSIONS),
    ("message.referenceTaskIds", "t", MAX_REFERENCES),
    ("configuration.acceptedOutputModes", "text/plain", MAX_OUTPUT_MODES),
]


def path_of(client: Client, path: str) -> str:
    return path.replace("parts", "content") if client.name == "rest-0.3" else path


@pytest.mark.parametrize(("path", "item", "limit"), LISTS, ids=[path for path, _, _ in LISTS])
async def test_a_list_that_is_too_long_is_named_with_its_limit(
    client: Client, path: str, item: Any, limit: int
) -> None:
    path = path_of(client, path)
    items = [item or part_of(client)] * (limit + 1)
    for operation in ("SendMessage", "SendStreamingMessage"):
        request = edited(client, lambda params: put(params, path, items), operation)
        error = await refusal(client, request, "INVALID_PARAMS")
        assert error.fields == [path]
        assert f"{limit + 1:,}" in str(error)
        assert f"at most {limit:,}" in str(error)


@pytest.mark.parametrize(("path", "item", "limit"), LISTS, ids=[path for path, _, _ in LISTS])
async def test_a_list_of_the_longest_length_is_taken(
    client: Client, path: str, item: Any, limit: int
) -> None:
    path = path_of(client, path)
    items = [item or part_of(client)] * limit
    answer = await client.http.send(edited(client, lambda params: put(params, path, items)))
    assert answer.status == 200
    assert "error" not in answer.json()


@pytest.mark.parametrize(("path", "item", "limit"), LISTS, ids=[path for path, _, _ in LISTS])
async def test_names_in_snake_case_hide_no_list(
    client: Client, path: str, item: Any, limit: int
) -> None:
    path = path_of(client, path)
    items = [item or part_of(client)] * (limit + 1)
    snake = {
        "referenceTaskIds": "reference_task_ids",
        "acceptedOutputModes": "accepted_output_modes",
    }
    holder, _, name = path.partition(".")
    wire = f"{holder}.{snake.get(name, name)}"

    def edit(params: Any) -> None:
        put(params, wire, items)
        # Sends the whole request down the tolerant way.
        put(params, "metadata", {"an_underscore": 1})

    error = await refusal(client, edited(client, edit), "INVALID_PARAMS")
    assert error.fields == [wire]


@pytest.mark.parametrize(
    ("path", "value", "blamed"),
    [
        ("configuration.acceptedOutputModes", ["a"] * MILLION, "acceptedOutputModes"),
        ("message.extensions", ["a"] * MILLION, "extensions"),
        ("message.referenceTaskIds", ["a"] * MILLION, "referenceTaskIds"),
        ("message.metadata", dict.fromkeys(map(str, range(MILLION // 2)), 1), "metadata"),
        ("message.metadata", {"list": [1] * MILLION}, "list"),
        ("metadata", {"deep": [[[]]] * (MILLION // 3)}, "deep"),
    ],
    ids=["modes", "extensions", "references", "metadata", "list in metadata", "lists in metadata"],
)
async def test_a_million_values_are_refused_before_they_are_read(
    client: Client, path: str, value: Any, blamed: str
) -> None:
    request = edited(client, lambda params: put(params, path, value))
    error = await refusal(client, request, "INVALID_PARAMS")
    assert error.fields == [blamed]
    # Who reads the lists would say how many there are.
    assert f"{MAX_VALUES:,} values" in str(error) or f"{MAX_CONTAINERS:,} lists" in str(error)
    if client.binding == "jsonrpc":
        assert isinstance(request.body, bytes)
        assert error.answer.json()["id"] == msgspec.json.decode(request.body)["id"]


async def test_a_million_parts_are_refused_before_they_are_read(client: Client) -> None:
    parts = [part_of(client)] * 200_000
    name = path_of(client, "message.parts")
    error = await refusal(
        client, edited(client, lambda params: put(params, name, parts)), "INVALID_PARAMS"
    )
    assert error.fields == [name.partition(".")[2]]


async def test_a_long_text_is_not_many_values(client: Client, world: World) -> None:
    text = 'one, two, {three}, [four], "five", \\six\n' * 20_000
    answer = await client.http.send(
        client.request("SendMessage", {"message": message(f"echo {text}")})
    )
    assert answer.status == 200
    assert "error" not in answer.json()


@over(*JSONRPC)
async def test_a_batch_is_refused_whatever_its_length(client: Client) -> None:
    request = sending(client)
    assert isinstance(request.body, bytes)
    request.body = b"[" + b",".join([request.body] * 3) + b"]"
    await refusal(client, request, "INVALID_REQUEST")
    request.body = b"[" + b",".join([b"{}"] * 300_000) + b"]"
    error = await refusal(client, request, "INVALID_PARAMS")
    assert error.answer.json()["id"] is None


@over(*REST)
async def test_a_query_of_many_fields_is_refused(client: Client) -> None:
    request = client.request("ListTasks", {})
    fields = "&".join([f"x{n}=1" for n in range(MAX_QUERY_FIELDS + 1)])
    many = Http(method=request.method, path=request.path, query=fields, headers=request.headers)
    error = await refusal(client, many, "INVALID_PARAMS")
    assert error.fields == ["query"]
    assert str(MAX_QUERY_FIELDS) in str(error)

"""Listing tasks (protocol section 7). Over 0.3 it is an addition of Trunkline's."""

import pytest
from tests.bindings.cases import REST, V10, over, refused
from tests.bindings.clients import Client, message
from tests.bindings.world import World


async def run_many(client: Client, world: World, count: int) -> list[str]:
    """Tasks a second apart, the last first, as a list has them."""
    ids: list[str] = []
    for number in range(count):
        ids.insert(0, (await client.run(f"say {number}"))["id"])
        await world.clock.advance(1)
    return ids


async def test_an_empty_list_has_all_its_members(client: Client) -> None:
    assert await client.list() == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 0,
    }


async def test_the_latest_status_comes_first(client: Client, world: World) -> None:
    ids = await run_many(client, world, 3)
    assert [task["id"] for task in (await client.list())["tasks"]] == ids
    # Not the creation counts but the status.
    asked = await client.run("ask which?")
    await run_many(client, world, 1)
    await client.cancel(asked["id"])
    assert (await client.list())["tasks"][0]["id"] == asked["id"]


async def test_pages_hold_every_task_once(client: Client, world: World) -> None:
    # All at the same time, so that the order needs more than the timestamp.
    ids = {(await client.run(f"say {number}"))["id"] for number in range(7)}
    seen: list[str] = []
    token = ""
    while True:
        page = await client.list(pageSize=3, **({"pageToken": token} if token else {}))
        assert (page["totalSize"], page["pageSize"]) == (7, 3)
        seen += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
        if not token:
            break
    assert len(seen) == 7
    assert set(seen) == ids


async def test_a_page_is_not_shifted_by_new_tasks(client: Client, world: World) -> None:
    ids = await run_many(client, world, 4)
    first = await client.list(pageSize=2)
    await run_many(client, world, 2)
    second = await client.list(pageSize=2, pageToken=first["nextPageToken"])
    assert [task["id"] for task in first["tasks"] + second["tasks"]] == ids


async def test_a_full_last_page_has_no_token(client: Client, world: World) -> None:
    await run_many(client, world, 2)
    assert (await client.list(pageSize=2))["nextPageToken"] == ""


@pytest.mark.parametrize("size", [0, -1, 101, 2**31])
async def test_a_page_size_out_of_range_is_refused(client: Client, size: int) -> None:
    with refused("INVALID_PARAMS", "pageSize"):
        await client.list(pageSize=size)


@pytest.mark.parametrize("size", [1, 100])
async def test_the_bounds_of_the_page_size_are_in_range(client: Client, size: int) -> None:
    assert (await client.list(pageSize=size))["pageSize"] == size


@pytest.mark.parametrize(
    "token", ["nonsense", "MS4y", "////", "ä", "OTk5OTk5OTk5OTk5OTk5OTk5OTkuMS4w"]
)
async def test_a_bad_page_token_is_refused(client: Client, token: str) -> None:
    with refused("INVALID_PARAMS", "pageToken"):
        await client.list(pageToken=token)


async def test_a_page_token_belongs_to_its_filters(client: Client, world: World) -> None:
    await run_many(client, world, 2)
    token = (await client.list(pageSize=1))["nextPageToken"]
    with refused("INVALID_PARAMS", "pageToken"):
        await client.list(pageSize=1, pageToken=token, contextId="other")


async def test_tasks_are_filtered_by_context(client: Client, world: World) -> None:
    task = await client.run(message("say hi", context="ours"))
    await run_many(client, world, 2)
    page = await client.list(contextId="ours")
    assert [t["id"] for t in page["tasks"]] == [task["id"]]
    assert page["totalSize"] == 1
    assert (await client.list(contextId="nobody's"))["totalSize"] == 0


async def test_tasks_are_filtered_by_status(client: Client, world: World) -> None:
    await run_many(client, world, 2)
    failed = await client.run("fail no")
    canceled = await client.cancel((await client.run("hang", returnImmediately=True))["id"])
    for task in (failed, canceled):
        page = await client.list(status=task["status"]["state"])
        assert [t["id"] for t in page["tasks"]] == [task["id"]]
    assert (await client.list(status="TASK_STATE_COMPLETED"))["totalSize"] == 2


@over(*V10)
async def test_the_unspecified_status_is_no_filter(client: Client, world: World) -> None:
    await run_many(client, world, 2)
    assert (await client.list(status="TASK_STATE_UNSPECIFIED"))["totalSize"] == 2


async def test_status_timestamp_after_includes_the_moment_itself(
    client: Client, world: World
) -> None:
    ids = await run_many(client, world, 3)
    middle = (await client.get(ids[1]))["status"]["timestamp"]
    page = await client.list(statusTimestampAfter=middle)
    assert [task["id"] for task in page["tasks"]] == ids[:2]
    assert page["totalSize"] == 2


async def test_a_moment_may_have_an_offset(client: Client, world: World) -> None:
    await run_many(client, world, 1)
    # 2025-06-15T15:06:40Z
    assert (await client.list(statusTimestampAfter="2025-06-15T17:06:40+02:00"))["totalSize"] == 1
    assert (await client.list(statusTimestampAfter="2025-06-15T15:06:41Z"))["totalSize"] == 0


@pytest.mark.parametrize("moment", ["yesterday", "2025-13-01T00:00:00Z", "1"])
async def test_a_moment_that_is_none_is_refused(client: Client, moment: str) -> None:
    with refused("INVALID_PARAMS", "statusTimestampAfter"):
        await client.list(statusTimestampAfter=moment)


async def test_artifacts_are_absent_unless_asked_for(client: Client) -> None:
    await client.run("say hi")
    for page in (await client.list(), await client.list(includeArtifacts=False)):
        assert "artifacts" not in page["tasks"][0]
    [task] = (await client.list(includeArtifacts=True))["tasks"]
    assert task["artifacts"][0]["parts"] == [{"text": "hi"}]


@over(*V10)
async def test_artifacts_that_are_asked_for_are_there_when_empty(client: Client) -> None:
    await client.run("fail no")
    [task] = (await client.list(includeArtifacts=True))["tasks"]
    assert task["artifacts"] == []


async def test_history_length_bounds_listed_histories(client: Client) -> None:
    task = await client.run("say hi")
    [none] = (await client.list(historyLength=0))["tasks"]
    assert "history" not in none
    [one] = (await client.list(historyLength=1))["tasks"]
    assert one["history"] == task["history"][-1:]


async def test_a_listed_task_is_the_task(client: Client) -> None:
    task = await client.run("say hi")
    assert (await client.list(includeArtifacts=True))["tasks"] == [task]


async def test_an_unknown_status_is_refused(client: Client) -> None:
    request = client.request("ListTasks", {})
    if client.binding == "rest":
        request.query = "status=TASK_STATE_HAPPY"
    else:
        assert isinstance(request.body, bytes)
        request.body = request.body.replace(b'"params":{}', b'"params":{"status":"happy"}')
    with refused("INVALID_PARAMS", "status"):
        client.result("ListTasks", await client.http.send(request))


@over(*REST)
async def test_query_names_are_camel_case_and_booleans_are_words(client: Client) -> None:
    await client.run("say hi")
    request = client.request("ListTasks", {})
    request.query = "pageSize=1&includeArtifacts=true&historyLength=0"
    page = client.result("ListTasks", await client.http.send(request))
    assert page["pageSize"] == 1
    assert "artifacts" in page["tasks"][0]
    assert "history" not in page["tasks"][0]
    request.query = "includeArtifacts=1"
    with refused("INVALID_PARAMS", "includeArtifacts"):
        client.result("ListTasks", await client.http.send(request))

"""The whole story with the client of a2a-sdk, on each binding in each version."""

import a2a.types.a2a_pb2 as a2a
import pytest
from a2a.utils.errors import TaskNotCancelableError, UnsupportedOperationError
from tests.acceptance.sdk import Peer, text_of

METHODS = {
    "1.0": ["SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask"],
    "0.3": ["message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe"],
}


async def test_card_send_stream_get_subscribe_cancel(peer: Peer) -> None:
    assert peer.card.name == "Scripted"

    sent = await peer.send("say all is well")
    assert sent.status.state == a2a.TASK_STATE_COMPLETED
    assert text_of(sent) == "all is well"
    assert await peer.get(sent.id) == sent

    streamed = [event async for event in peer.stream("stream 3")]
    assert streamed[0].HasField("task")
    assert streamed[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
    task_id = streamed[0].task.id
    chunks = [event.artifact_update for event in streamed if event.HasField("artifact_update")]
    assert "".join(part.text for chunk in chunks for part in chunk.artifact.parts) == "1 2 3 "
    assert text_of(await peer.get(task_id)) == "1 2 3 "

    running = await peer.send("hang", return_immediately=True)
    followed = peer.subscribe(running.id)
    opening = await anext(followed)
    assert opening.task.id == running.id
    canceled = await peer.cancel(running.id)
    assert canceled.status.state == a2a.TASK_STATE_CANCELED
    rest = [event async for event in followed]
    assert rest[-1].status_update.status.state == a2a.TASK_STATE_CANCELED

    with pytest.raises(TaskNotCancelableError):
        await peer.cancel(running.id)
    with pytest.raises(UnsupportedOperationError):
        await anext(peer.subscribe(running.id))


async def test_the_client_speaks_what_it_is_meant_to(peer: Peer) -> None:
    task = await peer.send("say hello")
    await anext(peer.stream("say hello"))
    await peer.get(task.id)
    for call in (peer.cancel(task.id), anext(peer.subscribe(task.id))):
        with pytest.raises((TaskNotCancelableError, UnsupportedOperationError)):
            await call

    [(binding, version)] = peer.spoken()
    if binding == "jsonrpc":
        assert [peer.method(request) for request in peer.requests] == METHODS[version]
    else:
        prefix = {"1.0": "", "0.3": "/v1"}[version]
        assert [(request.method, request.url.path) for request in peer.requests] == [
            ("POST", f"/a2a/rest{prefix}/message:send"),
            ("POST", f"/a2a/rest{prefix}/message:stream"),
            ("GET", f"/a2a/rest{prefix}/tasks/{task.id}"),
            ("POST", f"/a2a/rest{prefix}/tasks/{task.id}:cancel"),
            ("POST", f"/a2a/rest{prefix}/tasks/{task.id}:subscribe"),
        ]


async def test_list_pages_through_all_tasks_of_a_context(current_peer: Peer) -> None:
    peer = current_peer
    first = await peer.send("say 1")
    context_id = first.context_id
    later = [await peer.send(f"say {number}", context_id=context_id) for number in (2, 3)]
    newest_first = [task.id for task in reversed([first, *later])]

    page = await peer.list(context_id=context_id, page_size=2)
    assert [task.id for task in page.tasks] == newest_first[:2]
    assert (page.page_size, page.total_size) == (2, 3)
    rest = await peer.list(context_id=context_id, page_size=2, page_token=page.next_page_token)
    assert [task.id for task in rest.tasks] == newest_first[2:]
    assert rest.next_page_token == ""


async def test_list_filters_by_state_time_and_shape(current_peer: Peer) -> None:
    peer = current_peer
    done = await peer.send("say done")
    failed = await peer.send("fail on purpose", context_id=done.context_id)
    context = {"context_id": done.context_id}

    [only] = (await peer.list(**context, status=a2a.TASK_STATE_FAILED)).tasks
    assert only.id == failed.id
    since = await peer.list(**context, status_timestamp_after=failed.status.timestamp)
    assert failed.id in [task.id for task in since.tasks]

    plain = (await peer.list(**context, history_length=0)).tasks
    assert not any(task.artifacts or task.history for task in plain)
    [_, full] = (await peer.list(**context, include_artifacts=True)).tasks
    assert text_of(full) == "done"

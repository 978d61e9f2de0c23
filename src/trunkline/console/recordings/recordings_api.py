"""`RecordingsApi`: tests and mock agents made of recorded tasks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from starlette.responses import Response

from trunkline.api.api import Call, Route
from trunkline.api.recording_types import NewRecording, RecordingList, RecordingView
from trunkline.console.recordings.pytest_files import file_name, pytest_file
from trunkline.console.recordings.recorded_tasks import RecordedTasks, actions_of
from trunkline.console.recordings.recordings import Recordings

_PYTHON: Final = "text/x-python"
_TEXTS: Final[Mapping[str, str]] = {
    "NewRecording.taskId": "The task to record. It must have ended, or wait for its caller.",
    "NewRecording.slug": "The agent is `recording/SLUG`; empty to make it of the id of the task.",
    "NewRecording.maxGapMs": "The longest pause between two events, in milliseconds. The recorded "
    "pauses are kept up to this; 0 plays everything at once.",
    "RecordingView.agent": "The handle of the agent whose task it is.",
    "RecordingView.taskId": "The recorded task.",
    "RecordingView.turns": "How many turns it has. A task that plays it begins with the first one.",
    "RecordingView.events": "How many events the recorded task has.",
    "RecordingView.maxGapMs": "The longest pause between two events, in milliseconds.",
    "RecordingView.durable": "Whether the recording is in the store. Else it ends with the "
    "process.",
    "RecordingView.problem": "Why the agent is not published; empty when it is.",
    "RecordingList.items": "All recordings, the last one first.",
}


class RecordingsApi:
    def __init__(
        self,
        recordings: Recordings,
        tasks: RecordedTasks,
        *,
        url_of: Callable[[str], str],
    ) -> None:
        """`url_of` returns the URL of the JSON-RPC interface of an agent; empty for none."""
        self._recordings = recordings
        self._tasks = tasks
        self._url_of = url_of

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/tasks/{id}/test",
            name="get_task_test",
            summary="Get a task as a test in Python, which sends its messages again.",
            description="A file for pytest that needs Python alone. It sends the messages of the "
            "task in their order to any agent, and checks the states and answers that were "
            "recorded. Texts of the task are literals in it, so that none becomes code.",
            handle=self._test,
            result_media_type=_PYTHON,
            errors=(409,),
        )
        yield Route(
            method="POST",
            path="/recordings",
            name="create_recording",
            summary="Publish an agent that plays a recorded task again. For operators.",
            description="The agent `recording/SLUG` answers any message with the recorded events. "
            "It is in no list, and only callers whose grants cover it reach it. Other nodes that "
            "share the store have it when they start the next time.",
            handle=self._create,
            body=NewRecording,
            result=RecordingView,
            status=201,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/recordings",
            name="list_recordings",
            summary="List the agents that play recorded tasks. For operators.",
            handle=self._list,
            result=RecordingList,
            texts=_TEXTS,
        )
        yield Route(
            method="DELETE",
            path="/recordings/{slug}",
            name="delete_recording",
            summary="Withdraw an agent that plays a recorded task. For operators.",
            description="Its own tasks stay.",
            handle=self._delete,
        )

    async def _test(self, call: Call) -> Response:
        task = await self._tasks.find(call.path["id"], by=call.caller)
        agent = task.scope.agent
        text = pytest_file(task.id, agent, actions_of(task), url=self._url_of(agent))
        headers = {
            "Content-Disposition": f'attachment; filename="{file_name(task.id)}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(text.encode("ascii"), headers=headers, media_type=_PYTHON)

    async def _create(self, call: Call) -> RecordingView:
        by = call.require_operator()
        given: NewRecording = call.body
        return await self._recordings.create(
            given.task_id, slug=given.slug, max_gap_ms=given.max_gap_ms, by=by
        )

    async def _list(self, call: Call) -> RecordingList:
        call.require_operator()
        return RecordingList(items=[*self._recordings.list()])

    async def _delete(self, call: Call) -> None:
        call.require_operator()
        await self._recordings.delete(call.path["slug"])

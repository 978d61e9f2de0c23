"""`Turn`: the request and the tools that an agent function gets."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET, Struct

from trunkline.backends.python.calls import CallsAgents
from trunkline.backends.python.outputs import TurnEnd
from trunkline.backends.python.parts import (
    ArtifactWriter,
    Content,
    ToolCall,
    json_of,
    parts_of,
)
from trunkline.engine.media_types import mode_matches
from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    Block,
    DirectReply,
    Failed,
    Final,
    Note,
    Question,
    Refused,
    StageEnded,
    StageStarted,
    TextPreview,
    TextReplaced,
)
from trunkline.model.session import Delivered, ReplyPayload
from trunkline.model.values import Artifact, Message, Part, Role, text_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.tools import TurnTool


class Cancellation(Struct, eq=False):
    """Set on the loop, read from any thread."""

    happened: bool = False
    _event: asyncio.Event | None = None

    def is_set(self) -> bool:
        return self.happened

    def set(self) -> None:
        self.happened = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        if self.happened:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()


class Turn(CallsAgents):
    __slots__ = ("_cancellation", "_direct", "_number")

    def __init__(
        self,
        request: TurnRequest,
        *,
        direct: bool = False,
        cancellation: Cancellation | None = None,
        tools: Mapping[str, TurnTool] | None = None,
    ) -> None:
        super().__init__(request, tools or {})
        self._direct = direct
        self._cancellation = cancellation or Cancellation()
        self._number = 0

    @property
    def text(self) -> str:
        """The text parts of the message, one per line."""
        return text_of(self._request.message.parts)

    @property
    def message(self) -> Message:
        return self._request.message

    @property
    def parts(self) -> tuple[Part, ...]:
        return self._request.message.parts

    @property
    def files(self) -> tuple[Part, ...]:
        """The parts that hold bytes (`raw`) or say where they are (`url`)."""
        return tuple(part for part in self.parts if part.raw is not None or part.url is not None)

    @property
    def data(self) -> tuple[Any, ...]:
        """The values of the data parts."""
        return tuple(part.data for part in self.parts if part.data is not UNSET)

    @property
    def history(self) -> tuple[Message, ...]:
        """The task's earlier messages, oldest first, without this one."""
        return self._request.history

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What earlier turns of the task produced."""
        return self._request.artifacts

    @property
    def asked(self) -> str | None:
        """The question that this message answers; None in the first turn of a task."""
        # A task that has not ended takes another message only while it waits for one, so the
        # agent's last message is the question.
        for message in reversed(self._request.history):
            if message.role is Role.AGENT:
                return text_of(message.parts)
        return None

    @property
    def task_id(self) -> str:
        """Empty for an agent that answers directly, as long as there is no task."""
        return self._request.task_id

    @property
    def context_id(self) -> str:
        return self._request.context_id

    @property
    def session_key(self) -> str:
        """Names the conversation, `agent:{agentId}:a2a:{contextId}`; empty in a test."""
        session = self._request.session
        return session.key if session is not None else ""

    async def transcript(self, *, limit: int = 100) -> tuple[Message, ...]:
        """Messages of the conversation before this task, oldest first.

        Only what this caller said and was told; `history` has the messages of the task.
        """
        session = self._request.session
        return await session.transcript(limit=limit) if session is not None else ()

    async def recall(self, name: str) -> str | None:
        """The last value kept under the name, for this caller in this conversation."""
        session = self._request.session
        return await session.recall(name) if session is not None else None

    async def keep(self, name: str, text: str) -> None:
        """Keep a text for later turns of the conversation, also after a restart.

        It is stored when this returns. An empty text forgets what was kept.
        """
        session = self._request.session
        if session is None:
            raise RuntimeError("there is no gateway that could keep something")
        await session.keep(name, text)

    async def follow_up(self, text: str, *, media_urls: Iterable[str] = ()) -> Delivered:
        """Say something more on the task, also long after the turn has ended.

        It becomes an artifact of the task. `ok` is false, with the reason in `error`, when
        there is no such task: an answer without a task, or one that is no longer kept.
        """
        session = self._request.session
        if session is None:
            raise RuntimeError("there is no gateway that could keep a follow-up")
        return await session.follow_up(ReplyPayload(text=text, media_urls=tuple(media_urls)))

    @property
    def principal(self) -> str:
        """The caller, as the gateway authenticated them."""
        return self._request.principal

    @property
    def tenant(self) -> str:
        return self._request.tenant

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the request; `turn.message.metadata` is the message's. Trust neither."""
        return self._request.metadata or {}

    @property
    def extensions(self) -> tuple[str, ...]:
        """URIs of the extensions that the caller asked to use."""
        return self._request.extensions

    @property
    def references(self) -> tuple[str, ...]:
        """Ids of other tasks that the message refers to."""
        return self._request.message.reference_task_ids

    @property
    def accepted_output_modes(self) -> tuple[str, ...]:
        return self._request.accepted_output_modes

    def accepts(self, media_type: str) -> bool:
        """Whether the caller accepts this media type; a caller that named none accepts all."""
        modes = self._request.accepted_output_modes
        return not modes or any(mode_matches(mode, media_type) for mode in modes)

    @property
    def is_canceled(self) -> bool:
        """Whether the caller gave up; for functions in a thread to look at now and then."""
        return self._cancellation.happened

    async def canceled(self) -> None:
        """Wait until the caller gives up."""
        await self._cancellation.wait()

    def note(self, content: Content, *more: Content) -> Note:
        """A message about the progress, apart from the answer."""
        return Note(parts_of((content, *more)))

    def replace(self, text: str) -> TextReplaced:
        """The whole answer so far, in place of the text yielded before."""
        return TextReplaced(text)

    def preview(self, text: str) -> TextPreview:
        """Text of a library that repeats, or does not repeat, what it said before."""
        return TextPreview(text)

    def block(self, content: Content, *more: Content) -> Block:
        """A passage of the answer that is complete."""
        return Block(parts_of((content, *more)))

    def stage(self) -> StageStarted:
        """From here on, another message."""
        return StageStarted()

    def stage_end(self, *content: Content) -> StageEnded:
        """The whole of the message, in place of the text yielded before. The turn goes on."""
        return StageEnded(parts_of(content))

    def artifact(
        self,
        *,
        name: str = "",
        text: str | None = None,
        data: Any = UNSET,
        raw: bytes | None = None,
        url: str | None = None,
        parts: Iterable[Content] = (),
        media_type: str = "",
        filename: str = "",
        description: str = "",
        artifact_id: str = "",
        append: bool = False,
        last: bool = True,
        metadata: dict[str, Any] | None = None,
        extensions: Iterable[str] = (),
    ) -> ArtifactEmitted:
        """A result with an id of its own: one of text, data, raw and url, or several parts."""
        contents = parts_of(parts)
        if not contents:
            value = UNSET if data is UNSET else json_of(data)
            try:
                part = Part(
                    text=text,
                    data=value,
                    raw=raw,
                    url=url,
                    media_type=media_type,
                    filename=filename,
                )
            except ValueError:
                raise ValueError(
                    "an artifact needs exactly one of text, data, raw and url, or parts"
                ) from None
            contents = (part,)
        artifact = Artifact(
            artifact_id=artifact_id or self._new_id(),
            name=name,
            description=description,
            parts=contents,
            metadata=json_of(metadata),
            extensions=tuple(extensions),
        )
        return ArtifactEmitted(artifact=artifact, append=append, last_chunk=last)

    def chunked(
        self,
        *,
        name: str = "",
        media_type: str = "",
        filename: str = "",
        description: str = "",
        artifact_id: str = "",
    ) -> ArtifactWriter:
        """An artifact that is sent piece by piece."""
        return ArtifactWriter(
            artifact_id=artifact_id or self._new_id(),
            name=name,
            media_type=media_type,
            filename=filename,
            description=description,
        )

    def tool(self, name: str, data: Any = None, *, call_id: str = "") -> ToolCall:
        """A call of a tool; yield it when it starts, then its `update` and `result`."""
        return ToolCall(call_id=call_id or self._new_id(), name=name, data=data)

    def answer(self, *content: Content, metadata: dict[str, Any] | None = None) -> TurnEnd:
        """The end of the turn, with the answer; without content, what was yielded so far."""
        return TurnEnd(Final(parts_of(content), json_of(metadata)))

    def reply(
        self, content: Content, *more: Content, metadata: dict[str, Any] | None = None
    ) -> TurnEnd:
        """The answer as one message, without a task where the agent is `direct`."""
        kind = DirectReply if self._direct else Final
        return TurnEnd(kind(parts_of((content, *more)), json_of(metadata)))

    def ask(self, content: Content, *more: Content) -> TurnEnd:
        """A question. The agent is called again with the caller's answer as the message."""
        return TurnEnd(Question(parts_of((content, *more))))

    def need_auth(self, content: Content, *more: Content) -> TurnEnd:
        """The sign-in or permission that the agent needs from the caller before it can go on."""
        return TurnEnd(AuthNeeded(parts_of((content, *more))))

    def refuse(self, reason: str) -> TurnEnd:
        """The agent will not do it."""
        return TurnEnd(Refused(reason))

    def fail(self, reason: str) -> TurnEnd:
        """The agent could not do it. Unlike an exception's, the caller reads this text."""
        return TurnEnd(Failed(reason))

    def _new_id(self) -> str:
        # Unique in the task, because no two turns share a run id.
        self._number += 1
        return f"{self._request.run_id}-{self._number}"

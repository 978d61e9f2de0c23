"""Two ways of 0.3 that some clients need: one older than it, one that takes almost anything."""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from trunkline.model.calls import SendMessageRequest
from trunkline.model.errors import InvalidParams, file_part_refused
from trunkline.model.profile import Profile
from trunkline.model.values import Message, Part
from trunkline.protocol import protojson, protojson_fields
from trunkline.protocol.dialect import Dialect
from trunkline.protocol.v03 import V03Dialect
from trunkline.protocol.v03_reading import Reader03, read_configuration, read_role
from trunkline.protocol.v03_rest import V03RestDialect
from trunkline.protocol.v03_types import LooseSend03, Part03
from trunkline.protocol.v03_writing import TerseWriter03, Writer03

_KINDS: Final = ("text", "data", "file")


class _LegacyDialect(V03Dialect):
    def page(
        self, tasks: Sequence[bytes], *, next_page_token: str, page_size: int, total_size: int
    ) -> bytes:
        # There, the size of a page is the number of tasks on it.
        return super().page(
            tasks, next_page_token=next_page_token, page_size=len(tasks), total_size=total_size
        )


class _LegacyRestDialect(_LegacyDialect, V03RestDialect):
    pass


class _LooseDialect(V03Dialect):
    """Parts of an unknown kind, or of none, are passed over; so are push configurations.

    A message of nothing else becomes one of a blank text, which admission answers.
    """

    def __init__(
        self, memo: str, reader: Reader03, writer: Writer03, *, refuses_files: bool
    ) -> None:
        super().__init__(memo, reader, writer)
        self._refuses_files = refuses_files

    def decode_send(self, params: bytes) -> SendMessageRequest:
        request = protojson.decode(params, LooseSend03)
        message, configuration = request.message, request.configuration
        # Files are refused before all else, the missing id included.
        for index, part in enumerate(message.parts):
            if self._refuses_files and part.get("kind") == "file":
                raise file_part_refused(index)
        if not message.message_id:
            raise InvalidParams.at("message.messageId", "is required")
        parts = tuple(
            [
                self.reader.part(
                    protojson_fields.read(part, Part03, f"message.parts[{index}]"),
                    f"message.parts[{index}]",
                )
                for index, part in enumerate(message.parts)
                if part.get("kind") in _KINDS
            ]
        )
        if configuration is not None:
            configuration = structs.replace(
                configuration, push_notification_config=None, push_notification=None
            )
        return SendMessageRequest(
            message=Message(
                message_id=message.message_id,
                context_id=message.context_id,
                task_id=message.task_id,
                role=read_role(message.role, "message.role"),
                parts=parts or (Part(text=""),),
                metadata=message.metadata,
                extensions=message.extensions,
                reference_task_ids=message.reference_task_ids,
            ),
            configuration=None if configuration is None else read_configuration(configuration),
            metadata=request.metadata,
        )


def v03_over_jsonrpc(profile: Profile) -> Dialect:
    reader, writer = _ways(profile, is_rest=False)
    if profile.message_checks == "openclaw-inbound":
        refuses_files = profile.files == "reject" and profile.files_reject_code == -32602
        return _LooseDialect("0.3", reader, writer, refuses_files=refuses_files)
    dialect = _LegacyDialect if profile.dialect == "v0.3-legacy" else V03Dialect
    return dialect("0.3", reader, writer)


def v03_over_rest(profile: Profile) -> Dialect:
    dialect = _LegacyRestDialect if profile.dialect == "v0.3-legacy" else V03RestDialect
    return dialect("0.3-rest", *_ways(profile, is_rest=True))


def _ways(profile: Profile, *, is_rest: bool) -> tuple[Reader03, Writer03]:
    """In and out."""
    is_legacy = profile.dialect == "v0.3-legacy"
    reader = Reader03(
        is_rest=is_rest,
        is_legacy=is_legacy,
        # The proto of 0.3, and so HTTP+JSON, has no such member; before 0.3 it was `type`.
        requires_kind=not is_rest and not is_legacy,
    )
    is_terse = profile.artifact_style == "openclaw-inbound"
    writer = (TerseWriter03 if is_terse else Writer03)(
        is_rest=is_rest, question_is_final=profile.question_is_final
    )
    return reader, writer

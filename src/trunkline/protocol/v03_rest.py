"""A2A 0.3 over REST, which in practice is the ProtoJSON of its gRPC definition."""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.calls import SendMessageRequest
from trunkline.model.errors import InvalidParams
from trunkline.protocol import protojson
from trunkline.protocol.dialect import Dialect
from trunkline.protocol.v03 import V03Dialect
from trunkline.protocol.v03_reading import Reader03
from trunkline.protocol.v03_types import RestSend03, Send03
from trunkline.protocol.v03_writing import Writer03

_encode = msgspec.json.Encoder().encode


class V03RestDialect(V03Dialect):
    def decode_send(self, params: bytes) -> SendMessageRequest:
        given = protojson.decode(params, RestSend03)
        message = given.message or given.request
        if message is None:
            raise InvalidParams.at("message", "is required")
        configuration = given.configuration
        if configuration is not None and configuration.blocking is None:
            # ProtoJSON leaves out what is false, so a client that does not want to wait
            # sends a configuration without the member.
            configuration = replace(configuration, blocking=False)
        return self._send(
            Send03(message=message, configuration=configuration, metadata=given.metadata)
        )

    def sent_task(self, task: bytes) -> bytes:
        return b'{"task":%b}' % self.task(task)

    def sent_message(self, message: bytes) -> bytes:
        return b'{"message":%b}' % super().sent_message(message)

    def _named(self, name: str, value: Struct) -> bytes:
        return b'{"%b":%b}' % (name.encode(), _encode(value))


V03Rest: Final[Dialect] = V03RestDialect("0.3-rest", Reader03(is_rest=True), Writer03(is_rest=True))

"""A2A 0.3 over REST, which in practice is the ProtoJSON of its gRPC definition."""

from typing import Final

import msgspec
from msgspec import Struct

from trunkline.protocol.dialect import Dialect
from trunkline.protocol.v03 import V03Dialect
from trunkline.protocol.v03_convert import Converter

_encode = msgspec.json.Encoder().encode


class V03RestDialect(V03Dialect):
    def sent_task(self, task: bytes) -> bytes:
        return b'{"task":%b}' % self.task(task)

    def sent_message(self, message: bytes) -> bytes:
        return b'{"message":%b}' % super().sent_message(message)

    def _named(self, name: str, value: Struct) -> bytes:
        return b'{"%b":%b}' % (name.encode(), _encode(value))


V03Rest: Final[Dialect] = V03RestDialect("0.3-rest", Converter(is_rest=True))

"""Write relay-asyncapi.json in docs/reference: the socket between a relay and its hosts.

The frames come from the structs of the protocol, and the words for them from relay-protocol.md.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

import msgspec
from msgspec import Struct

from trunkline.protocol.relay import close_codes
from trunkline.protocol.relay.frames import (
    MAX_HEAD_BYTES,
    SUBPROTOCOL,
    Accept,
    Ack,
    Agents,
    Cancel,
    Credit,
    Data,
    Drain,
    Frame,
    Hello,
    Leases,
    Limits,
    Ping,
    Pong,
    Reauth,
    Reauthed,
    Req,
    Res,
    Resume,
    Welcome,
    encode,
)

DOCS: Final = Path(__file__).resolve().parent.parent / "docs" / "reference"
DOCUMENT: Final = "relay-asyncapi.json"
Json: TypeAlias = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
_WITH_BODY: Final = (Req, Res, Data)
_ABOUT: Final = (
    "A host dials out to a relay, so that its agents can be called there. This is the socket "
    "between the two; relay-protocol.md says what the frames do and in which order they come. "
    f"A message is binary: a JSON object on one line with up to {MAX_HEAD_BYTES} bytes, and for "
    "`req`, `res` and `data` maybe a line feed and a piece of a body behind it. The payloads here "
    "are the JSON objects. Receivers pass over members that they do not know. "
    "`x-close-codes` has the codes that a connection is closed with."
)
_CALLER: Final = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6ImEyYS1yZWxheS1jYWxsZXIrand0In0.eyJzdWIiOiJhbGljZSJ9.c2ln"
)
EXAMPLES: Final[Sequence[tuple[Frame, bytes]]] = (
    (Hello(Limits()), b""),
    (Hello(Limits(), Resume("5f2c1e9a", 17)), b""),
    (
        Welcome(
            session="5f2c1e9a",
            resumed=True,
            limits=Limits(),
            key="00" * 32,
            received=12,
            heartbeat_s=20.0,
            resume_s=30.0,
            token_ends_in_s=3600.0,
        ),
        b"",
    ),
    (Ack(32), b""),
    (Ping(), b""),
    (Pong(), b""),
    (Reauth("the-next-token-of-the-host"), b""),
    (Reauthed(3600.0), b""),
    (Agents(1, ("acme/helper", "acme/reviewer")), b""),
    (Leases(1, {"acme/helper": 7, "acme/reviewer": 8}), b""),
    (Drain(40, 30.0), b""),
    (
        Req(
            n=2,
            stream=1,
            agent="acme/helper",
            epoch=7,
            caller=_CALLER,
            method="POST",
            target="/t/acme/a2a/helper",
            headers=(("content-type", "application/json"), ("a2a-version", "1.0")),
            fin=True,
        ),
        b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"task-1"}}',
    ),
    (Accept(2, 1), b""),
    (
        Res(n=3, stream=1, status=200, headers=(("content-type", "text/event-stream"),)),
        b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n',
    ),
    (Data(4, 1), b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'),
    (Data(5, 1, fin=True), b""),
    (Credit(5, 1, 32_768), b""),
    (Cancel(6, 1, "closed", "the client has left"), b""),
)


def document() -> Json:
    kinds: Sequence[type[Struct]] = get_args(Frame)
    told = {name: row for row in rows("Frames") for name in re.findall(r"`(\w+)`", row[0])}
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    messages = {str(kind.__struct_config__.tag): kind for kind in kinds}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Trunkline relay",
            "version": SUBPROTOCOL,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "relay": {
                "host": "relay.example.com",
                "protocol": "wss",
                "security": [{"$ref": "#/components/securitySchemes/token"}],
            }
        },
        "channels": {
            "session": {
                "address": "/agent",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {
                    "ws": {
                        "method": "GET",
                        "headers": {
                            "type": "object",
                            "required": ["Authorization", "Sec-WebSocket-Protocol"],
                            "properties": {
                                "Authorization": {"type": "string", "pattern": "^Bearer "},
                                "Sec-WebSocket-Protocol": {"const": SUBPROTOCOL},
                            },
                        },
                    }
                },
            }
        },
        # As the relay sees them.
        "operations": {
            "fromHost": _operation("receive", "host", messages, told),
            "fromRelay": _operation("send", "relay", messages, told),
        },
        "components": {
            "messages": {
                name: _message(name, kind, told[name][3]) for name, kind in messages.items()
            },
            "schemas": {name: _plain(schema) for name, schema in schemas.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "x-close-codes": [*_close_codes()],
    }


def _operation(
    action: str, sender: str, messages: Mapping[str, object], told: Mapping[str, Sequence[str]]
) -> Json:
    return {
        "action": action,
        "channel": {"$ref": "#/channels/session"},
        "summary": f"What a {sender} sends.",
        "messages": [
            {"$ref": f"#/channels/session/messages/{name}"}
            for name in messages
            if told[name][1] in (sender, "both")
        ],
    }


def _message(name: str, kind: type[Struct], meaning: str) -> Json:
    message: Json = {
        "name": name,
        "summary": meaning,
        "payload": {"$ref": _REF.format(name=kind.__name__)},
        "examples": [
            {"payload": json.loads(encode(frame))} for frame, _ in EXAMPLES if type(frame) is kind
        ],
    }
    if kind in _WITH_BODY:
        message["description"] = "A line feed and a piece of the body may follow the JSON."
        # That of the first example.
        message["x-body"] = next(body for frame, body in EXAMPLES if type(frame) is kind).decode()
    return message


def _plain(schema: Any) -> Any:
    """The same for readers of JSON Schema draft 7, which AsyncAPI follows."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _plain(value) for name, value in schema.items()}
    if "prefixItems" in found:
        found["items"], found["additionalItems"] = found.pop("prefixItems"), False
    if isinstance(pattern := found.get("pattern"), str):
        # Python has other names than ECMAScript for the ends of a text.
        found["pattern"] = pattern.replace(r"\A", "^").replace(r"\Z", "$")
    return found


def _close_codes() -> Iterator[Json]:
    known = {value for value in vars(close_codes).values() if isinstance(value, int)}
    for cell, meaning, *_ in rows("Close codes"):
        for code in map(int, re.findall(r"\d+", cell)):
            assert code in known, f"no code {code} in close_codes"
            yield {
                "code": code,
                "meaning": meaning,
                "endsSession": close_codes.ends_session(code),
                "fatal": code in close_codes.FATAL,
            }


def rows(heading: str) -> list[list[str]]:
    """The cells of the table in a section of the specification."""
    text = (DOCS / "relay-protocol.md").read_text("utf-8")
    table = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def encoded() -> str:
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    (DOCS / DOCUMENT).write_text(encoded(), "utf-8")


if __name__ == "__main__":
    main()

"""docs/guides/relay.md and the specification say what is so."""

import re
from pathlib import Path

import msgspec
import pytest

from trunkline.engine.access import may_attach
from trunkline.protocol.card_signing import unpadded
from trunkline.protocol.relay import close_codes, frames, polling
from trunkline.protocol.relay.addresses import path_of
from trunkline.protocol.relay.callers import _HEADER
from trunkline.settings import Settings, load

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "relay.md").read_text("utf-8")
SPECIFICATION = (DOCS / "reference" / "relay-protocol.md").read_text("utf-8")
_VALUES = {"NODE_ADDRESS": "10.0.0.11"}
FRAMES = msgspec.inspect.type_info(frames.Frame)


@pytest.fixture
def configurations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    found = []
    first = ""
    for text in re.findall(r"^```toml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL):
        for name in re.findall(r"\$\{(\w+)\}", text):
            monkeypatch.setenv(
                name, _VALUES.get(name) or f"0123456789abcdef0123456789abcdef-{name}"
            )
        file = tmp_path / "trunkline.toml"
        # More of the relay, which needs the keys of the first one.
        before = "" if "[auth" in text or "[relay]" in text else first
        first = first or text
        file.write_text(f"{before}\n{text}")
        found.append(load(file))
    return found


def test_both_sides_fit_each_other(configurations: list[Settings]) -> None:
    relay, detailed, tenants, host, node = configurations
    assert relay.server.relay
    assert detailed.as_relay is not None
    assert detailed.as_relay.policies.of("acme/helper").wait_s == 30
    assert tenants.relay_server is not None
    assert tenants.relay_server.audience == relay.server.public_url
    assert [*tenants.relay_server.tenants] == ["acme", "example"]
    assert host.relay is not None
    assert host.relay.url == relay.server.public_url.replace("https", "wss") + "/agent"
    handles = host.relay.handles(host.default_agent())
    assert handles == {"acme/helper": "me/helper"}
    laptop, alice = relay.auth.principals().values()
    assert [may_attach(laptop, agent) for agent in handles] == [True]
    assert [grant.agent for grant in alice.grants] == [*handles]
    assert node.cluster.node_url == "http://10.0.0.11:8642"
    assert host.relay.base_url + path_of("acme/helper") in GUIDE


def rows(heading: str) -> dict[str, str]:
    table = SPECIFICATION.partition(f"## {heading}")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| ([^|]+?) \| (.*) \|$", table, re.MULTILINE))


def test_every_frame_is_specified_with_its_members() -> None:
    assert isinstance(FRAMES, msgspec.inspect.UnionType)
    found = rows("Frames")
    kinds = {name for cell in found for name in re.findall(r"`(\w+)`", cell)}
    assert kinds == {frame.tag for frame in FRAMES.types}  # type: ignore[attr-defined]
    for frame in FRAMES.types:
        assert isinstance(frame, msgspec.inspect.StructType)
        [row] = [text for cell, text in found.items() if f"`{frame.tag}`" in cell]
        members = row.split(" | ")[1]
        named = re.findall(r"`(\w+)`(\??)", members)
        assert named == [
            (field.encode_name, "" if field.required or _is_always_sent(frame, field) else "?")
            for field in frame.fields
        ], frame.tag


def _is_always_sent(frame: msgspec.inspect.StructType, field: msgspec.inspect.Field) -> bool:
    return not frame.cls.__struct_config__.omit_defaults and field.default not in (None, ())


def test_every_close_code_is_specified() -> None:
    found = rows("Close codes")
    ours = {
        value: name
        for name, value in vars(close_codes).items()
        if isinstance(value, int) and name.isupper()
    }
    listed = {int(code): text for cell, text in found.items() for code in re.findall(r"\d+", cell)}
    assert listed.keys() == ours.keys()
    for code, text in listed.items():
        _, ends, fatal = text.split(" | ") if text.count(" | ") == 2 else (*text.split(" | "), "")
        assert close_codes.ends_session(code) == ("yes" in ends), code
        assert (code in close_codes.FATAL) == ("yes" in fatal), code


def test_the_header_of_callers_is_as_specified() -> None:
    assert unpadded(_HEADER).decode() in SPECIFICATION


@pytest.mark.parametrize(
    "value",
    [
        frames.SUBPROTOCOL,
        frames.Limits().max_frame_bytes,
        frames.Limits().max_streams,
        frames.Limits().stream_bytes,
        frames.MIN_FRAME_BYTES,
        frames.MIN_STREAM_BYTES,
        frames.MAX_AGENTS,
        f"{polling.MAX_BATCH_BYTES:,}",
        f"{polling.MAX_BATCH_MESSAGES:,}",
        f'"poll_s":{polling.POLL_S:.0f}',
    ],
)
def test_limits_are_as_specified(value: object) -> None:
    assert re.search(rf"(?<!\d){value}(?!\d)", SPECIFICATION)

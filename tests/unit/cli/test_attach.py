"""`trunkline attach`: its flags, and what it shows."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from trunkline.cli.attach import RelayFlags, _relay_url
from trunkline.cli.attach_screen import (
    JsonScreen,
    LiveScreen,
    PlainScreen,
    details,
    phase,
    summary,
)
from trunkline.cli.exit_codes import Exit
from trunkline.cli.options import ConfigFlags
from trunkline.model.errors import ConfigError
from trunkline.relay.hosts.host import HostState, HostStatus
from trunkline.relay.hosts.link import LinkStatus


def link(relay: str = "one.example", **values: Any) -> LinkStatus:
    known: dict[str, Any] = {
        "is_attached": False,
        "is_refused": False,
        "trouble": "",
        "code": 0,
        "next_try_s": None,
        "reconnects": 0,
        "failures": 0,
    }
    return LinkStatus(relay=relay, **(known | values))


def status(*links: LinkStatus, state: HostState, **values: Any) -> HostStatus:
    known: dict[str, Any] = {"agents": (), "since_ms": None, "requests": 0, "round_trip_s": None}
    return HostStatus(state=state, links=links, **({"relay": ""} | known | values))


CONNECTING = status(link(), state=HostState.CONNECTING)
WAITING = status(
    link(trouble="cannot connect", next_try_s=3.2, failures=1), state=HostState.CONNECTING
)
ATTACHED = status(
    link(is_attached=True),
    state=HostState.ATTACHED,
    relay="one.example",
    agents=("acme/helper",),
    since_ms=1_000_000_000_000,
    requests=2,
    round_trip_s=0.0123,
)
REFUSED = status(
    link(is_refused=True, trouble="the relay does not know the token", code=4401),
    state=HostState.REFUSED,
)
REPLACED = status(
    link(is_refused=True, trouble="another host has its agents now", code=4409),
    state=HostState.REFUSED,
)
FORBIDDEN = status(
    link(is_refused=True, trouble="may not attach acme/helper", code=4403), state=HostState.REFUSED
)


def test_the_line_says_how_things_are() -> None:
    assert details(CONNECTING) == "connecting to one.example"
    assert details(WAITING) == "waiting 4 s after: cannot connect"
    line = details(ATTACHED)
    assert line.startswith("attached to one.example as acme/helper since 2001-09-0")
    assert line.endswith(" · 2 requests · round trip 12 ms")
    assert details(REFUSED) == "refused: the relay does not know the token"


def test_the_line_names_all_relays_that_fail() -> None:
    both = status(
        link(trouble="is down", next_try_s=9.0),
        link("two.example", trouble="", next_try_s=None),
        state=HostState.CONNECTING,
    )
    assert details(both) == "connecting to two.example after: one.example: is down"
    elsewhere = status(
        link(trouble="is down", next_try_s=9.0),
        link("two.example", is_attached=True),
        state=HostState.ATTACHED,
        relay="two.example",
        agents=("acme/helper",),
    )
    assert summary(elsewhere) == (
        "attached to two.example as acme/helper in place of one.example (is down)"
    )
    assert phase(both) == "connecting"


def test_plain_lines_come_when_something_changes() -> None:
    out = io.StringIO()
    screen = PlainScreen(out)
    for each in (CONNECTING, CONNECTING, WAITING, ATTACHED, ATTACHED):
        assert screen.show(each) == Exit.DONE
    assert out.getvalue().splitlines() == [
        "connecting to one.example",
        "waiting after: cannot connect",
        "attached to one.example as acme/helper",
    ]


def test_lines_of_json_are_for_programs() -> None:
    out = io.StringIO()
    screen = JsonScreen(out)
    screen.started(("https://one.example/t/acme/a2a/helper",), data="sqlite")
    for each in (CONNECTING, WAITING, ATTACHED, ATTACHED):
        screen.show(each)
    screen.close()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    states = [line["state"] for line in lines]
    assert states == ["started", "connecting", "waiting", "attached", "stopped"]
    assert (lines[2]["reason"], lines[2]["next_try_s"]) == ("cannot connect", 3.2)
    assert lines[3]["agents"] == ["acme/helper"]
    assert lines[3]["round_trip_ms"] == 12.3


@pytest.mark.parametrize(
    ("refused", "code", "remedy"),
    [
        (REFUSED, Exit.NO_ACCESS, "does not know the token. Check that the token"),
        (FORBIDDEN, Exit.NO_ACCESS, "Give a token that may attach this agent"),
        (REPLACED, Exit.REPLACED, "Stop it first"),
    ],
)
def test_a_refusal_ends_the_command_with_a_remedy(
    refused: HostStatus, code: Exit, remedy: str
) -> None:
    screen = PlainScreen(io.StringIO())
    assert screen.show(refused) == code
    assert remedy in screen.refusal


def test_a_gateway_whose_token_is_renewed_waits_for_the_next_one() -> None:
    screen = PlainScreen(io.StringIO(), may_renew=True)
    screen.show(ATTACHED)
    assert screen.show(REFUSED) == Exit.DONE
    assert screen.show(REPLACED) == Exit.REPLACED
    # One that was never attached has the wrong file.
    assert PlainScreen(io.StringIO(), may_renew=True).show(REFUSED) == Exit.NO_ACCESS


def test_the_log_is_written_above_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    terminal = io.StringIO()
    screen = LiveScreen(terminal)
    screen.show(WAITING)
    assert screen.log is not None
    screen.log.write("a warning\n")
    screen.show(ATTACHED)
    screen.close()
    first, warning, line, end = terminal.getvalue().split("\r\x1b[2K")[1:]
    assert first == line_of(WAITING)
    assert warning == f"a warning\n{line_of(WAITING)}"
    assert line.startswith("● attached to one.example as acme/helper since")
    assert len(line) <= 60
    assert line.endswith("…")
    assert end == ""


def line_of(shown: HostStatus) -> str:
    return f"● {details(shown)}"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("wss://relay.example.com/agent", "wss://relay.example.com/agent"),
        ("wss://relay.example.com/base/agent", "wss://relay.example.com/base/agent"),
        ("https://relay.example.com", "wss://relay.example.com/agent"),
        ("https://relay.example.com/", "wss://relay.example.com/agent"),
        ("http://127.0.0.1:8642", "ws://127.0.0.1:8642/agent"),
        ("relay.example.com", "wss://relay.example.com/agent"),
    ],
)
def test_the_address_of_a_relay_is_enough(given: str, url: str) -> None:
    assert _relay_url(given) == url


def table(*, config: Path | None = None, is_token_typed: bool = False, **flags: Any) -> Any:
    return RelayFlags(**flags).table(ConfigFlags(config=config), is_token_typed=is_token_typed)


def test_several_relays_are_the_first_one_and_those_behind_it() -> None:
    found = table(relay=["a.example", "b.example"], tenant="acme", agent="helper", token="t")
    assert found["url"] == "wss://a.example/agent"
    assert found["standby"] == ["wss://b.example/agent"]
    assert found["mode"] == "relay"


def test_what_is_missing_is_named_as_it_is_given() -> None:
    with pytest.raises(ConfigError) as error:
        table(tenant="acme")
    assert "--relay URL, --agent ID, a token in TRUNKLINE_RELAY_TOKEN" in error.value.message


def test_options_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text('[relay]\nurl = "wss://a.example"\nmode = "both"\ntoken_path = "x"\n')
    assert table(config=file, tenant="acme") == {"tenant": "acme"}
    assert table(config=file, mode="relay") == {"mode": "relay"}
    # That of the environment is for commands that say nothing else.
    assert table(config=file, token="of-the-environment") == {}
    assert table(config=file, token="typed", is_token_typed=True) == {"token": "typed"}
    (tmp_path / "t").write_text("a-token")
    assert table(config=file, token_file=tmp_path / "t", token="of-the-environment") == {
        "token_path": str(tmp_path / "t")
    }


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="t: no such file"):
        table(token_file=tmp_path / "t")

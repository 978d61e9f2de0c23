"""What programs are told and what they say, without any process."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.backends.acp import rpc
from trunkline.backends.acp.permission import asked, chosen, question
from trunkline.backends.acp.rpc import blocks
from trunkline.backends.acp.updates import Updates
from trunkline.backends.command.claude import ClaudeFormat
from trunkline.backends.command.codex import CodexFormat
from trunkline.backends.command.format import Start
from trunkline.backends.command.text import TextFormat
from trunkline.backends.output_channel import flooded
from trunkline.backends.programs.failures import exited
from trunkline.backends.programs.output_lines import Lines, LineTooLong, Masked, Tail, Utf8
from trunkline.backends.programs.program import Program
from trunkline.backends.programs.prompt import CannotTell, File, Prompt, prompt_of, safe_name
from trunkline.backends.programs.sessions import session_id
from trunkline.backends.programs.settings import ProgramSettings
from trunkline.config.secret import Secret
from trunkline.model.outputs import ArtifactEmitted, Failed, Final, StageStarted, Text, ToolCalled
from trunkline.model.values import Part
from trunkline.testing import turn_request

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.lists(st.binary(max_size=6)), st.integers(1, 9))
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], size: int) -> None:
    lines = [line.replace(b"\n", b"").replace(b"\r", b"") for line in lines]
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    splitter = Lines(100)
    heard: list[bytes] = []
    for i in range(0, len(data), size):
        heard += splitter.feed(data[i : i + size])
    assert heard == lines
    assert splitter.rest() == b"rest"


def test_a_line_may_be_as_long_as_allowed_and_no_longer() -> None:
    assert list(Lines(3).feed(b"abc\r\n"[:3] + b"\n")) == [b"abc"]
    with pytest.raises(LineTooLong):
        list(Lines(3).feed(b"abcd"))
    splitter = Lines(3)
    assert list(splitter.feed(b"ab")) == []
    with pytest.raises(LineTooLong):
        list(splitter.feed(b"cd\n"))


@given(st.text(), st.integers(1, 5))
def test_characters_survive_every_cut(text: str, size: int) -> None:
    data, reader = text.encode(errors="replace"), Utf8()
    heard = "".join(reader.feed(data[i : i + size]) for i in range(0, len(data), size))
    assert heard + reader.end() == data.decode()


def test_bytes_that_are_no_text_are_replaced() -> None:
    reader = Utf8()
    assert reader.feed(b"a\xff\xf0\x9f") == "a�"
    assert reader.end() == "�"


@given(
    st.lists(st.sampled_from([b"tokentoke", b"n", b"token", b"t", b"\xff", b"to", b"ken"])),
    st.integers(1, 9),
)
def test_a_secret_is_masked_however_it_is_cut(pieces: list[bytes], size: int) -> None:
    data, masked = b"".join(pieces), Masked(b"token")
    heard = [masked.feed(data[i : i + size]) for i in range(0, len(data), size)]
    assert b"".join(heard) + masked.end() == data.replace(b"token", b"***")


def test_only_the_beginning_of_a_secret_waits() -> None:
    masked = Masked(b"token")
    assert masked.feed(b"a tok") == b"a "
    assert masked.feed(b"en, to be") == b"***, to be"
    assert (masked.feed(b"tok"), masked.feed(b"yo"), masked.end()) == (b"", b"tokyo", b"")


def test_the_tail_is_the_last_of_it() -> None:
    tail = Tail(5)
    for piece in (b"abcdefgh", b"ij", b""):
        tail.feed(piece)
    assert str(tail) == "fghij"


def test_the_environment_is_what_is_listed() -> None:
    parent = {"PATH": "/bin", "SECRET": "hush", "HOME": "/h"}
    settings = ProgramSettings(
        command=("x",), inherit_env=("PATH", "TZ"), env={"HOME": Secret("/own")}
    )
    assert Program(settings, parent).environment == {
        "PATH": "/bin",
        "HOME": "/own",
    }


def test_a_program_tells_no_secret() -> None:
    env = {"KEY": Secret("hush-hush"), "MORE": Secret("hush-hush-more")}
    settings = ProgramSettings(command=("/opt/agent",), env=env)
    assert repr(Program(settings)) == "Program('agent')"
    assert settings.without_secrets("a hush-hush-more b hush-hush") == "a *** b ***"
    short = ProgramSettings(command=("x",), env={"DEBUG": Secret("1")})
    assert short.without_secrets("exit code 1") == "exit code 1"


def test_every_session_has_a_name_of_its_own() -> None:
    turns = [
        turn_request("hi", **fields)
        for fields in (
            {},
            {"principal": "mallory"},
            {"tenant": "acme"},
            {"context_id": "context-2"},
            {"agent": "test/other"},
        )
    ]
    assert len({session_id(turn) for turn in turns}) == len(turns)
    assert session_id(turns[0]) == session_id(turn_request("later", run_id="run-9"))


def test_a_message_becomes_text_and_files() -> None:
    prompt = prompt_of(
        (
            Part(text="look"),
            Part(data={"a": [1]}),
            Part(raw=b"```\nx", filename="n.md", media_type="text/markdown; charset=utf-8"),
            Part(raw=b"\xff", filename="not.txt", media_type="text/plain"),
            Part(url="https://example.com/x", filename="x"),
        )
    )
    assert prompt.text == (
        'look\n\n```json\n{\n  "a": [\n    1\n  ]\n}\n```\n\n'
        "File n.md:\n````\n```\nx\n````\n\nFile x: https://example.com/x"
    )
    assert prompt.files == (File(name="not.txt", media_type="text/plain", data=b"\xff"),)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\a\\b.txt", "b.txt"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("a\x1b[31m\nb", "a__31m_b"),
        ("..", "file"),
        ("", "file"),
        ("Füße 1.pdf", "Füße 1.pdf"),
    ],
)
def test_names_of_files_are_harmless(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    assert safe_name(name, taken=[safe]) == f"2-{safe}"


def start(text: str = "hi", **fields: Any) -> Start:
    return Start(prompt=Prompt(text=text), session_id="SID", **fields)


def test_command_lines() -> None:
    claude, codex = ClaudeFormat(), CodexFormat()
    assert claude.arguments(("claude", "--model", "m"), start()) == (
        "--model",
        "m",
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--session-id",
        "SID",
    )
    words = claude.arguments(("claude", "--print", "--verbose"), start(known="K", folder="/f"))
    assert words.count("--verbose") == 1
    assert "-p" not in words
    assert words[-4:] == ("--resume", "K", "--add-dir", "/f")
    assert codex.arguments(("codex", "exec", "-s", "read-only"), start()) == (
        "exec",
        "-s",
        "read-only",
        "--json",
        "-",
    )
    assert codex.arguments(("codex", "exec", "--json"), start(known="T"))[-3:] == (
        "resume",
        "T",
        "-",
    )


@pytest.mark.parametrize(
    ("argv", "text", "words"),
    [
        (("p", "-m", "{prompt}"), "--help", ("-m", " --help")),
        (("p", "--", "{prompt}"), "--help", ("--", "--help")),
        (("p", "--ask={prompt}"), "-x", ("--ask=-x",)),
        (("p", "{prompt}"), "a\0b", ("ab",)),
        (("p", "{prompt}"), "{prompt}", ("{prompt}",)),
    ],
)
def test_a_message_in_an_argument(argv: tuple[str, ...], text: str, words: tuple[str, ...]) -> None:
    format = TextFormat(argv)
    assert format.arguments(argv, start(text)) == words
    assert format.message(Prompt(text=text)) == b""


def test_the_tools_of_the_gateway_are_an_mcp_server_and_no_argument_has_the_token() -> None:
    own = start(mcp_url="http://127.0.0.1:9/mcp")
    words = ClaudeFormat().arguments(("claude", "--allowedTools", "Bash"), own)
    assert words[-4:] == (
        "--mcp-config",
        '{"mcpServers":{"trunkline":{"type":"http","url":"http://127.0.0.1:9/mcp",'
        '"headers":{"Authorization":"Bearer ${TRUNKLINE_TOOLS_TOKEN}"}}}}',
        "--allowedTools",
        "mcp__trunkline",
    )
    assert CodexFormat().arguments(("codex", "exec"), own) == (
        "exec",
        "--json",
        "-c",
        'mcp_servers.trunkline.url="http://127.0.0.1:9/mcp"',
        "-c",
        'mcp_servers.trunkline.bearer_token_env_var="TRUNKLINE_TOOLS_TOKEN"',
        "-c",
        'mcp_servers.trunkline.default_tools_approval_mode="approve"',
        "-",
    )


@pytest.mark.parametrize("format", [ClaudeFormat(), CodexFormat()])
def test_nothing_that_a_program_writes_is_too_strange(format: Any) -> None:
    kinds = ["assistant", "user", "result", "stream_event", "item.completed", "turn.failed"]

    @given(st.sampled_from(kinds), st.dictionaries(st.text(max_size=8), anything), anything)
    def check(kind: str, more: dict[str, Any], inner: Any) -> None:
        reader = format.reader()
        keys = ("message", "event", "item", "error", "usage", "result", "errors", "session_id")
        for frame in ({**more, "type": kind}, {"type": kind} | dict.fromkeys(keys, inner)):
            for output in reader.feed(json.dumps(frame).encode()):
                assert not isinstance(output, ToolCalled) or output.is_known
        assert list(reader.feed(b"\xff{")) == []

    check()


def test_what_a_sub_agent_of_claude_says_is_not_the_answer() -> None:
    reader = ClaudeFormat().reader()
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "inner"}}
    frames = [
        {"type": "stream_event", "event": delta, "parent_tool_use_id": "toolu_1"},
        {
            "type": "assistant",
            "parent_tool_use_id": "toolu_1",
            "message": {"content": [{"type": "text", "text": "inner"}]},
        },
        {"type": "result", "subtype": "success", "result": "outer"},
    ]
    heard = [output for frame in frames for output in reader.feed(json.dumps(frame).encode())]
    assert heard == [Final((Part(text="outer"),))]


@given(st.dictionaries(st.sampled_from(["id", "method", "params", "error", "result"]), anything))
def test_any_json_is_a_message_or_none(frame: dict[str, Any]) -> None:
    message = rpc.read(json.dumps(frame).encode())
    assert message is None or isinstance(message, rpc.Request | rpc.Notification | rpc.Response)


def test_messages() -> None:
    assert rpc.read(b"hello") is None
    assert rpc.read(b'{"id": true, "method": "m"}') == rpc.Notification("m", {})
    assert rpc.read(b'{"id": 0, "method": "m"}') == rpc.Request(0, "m", {})
    assert rpc.read(b'{"id": "a", "result": null}') == rpc.Response(id="a")
    error = rpc.read(b'{"id": 1, "error": {"code": -32603, "message": "no", "data": {"x": 1}}}')
    assert error == rpc.Response(id=1, error_code=-32603, error_message='no {"x":1}')


@given(st.lists(st.dictionaries(st.text(max_size=8), anything), max_size=3), anything)
def test_any_update_is_understood_or_passed_over(frames: list[dict[str, Any]], inner: Any) -> None:
    updates = Updates()
    keys = ("content", "toolCallId", "status", "entries", "name", "title", "rawInput")
    for kind in ("agent_message_chunk", "tool_call", "tool_call_update", "plan"):
        for frame in (*frames, dict.fromkeys(keys, inner)):
            for output in updates.feed({**frame, "sessionUpdate": kind}):
                assert not isinstance(output, ToolCalled) or output.is_known
    assert isinstance(updates.end(inner), Final | Failed)


def test_messages_without_names_are_cut_by_tools() -> None:
    def chunk(text: str) -> dict[str, Any]:
        content = {"type": "text", "text": text}
        return {"sessionUpdate": "agent_message_chunk", "content": content}

    updates = Updates()
    call = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "look"}
    heard = [o for frame in (chunk("a"), call, chunk("b"), chunk("c")) for o in updates.feed(frame)]
    assert [o for o in heard if not isinstance(o, ToolCalled)] == [
        Text("a"),
        StageStarted(),
        Text("b"),
        Text("c"),
    ]


def test_a_picture_is_an_artifact() -> None:
    content = {"type": "image", "mimeType": "image/png", "data": "iVBO"}
    [output] = Updates().feed({"sessionUpdate": "agent_message_chunk", "content": content})
    assert isinstance(output, ArtifactEmitted)
    assert output.artifact.parts == (Part(raw=b"\x89PN", media_type="image/png"),)
    content["data"] = "!"
    assert list(Updates().feed({"sessionUpdate": "agent_message_chunk", "content": content})) == []


def test_permission_for_ever_is_not_for_callers_to_give() -> None:
    options = [
        {"optionId": "a", "name": "Always", "kind": "allow_always"},
        {"optionId": "n", "name": "Never", "kind": "reject_always"},
    ]
    request = asked({"toolCall": {"title": "rm"}, "options": options})
    assert [option.id for option in request.options] == ["n"]
    assert chosen(request, "a") == {"outcome": {"outcome": "selected", "optionId": "n"}}
    only = asked({"options": options[:1]})
    assert [option.id for option in only.options] == ["a"]
    assert chosen(only, "no") == {"outcome": {"outcome": "cancelled"}}
    assert question(only).parts[1].data == {
        "permission": "use a tool",
        "options": [{"id": "a", "name": "Always", "kind": "allow_always"}],
    }


def test_content_blocks() -> None:
    image = File(name="a.png", media_type="image/png", data=b"x")
    able = {"promptCapabilities": {"image": True, "embeddedContext": True}}
    other = File(name="a b.bin", media_type="application/x", data=b"x")
    made = blocks(Prompt(text="hi", files=(image, other)), able)
    assert [block["type"] for block in made] == ["image", "resource", "text"]
    assert made[1]["resource"]["uri"] == "attachment:///a%20b.bin"
    with pytest.raises(CannotTell):
        blocks(Prompt(text="hi", files=(image,)), {"promptCapabilities": {}})


def test_sentences() -> None:
    assert exited(2) == "The agent's program failed with exit code 2."
    assert "SIGTERM" in exited(-15)
    assert "signal 99" in exited(-99)
    assert "16 MiB" in flooded(16 * 1024 * 1024)
    assert "100 bytes" in flooded(100)

"""`trunkline tool`: what it prints, how it ends, and work that is picked up by later processes."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import ALICE_KEY, Make
from tests.acceptance.gateway import Gateway, held
from tests.acceptance.remote import free_port
from tests.acceptance.tool_command import ToolCommand, finish, says


@pytest.fixture
def tool(shared: Gateway, tmp_path: Path) -> ToolCommand:
    return ToolCommand(tmp_path, shared.url)


def test_the_result_is_one_line(tool: ToolCommand) -> None:
    done = tool.run(says("say all is well"))
    assert (done.code, done.stderr) == (0, "")
    [envelope] = done.envelopes
    assert envelope["summary"]["message_text"] == "all is well"
    assert envelope["summary"]["target_alias"] == "peer"


def test_updates_come_first_and_the_result_last(tool: ToolCommand) -> None:
    request = says("stream 3", follow_updates=True)
    done = tool.run(request, stdin=True)
    assert [each.get("phase") for each in done.envelopes[:-1]] == ["update"] * 6
    assert "phase" not in done.result
    assert done.result["summary"]["message_text"] == "1 2 3 "
    assert done.result["raw"]["events"] == [each["raw"] for each in done.envelopes[:-1]]
    assert len(tool.run(request, "--quiet").envelopes) == 1


@pytest.mark.parametrize(
    ("request_", "code", "expected"),
    [
        ({"action": "fly"}, 2, "VALIDATION_ERROR"),
        ([], 2, "VALIDATION_ERROR"),
        (says("x", target_alias="nobody"), 2, "VALIDATION_ERROR"),
        ({"action": "status", "task_handle": "rah_nobody"}, 1, "UNKNOWN_TASK_HANDLE"),
        ({"action": "status", "task_id": "nobody"}, 1, "A2A_SDK_ERROR"),
        (says("say x", target_tags=["x"]), 1, "TARGET_RESOLUTION_ERROR"),
    ],
)
def test_a_failure_is_an_envelope_and_an_exit_code(
    tool: ToolCommand, request_: Any, code: int, expected: str
) -> None:
    done = tool.run(request_)
    assert done.code == code
    assert done.result["ok"] is False
    assert done.result["error"]["code"] == expected
    assert "Traceback" not in done.stderr


def test_credentials_go_to_the_target_and_nowhere_else(locked: Gateway, tmp_path: Path) -> None:
    credentials = f'credentials = {{ kind = "bearer", token = "{ALICE_KEY}" }}'
    done = ToolCommand(tmp_path, locked.url, target=credentials).run(says("say hi"))
    assert done.result["ok"]
    wrong = credentials.replace(ALICE_KEY, "wrong-key-of-somebody")
    refused = ToolCommand(tmp_path, locked.url, target=wrong).run(says("say hi"))
    assert refused.code == 1
    for secret in (ALICE_KEY, "wrong-key-of-somebody"):
        for each in (done, refused):
            assert secret not in json.dumps(each.envelopes) + each.stderr


def test_an_openclaw_file_is_enough(shared: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    target = {"alias": "lane", "baseUrl": shared.url, "default": True}
    entry = {"config": {"enabled": True, "targets": [target]}}
    file.write_text(json.dumps({"plugins": {"entries": {"openclaw-a2a-outbound": entry}}}))
    tool = ToolCommand(tmp_path, "http://127.0.0.1:9")
    tool.config.write_text('[store]\npath = "data/trunkline.db"\n')
    done = tool.run(says("say hi"), "--openclaw-config", str(file))
    assert done.result["summary"]["target_alias"] == "lane", done.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_calls_the_request_off_and_the_remote_task_too(
    tool: ToolCommand, sent: signal.Signals
) -> None:
    process = tool.start(says("hang", follow_updates=True, cancel_on_abort=True))
    assert process.stdout is not None
    first = (process.stdout.readline(), process.stdout.readline())
    process.send_signal(sent)
    done = finish(process, first)
    assert done.code == 130
    error = done.result["error"]
    assert error["details"]["reason"] == "ABORTED"
    assert error["details"]["remote_task_canceled"] is True
    continuation = error["details"]["continuation"]
    later = tool.run({"action": "status", "continuation": continuation})
    assert later.status == "canceled"


def test_who_reads_no_further_is_not_waited_for(tool: ToolCommand) -> None:
    process = tool.start(says("delay 0.2; stream 500 0.01; hang", follow_updates=True))
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == ""
    assert process.wait(30) == 141


# The whole story: work is begun, and picked up again by processes that know nothing of it but
# what was saved.


def test_a_question_is_answered_by_a_later_process(tool: ToolCommand) -> None:
    asked = tool.run(says("ask Which colour?"))
    assert (asked.code, asked.status) == (0, "input-required")
    assert asked.result["summary"]["message_text"] == "Which colour?"
    saved = tool.folder / "saved.json"
    saved.write_text(json.dumps(asked.continuation))

    done = tool.run(says("say blue", continuation=json.loads(saved.read_text())))
    assert (done.code, done.status) == (0, "completed")
    assert "blue" in done.result["summary"]["message_text"]
    for name in ("task_id", "task_handle"):
        assert done.continuation["task"][name] == asked.continuation["task"][name]


def test_a_process_that_is_killed_while_it_follows_loses_nothing(tool: ToolCommand) -> None:
    process = tool.start(says("delay 0.5; ask Go on?", follow_updates=True))
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    process.kill()
    process.communicate()
    saved = first["summary"]["continuation"]
    watched = tool.run({"action": "watch", "continuation": saved})
    assert (watched.code, watched.status) == (0, "input-required")
    done = tool.run(says("say yes", continuation=watched.continuation))
    assert (done.code, done.status) == (0, "completed")


def test_a_handle_alone_leads_back_to_its_task(tool: ToolCommand) -> None:
    asked = tool.run(says("ask Which colour?"))
    handle = asked.continuation["task"]["task_handle"]
    assert tool.run({"action": "status", "task_handle": handle}).status == "input-required"
    assert tool.run({"action": "cancel", "task_handle": handle}).status == "canceled"


def test_handles_that_must_not_outlive_the_process_do_not(shared: Gateway, tmp_path: Path) -> None:
    tool = ToolCommand(tmp_path, shared.url, remote="durable_handles = false")
    asked = tool.run(says("ask Which colour?"))
    handle = asked.continuation["task"]["task_handle"]
    gone = tool.run({"action": "status", "task_handle": handle})
    assert gone.result["error"]["code"] == "UNKNOWN_TASK_HANDLE"
    assert gone.result["error"]["details"]["restartInvalidatesHandles"] is True
    # The continuation says enough without it, and gets a new one.
    again = tool.run({"action": "status", "continuation": asked.continuation})
    assert again.status == "input-required"
    assert again.continuation["task"]["task_handle"] != handle


def test_an_expired_handle_says_how_to_go_on_and_that_works(
    shared: Gateway, tmp_path: Path
) -> None:
    tool = ToolCommand(tmp_path, shared.url, remote="handle_ttl_s = 0.001")
    asked = tool.run(says("ask Which colour?"))
    handle = asked.continuation["task"]["task_handle"]
    gone = tool.run({"action": "status", "task_handle": handle})
    assert (gone.code, gone.result["error"]["code"]) == (1, "EXPIRED_TASK_HANDLE")
    saved = gone.result["error"]["details"]["continuation"]
    done = tool.run(says("say blue", continuation=saved))
    assert (done.code, done.status) == (0, "completed")
    assert done.continuation["task"]["task_handle"] != handle


def test_a_continuation_leads_nowhere_that_is_not_configured(
    tool: ToolCommand, shared: Gateway, tmp_path: Path
) -> None:
    asked = tool.run(says("ask Which colour?"))
    (tmp_path / "other").mkdir()
    other = ToolCommand(tmp_path / "other", "http://127.0.0.1:9")
    refused = other.run(says("say blue", continuation=asked.continuation))
    assert refused.result["error"]["details"]["reason"] == "raw_url_disallowed_by_policy"
    allowed = other.run(says("say blue", continuation=asked.continuation), "--allow-target-url")
    assert allowed.status == "completed"


def test_a_watch_goes_on_over_a_restart_of_the_peer(make: Make, tmp_path: Path) -> None:
    peer = make()
    port = str(free_port())
    peer.start("--port", port)
    tool = ToolCommand(tmp_path, peer.url)
    started = tool.run(says("hang", task_requirement="required"))
    process = tool.start({"action": "watch", "continuation": started.continuation})
    assert process.stdout is not None
    first = process.stdout.readline()
    peer.kill()
    with held(process):
        peer.start("--port", port)
    done = finish(process, (first,))
    # What ran when the peer went down is failed by it, with the reason.
    assert (done.code, done.status) == (0, "failed")
    assert "restart" in done.result["summary"]["message_text"]


def test_a_question_outlives_a_restart_of_the_peer(make: Make, tmp_path: Path) -> None:
    peer = make()
    port = str(free_port())
    peer.start("--port", port)
    tool = ToolCommand(tmp_path, peer.url)
    asked = tool.run(says("ask Which colour?"))
    peer.kill()
    unreachable = tool.run(says("say blue", continuation=asked.continuation))
    assert (unreachable.code, unreachable.result["error"]["code"]) == (1, "A2A_SDK_ERROR")
    peer.start("--port", port)
    done = tool.run(says("say blue", continuation=asked.continuation))
    assert (done.code, done.status) == (0, "completed")

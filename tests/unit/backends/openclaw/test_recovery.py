"""What became of a run, told by what OpenClaw says about it."""

from typing import Any

from msgspec.structs import replace

from trunkline.backends.openclaw.recovery import REMEMBERED_S, Action, Seen, Verdict, judge

SEEN = Seen(run_id="r1", message="hello", same_boot=True, attributes=True, unseen_s=1.0)
RESTARTED = replace(SEEN, same_boot=False)
OLD = replace(SEEN, attributes=False)
UNKNOWN: dict[str, Any] = {"status": "timeout"}


def user(run_id: str, text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, "idempotencyKey": f"{run_id}:user", **more}


def answer(run_id: str, text: str, reason: str = "stop") -> dict[str, Any]:
    own = {"runId": run_id}
    content = [{"type": "text", "text": text}]
    return {"role": "assistant", "content": content, "stopReason": reason, "__openclaw": own}


def history(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


RECOVERY = {"provenance": {"kind": "internal_system"}}


def test_a_run_in_flight_is_followed() -> None:
    flying = history(inFlightRun={"runId": "r1", "text": "so far"})
    assert judge(SEEN, flying, UNKNOWN) == Verdict(Action.FOLLOW, "so far")


def test_the_end_that_agent_wait_tells() -> None:
    done = {"status": "ok", "terminalReply": {"text": "bye"}}
    assert judge(SEEN, {}, done) == Verdict(Action.FINISH, "bye")
    failed = {"status": "error", "error": "overloaded"}
    assert judge(SEEN, {}, failed) == Verdict(Action.FAIL, "overloaded")
    aborted = {"status": "error", "stopReason": "rpc"}
    assert judge(SEEN, {}, aborted) == Verdict(Action.STOPPED)


def test_an_older_release_has_the_answer_at_the_end_of_its_history() -> None:
    content = [{"type": "text", "text": "hello"}]
    told = history({"role": "user", "content": content}, {"role": "assistant", "content": "bye"})
    assert judge(OLD, told, {"status": "ok"}) == Verdict(Action.FINISH, "bye")


def test_the_answer_to_somebody_else_is_not_ours() -> None:
    told = history({"role": "user", "content": "other"}, {"role": "assistant", "content": "bye"})
    assert judge(OLD, told, {"status": "ok"}) == Verdict(Action.FINISH, "")


def test_one_that_openclaw_still_knows_by_its_id_is_sent_again() -> None:
    assert judge(SEEN, {}, UNKNOWN).action is Action.SEND
    assert judge(OLD, {}, UNKNOWN).action is Action.SEND


def test_an_id_that_openclaw_may_have_forgotten_is_not_sent_again() -> None:
    late = replace(OLD, unseen_s=REMEMBERED_S + 1)
    assert judge(late, {}, UNKNOWN).action is Action.GIVE_UP
    begun = replace(SEEN, unseen_s=REMEMBERED_S + 1)
    assert judge(begun, history(user("r1")), UNKNOWN).action is Action.GIVE_UP
    busy = history(user("r1"), sessionInfo={"hasActiveRun": True})
    assert judge(begun, busy, UNKNOWN).action is Action.FOLLOW
    assert judge(begun, history(), UNKNOWN).action is Action.SEND


def test_a_restarted_openclaw_that_names_no_runs_is_not_asked_twice() -> None:
    assert judge(replace(OLD, same_boot=False), {}, UNKNOWN).action is Action.GIVE_UP


def test_what_never_began_before_the_restart_is_sent() -> None:
    waiting = history(user("r0"), pendingInputs={"items": [{"runId": "r1"}]})
    assert judge(RESTARTED, waiting, UNKNOWN).action is Action.SEND


def test_what_was_done_before_the_restart_is_told() -> None:
    told = history(user("r1"), answer("r1", "bye"), user("r2"), answer("r2", "later"))
    assert judge(RESTARTED, told, UNKNOWN) == Verdict(Action.FINISH, "bye")


def test_what_the_restart_interrupted_goes_on_under_another_id() -> None:
    assert judge(RESTARTED, history(user("r1")), UNKNOWN) == Verdict(Action.ADOPT)
    flying = {"runId": "x9", "text": "again"}
    going_on = history(user("r1"), user("x9", "[System]", **RECOVERY), inFlightRun=flying)
    assert judge(RESTARTED, going_on, UNKNOWN) == Verdict(Action.ADOPT, "again", "x9")
    done = history(user("r1"), user("x9", "[System]", **RECOVERY), answer("x9", "bye"))
    assert judge(RESTARTED, done, UNKNOWN) == Verdict(Action.FINISH, "bye")


def test_an_answer_that_failed_is_none() -> None:
    told = history(user("r1"), answer("r1", "The agent run failed", "error"))
    assert judge(RESTARTED, told, UNKNOWN).action is Action.ADOPT


def test_a_history_that_makes_no_sense() -> None:
    for odd in ({"messages": 7}, {"messages": [7, {"role": 1}], "inFlightRun": "x"}):
        assert judge(RESTARTED, odd, UNKNOWN).action is Action.SEND

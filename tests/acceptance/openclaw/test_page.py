"""docs/guides/backends/openclaw.md does what it says; so do the doctor and the other surface."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.acceptance.gateway import SOURCE, gateway
from tests.acceptance.openclaw.claws import TOKEN, Claw
from tests.acceptance.openclaw.conftest import a_turn, outputs_of

from trunkline.backends.kind import Resources
from trunkline.backends.openclaw.backend import make
from trunkline.backends.openclaw.completions import OpenClawHttpBackend
from trunkline.backends.openclaw.doctor import check
from trunkline.backends.openclaw.settings import OpenClawBackend
from trunkline.clock import SystemClock
from trunkline.config.secret import Secret
from trunkline.model.outputs import Failed, Final, Text
from trunkline.ports.backend import Backend
from trunkline.settings import load
from trunkline.testing import answer_text

RESOURCES = Resources(clock=SystemClock(), data_dir=Path())
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "openclaw"
PAGE = (ROOT / "docs" / "guides" / "backends" / "openclaw.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(kind: str) -> str:
    return str(next(body for found, body in BLOCKS if found == kind))


def settings(claw: Claw, **keys: object) -> OpenClawBackend:
    given = {"url": claw.url, "token": Secret(TOKEN), "agent_id": "guest"} | keys
    return OpenClawBackend(**given)  # type: ignore[arg-type]


def test_the_configuration_is_that_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    assert block("toml").strip() in (EXAMPLE / "trunkline.toml").read_text()
    monkeypatch.setenv("OPENCLAW_TOKEN", TOKEN)
    loaded = load(str(EXAMPLE / "trunkline.toml"))
    assert isinstance(loaded.agents["home/claw"].backend, OpenClawBackend)


async def test_the_example_prints_what_is_shown(claw: Claw, tmp_path: Path) -> None:
    with gateway(tmp_path, (EXAMPLE / "trunkline.toml").read_text()) as ours:
        ours.environment = {"OPENCLAW_URL": claw.url, "OPENCLAW_TOKEN": TOKEN}
        await asyncio.to_thread(ours.start, "--data", str(tmp_path / "data"))
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLE / "ask.py"), ours.url),
            stdout=asyncio.subprocess.PIPE,
            env={"PYTHONPATH": str(SOURCE)},
        )
        out, _ = await asking.communicate()
        assert out.decode() == block("text")
        assert TOKEN not in ours.stderr + ours.stdout


async def test_the_doctor(claw: Claw) -> None:
    async def levels(**keys: object) -> list[str]:
        found = await check(settings(claw, **keys), RESOURCES)
        assert not any(TOKEN in f"{one.what} {one.remedy}" for one in found)
        return [one.level for one in found]

    assert await levels() == ["ok", "ok", "ok"]
    assert await levels(agent_id="main") == ["ok", "ok", "warning"]
    assert await levels(agent_id="nobody") == ["ok", "error"]
    assert await levels(surface="http") == ["ok", "ok", "warning"]
    assert await levels(surface="http", agent_id="nobody") == ["ok", "error"]
    assert await levels(surface="http", token=Secret("wrong")) == ["error"]


@pytest.fixture
async def over_http(claw: Claw) -> AsyncIterator[Backend]:
    made = make(settings(claw, surface="http"), RESOURCES)
    yield made
    await made.close()


async def test_http_answers_streams_and_goes_on(over_http: Backend) -> None:
    turn = a_turn("SLOW 6 100")
    outputs = await outputs_of(over_http, turn)
    assert answer_text(outputs) == "w0 w1 w2 w3 w4 w5"
    assert len([output for output in outputs if isinstance(output, Text)]) >= 3
    assert isinstance(outputs[-1], Final)
    again = await outputs_of(over_http, a_turn("again", context_id=turn.context_id))
    assert answer_text(again) == "again"


async def test_http_cancel_frees_the_session(over_http: Backend, claw: Claw) -> None:
    turn = a_turn("SLOW 600 100")
    outputs = over_http.start(turn)
    assert isinstance(await anext(outputs), Text)
    await over_http.cancel(turn.run_id)
    assert [output async for output in outputs] == []
    async with asyncio.timeout(claw.slow_s):
        after = await outputs_of(over_http, a_turn("free", context_id=turn.context_id))
    # The real one tells its model of the message that was cut short, too.
    assert answer_text(after).endswith("free")


async def test_http_cancel_of_a_run_that_waits(over_http: Backend, claw: Claw) -> None:
    first = a_turn("SLOW 30 100")
    doomed = a_turn("never", context_id=first.context_id)
    running = over_http.start(first)
    head = await anext(running)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(outputs_of(over_http, doomed))
        await asyncio.sleep(0.5)
        async with asyncio.timeout(2):
            await over_http.cancel(doomed.run_id)
            assert await waiting == []
    assert answer_text([head, *[output async for output in running]]).endswith("w29")


async def test_http_stops_who_says_too_much(over_http: Backend, claw: Claw) -> None:
    given = settings(claw, surface="http", max_output_bytes=20)
    backend = make(given, RESOURCES)
    turn = a_turn("SLOW 600 100")
    outputs = await outputs_of(backend, turn)
    assert isinstance(outputs[-1], Failed)
    assert outputs[-1].reason.startswith("The agent said more than the 20 bytes")
    await backend.close()
    async with asyncio.timeout(claw.slow_s):
        after = await outputs_of(over_http, a_turn("free", context_id=turn.context_id))
    # The real one tells its model of the message that was cut short, too.
    assert answer_text(after).endswith("free")


async def test_trap_4_http_runs_no_agent_that_is_not_configured(
    claw: Claw, caplog: pytest.LogCaptureFixture
) -> None:
    backend = make(settings(claw, surface="http", agent_id="nobody"), RESOURCES)
    [failed] = await outputs_of(backend, a_turn('TOOL exec {"command": "echo hi"}'))
    assert failed == Failed("The agent is not set up correctly; its operator has to correct that.")
    assert "OpenClaw has no agent 'nobody'; it has default, guest, helper, main" in caplog.text
    await backend.close()


async def test_trap_5_http_says_at_the_start_that_tools_do_not_show(
    claw: Claw, caplog: pytest.LogCaptureFixture
) -> None:
    backend = make(settings(claw, surface="http"), RESOURCES)
    assert isinstance(backend, OpenClawHttpBackend)
    await backend._look("acme/claw")
    await backend.close()
    assert "it does not show whether callers can use tools of OpenClaw's machine" in caplog.text


async def test_http_failures(over_http: Backend, claw: Claw) -> None:
    [failed] = await outputs_of(over_http, a_turn("FAIL 400"))
    assert isinstance(failed, Failed)
    wrong = make(settings(claw, surface="http", token=Secret("no")), RESOURCES)
    [failed] = await outputs_of(wrong, a_turn("hello"))
    assert failed == Failed("The agent is not set up correctly; its operator has to correct that.")
    await wrong.close()
    gone = make(settings(claw, surface="http", url="http://127.0.0.1:9"), RESOURCES)
    [failed] = await outputs_of(gone, a_turn("hello"))
    told = "The agent cannot be reached now; send the message again later."
    assert failed == Failed(told, is_unreachable=True)
    await gone.close()

"""`trunkline reload` and SIGHUP, on a process and as its operator sees them."""

import asyncio
import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.command import Ended, Shell
from tests.acceptance.conftest import Make, eventually
from tests.acceptance.gateway import Gateway, http_client
from tests.acceptance.raw import envelope, message_params, send

AGENT = """
[agents."test/{slug}"]
name = "{name}"
backend = {{ kind = "scripted" }}
"""


def agents(**names: str) -> str:
    return "".join(AGENT.format(slug=slug, name=name) for slug, name in names.items())


def rewrite(gateway: Gateway, config: str) -> None:
    (gateway.folder / "trunkline.toml").write_text(config)


def reload(gateway: Gateway, *options: str) -> Ended:
    folder = gateway.folder
    return Shell(folder).run("reload", "--data", str(folder / "data"), *options)


async def status(gateway: Gateway, slug: str) -> int:
    async with http_client() as http:
        url = f"{gateway.agent_url(f'test/{slug}')}/agent-card.json"
        return (await http.get(url)).status_code


async def test_a_reload_says_what_it_did_and_what_needs_a_restart(make: Make) -> None:
    gateway = make(agents=agents(a="A", b="B")).start()
    rewrite(
        gateway, agents(a="Newer", c="C") + "[store]\nsynchronous = 'normal'\n[server]\nhost='::1'"
    )
    done = reload(gateway)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "Published test/c\n"
        "Replaced  test/a; running turns finish as they began\n"
        "Withdrawn test/b; running turns have 10 s to finish\n"
        "Restart the gateway to apply server.host, store.synchronous.\n"
    )
    assert [await status(gateway, slug) for slug in "abc"] == [200, 404, 200]
    rewrite(gateway, agents(a="Newer", c="C"))
    shown = json.loads(reload(gateway, "-o", "json").out)
    assert (shown["published"], shown["needsRestart"]) == ([], [])
    # A file with a problem changes nothing, and is refused as by `config check`.
    rewrite(gateway, agents(a="A") + "[server]\nprot = 1\n[auth]\nanonymous = 'perhaps'\n")
    done, checked = reload(gateway), Shell(gateway.folder).run("config", "check", "trunkline.toml")
    assert (done.code, checked.code, done.out) == (2, 2, "")
    assert "server.prot: unknown key" in done.err
    # The gateway names the file as it was started with.
    assert done.err.replace(f"{gateway.folder}/", "") == checked.err
    assert [await status(gateway, slug) for slug in "abc"] == [200, 404, 200]
    assert gateway.stop() == 0


async def test_sighup_does_the_same_and_logs_it_and_turns_end_by_the_grace(make: Make) -> None:
    gateway = make(agents=agents(a="A", b="B")).start()
    sending = asyncio.create_task(send(gateway, "hang", agent="test/b"))
    await eventually(lambda: _runs_one(gateway))
    rewrite(gateway, agents(a="A", c="C") + "[server]\nlog_level = 'debug'\ndrain_s = 0.2\n")
    gateway.process.send_signal(signal.SIGHUP)
    await eventually(lambda: _logged(gateway, "the configuration is reloaded"))
    [line] = [json.loads(line) for line in gateway.stderr.splitlines() if "is reloaded" in line]
    assert (line["published"], line["withdrawn"]) == (["test/c"], ["test/b"])
    assert line["applied"] == ["server.drain_s", "server.log_level"]
    task = await sending
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "The agent was withdrawn" in task["status"]["message"]["parts"][0]["text"]
    assert [await status(gateway, slug) for slug in "abc"] == [200, 404, 200]
    rewrite(gateway, "nonsense")
    gateway.process.send_signal(signal.SIGHUP)
    await eventually(lambda: _logged(gateway, "the configuration is not reloaded"))
    assert [await status(gateway, slug) for slug in "abc"] == [200, 404, 200]
    assert gateway.stop() == 0


@pytest.mark.full
async def test_a_sighup_while_the_gateway_starts_is_not_lost(make: Make) -> None:
    slow = '[agents."test/slow"]\nbackend = { kind = "python", target = "slow.py" }\n'
    gateway = make(agents=slow)
    (gateway.folder / "slow.py").write_text(
        "import pathlib, time\nfrom trunkline import agent\n"
        "here = pathlib.Path(__file__).parent\n(here / 'begun').touch()\n"
        "while not (here / 'go').exists():\n    time.sleep(0.02)\n"
        "@agent\nasync def slow(turn):\n    return 'done'\n"
    )
    gateway.launch()
    await eventually(lambda: asyncio.to_thread((gateway.folder / "begun").exists))
    rewrite(gateway, slow + agents(a="A"))
    gateway.process.send_signal(signal.SIGHUP)
    (gateway.folder / "go").touch()
    await eventually(lambda: _logged(gateway, "the configuration is reloaded"))
    assert '"published": ["test/a"]' in gateway.stderr
    assert gateway.stop() == 0


def test_without_a_gateway_there_is_nothing_to_reload(make: Make) -> None:
    gateway = make(agents=agents(a="A"))
    done = reload(gateway)
    assert done.code == 15
    assert done.err.startswith("error: there is nothing to reload: no gateway is running on this ")
    assert "--data DIR" in done.err


def test_what_a_killed_gateway_left_is_recognised_and_replaced(make: Make) -> None:
    gateway = make("[server]\nlog_level = 'debug'\n", agents=agents(a="A")).start()
    file = gateway.folder / "data" / "trunkline.db.operator"
    left, pid = file.read_bytes(), gateway.process.pid
    gateway.kill()
    assert file.read_bytes() == left
    done = reload(gateway)
    assert done.code == 15
    assert f"the last one, process {pid}, was killed" in done.err
    gateway.start()
    assert file.read_bytes() != left
    token = json.loads(file.read_bytes())["token"]
    shown = reload(gateway, "--debug")
    assert shown.code == 0
    file.chmod(0o644)
    refused = reload(gateway)
    assert (refused.code, "other users have access to it (mode 0644)" in refused.err) == (1, True)
    process = Path(f"/proc/{gateway.process.pid}")
    seen = [(process / name).read_bytes().decode() for name in ("cmdline", "environ")]
    file.chmod(0o600)
    assert gateway.stop() == 0
    assert not list(file.parent.glob("*operator*"))
    seen += [shown.out, shown.err, refused.err, gateway.stdout, gateway.stderr]
    assert token not in "".join(seen)


@pytest.mark.full
async def test_two_gateways_with_two_data_folders_are_told_apart(make: Make) -> None:
    one, two = make(agents=agents(a="A")).start(), make(agents=agents(a="A")).start()
    for gateway in (one, two):
        rewrite(gateway, agents(a="A", b="B"))
    assert (
        reload(two).out
        == "Published test/b\nMoved     test/a; their cards name the new addresses\n"
    )
    assert await status(one, "b") == 404
    assert await status(two, "b") == 200
    assert (one.stop(), two.stop()) == (0, 0)


async def load(gateway: Gateway, stop: asyncio.Event, method: str) -> int:
    """Requests to an agent that stays, on one connection; the number of answers."""
    count = 0
    async with http_client() as http:
        while not stop.is_set():
            answer = await _asked(gateway, http, method)
            assert "TASK_STATE_COMPLETED" in answer, answer
            count += 1
    return count


async def _asked(gateway: Gateway, http: httpx.AsyncClient, method: str) -> str:
    body: dict[str, Any] = envelope(method, message_params("say hello"))
    headers = {"A2A-Version": "1.0"}
    response = await http.post(gateway.agent_url("test/a"), json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.text


async def reloaded_under_load(gateway: Gateway, *, reloads: int) -> None:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as all_of_them:
        loads = [
            all_of_them.create_task(load(gateway, stop, method))
            for method in ("SendMessage", "SendStreamingMessage")
            for _ in range(2)
        ]
        for n in range(reloads):
            # One comes or goes, one is replaced, one changes its addresses, and one stays.
            rewrite(
                gateway,
                agents(a="A", b=f"B {n}", **({"c": "C"} if n % 2 else {}))
                + ("default = true\n" if n % 3 else ""),
            )
            if n % 2:
                count = gateway.stderr.count("the configuration is reloaded")
                gateway.process.send_signal(signal.SIGHUP)
                await eventually(partial(_counts, gateway, count))
            else:
                assert (await asyncio.to_thread(reload, gateway)).code == 0
        stop.set()
    assert min([task.result() for task in loads]) > 0
    assert "Traceback" not in gateway.stderr


async def _counts(gateway: Gateway, before: int) -> bool:
    return gateway.stderr.count("the configuration is reloaded") > before


async def test_reloads_under_load_fail_no_request_of_others(make: Make) -> None:
    gateway = make(agents=agents(a="A", b="B")).start()
    await reloaded_under_load(gateway, reloads=2)
    assert gateway.stop() == 0


@pytest.mark.full
async def test_many_reloads_under_load_fail_no_request_and_leave_no_memory_behind(
    make: Make,
) -> None:
    gateway = make(agents=agents(a="A", b="B")).start()
    await reloaded_under_load(gateway, reloads=20)
    before = gateway.resident_bytes()
    for n in range(200):
        rewrite(gateway, agents(a="A", b=f"B {n}", **{f"guest-{n}": "C"}))
        count = gateway.stderr.count("the configuration is reloaded")
        gateway.process.send_signal(signal.SIGHUP)
        await eventually(partial(_counts, gateway, count))
    assert gateway.resident_bytes() - before < 8 * 1024 * 1024
    assert gateway.stop() == 0


async def _runs_one(gateway: Gateway) -> bool:
    async with http_client() as http:
        return "trunkline_turns_running 1.0" in (await http.get(f"{gateway.url}/metrics")).text


async def _logged(gateway: Gateway, text: str) -> bool:
    return text in gateway.stderr

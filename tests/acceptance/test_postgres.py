"""Gateways on PostgreSQL as operators have them: processes, commands, a database that is away."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.acceptance.command import Shell
from tests.acceptance.conftest import Make, eventually
from tests.acceptance.gateway import Gateway, http_client
from tests.acceptance.nginx import NGINX, free_port, nginx
from tests.acceptance.raw import Stream, envelope, message_params
from tests.postgres.pgbouncer import HAS_PGBOUNCER, PgBouncer, pgbouncer
from tests.postgres.pooler import TransactionPooler, transaction_pooler
from tests.postgres.server import PostgresServer, embedded_binaries, postgres

ROOT = Path(__file__).parents[2]
PASSWORD = "s3cret-of-the-database"
# Several times what a refusal takes on a quiet machine, and less than the database is waited for.
SOON_S = 8.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """It asks for no password, and so takes any."""
    with postgres(embedded_binaries()) as server:
        yield server


@pytest.fixture
def config(server: PostgresServer) -> str:
    """For gateways that share a database of the test's own."""
    url = server.create_database(lambda _: None).replace("postgres@", f"postgres:{PASSWORD}@")
    return f'[store]\nkind = "postgres"\nurl = "{url}"\n[cluster]\nbeat_s = 0.5\nlease_s = 1.5\n'


async def call(
    gateway: Gateway, method: str, params: dict[str, Any], *, agent: str = ""
) -> httpx.Response:
    url = gateway.agent_url(agent) if agent else gateway.jsonrpc_url
    async with http_client(headers={"A2A-Version": "1.0"}) as http:
        return await http.post(url, json=envelope(method, params))


async def sent(gateway: Gateway, text: str = "say hi") -> str:
    """The id of the task, which has ended."""
    answer = await call(gateway, "SendMessage", message_params(text))
    task = answer.json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    return str(task["id"])


def nodes(gateway: Gateway, shell: Shell) -> list[dict[str, Any]]:
    arguments = ("--config", str(gateway.folder / "trunkline.toml"))
    done = shell.run("nodes", *arguments, "--data", str(gateway.folder / "data"), "-o", "json")
    assert PASSWORD not in done.out + done.err
    found: list[dict[str, Any]] = json.loads(done.out)["nodes"]
    return found


async def test_two_gateways_share_a_database(config: str, make: Make, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    one, two = make(config), make(config)
    one.launch()
    two.start()
    one.finish_start()
    task_id = await sent(one)
    answer = await call(two, "GetTask", {"id": task_id})
    assert answer.json()["result"]["status"]["state"] == "TASK_STATE_COMPLETED"
    here = {each["pid"]: each["isHere"] for each in nodes(one, shell)}
    assert here == {one.process.pid: True, two.process.pid: False}
    for gateway in (one, two):
        arguments = ("--config", str(gateway.folder / "trunkline.toml"))
        done = shell.run("reload", *arguments, "--data", str(gateway.folder / "data"))
        assert (done.code, done.out) == (0, "Nothing has changed.\n")
    async with http_client() as http:
        figures = (await http.get(f"{one.url}/metrics")).text
    for name in ("lanes_owned", "store_batches_total", "notices_sent_total"):
        assert f"\ntrunkline_{name} " in figures
    # A gateway that stops says so; no other waits for its lease.
    assert one.stop() == 0
    alive = {each["pid"] for each in nodes(two, shell) if each["isAlive"]}
    assert alive == {two.process.pid}
    assert await sent(two)
    for gateway in (one, two):
        assert PASSWORD not in gateway.stdout + gateway.stderr


async def test_a_gateway_that_stops_hands_its_queue_over(
    config: str, make: Make, tmp_path: Path
) -> None:
    # Nobody would take over before the end of the test if it had to wait for the lease.
    patience = config.replace("lease_s = 1.5", "lease_s = 600")
    one, two = [make(f"[server]\ndrain_s = 0.0\n{patience}") for _ in range(2)]
    one.launch()
    two.start()
    one.finish_start()
    (tmp_path / "exists").touch()
    tasks = []
    for name in ("missing", "exists"):
        params = message_params(str(tmp_path / name), contextId="c") | {
            "configuration": {"returnImmediately": True}
        }
        answer = await call(one, "SendMessage", params, agent="test/patient")
        tasks.append(answer.json()["result"]["task"]["id"])

    async def state(number: int) -> str:
        answer = await call(two, "GetTask", {"id": tasks[number]}, agent="test/patient")
        return str(answer.json()["result"]["status"]["state"])

    # The second one waits behind the first.
    assert await state(1) == "TASK_STATE_SUBMITTED"
    assert one.stop() == 0
    # The first one had begun, and ends with a reason. The second one has not.
    assert await state(0) == "TASK_STATE_FAILED"

    async def has_run() -> bool:
        return await state(1) == "TASK_STATE_COMPLETED"

    await eventually(has_run)


async def test_a_database_that_is_away_is_told(
    server: PostgresServer, config: str, make: Make
) -> None:
    gateway = make(config).start()
    task_id = await sent(gateway)
    server.kill()
    await assert_unavailable(gateway, task_id)
    server.start()
    await eventually(lambda: is_ready(gateway))
    assert (await call(gateway, "GetTask", {"id": task_id})).status_code == 200
    assert await sent(gateway)


@pytest.mark.full
async def test_a_database_that_hangs_is_told(
    server: PostgresServer, config: str, make: Make
) -> None:
    gateway = make(config).start()
    task_id = await sent(gateway)
    server.signal_backends(SIGSTOP)
    try:
        await assert_unavailable(gateway, task_id)
    finally:
        server.signal_backends(SIGCONT)
    await eventually(lambda: is_ready(gateway))
    assert await sent(gateway)


async def assert_unavailable(gateway: Gateway, task_id: str) -> None:
    """Every request gets an answer, long before a client would give up."""
    requests: dict[str, dict[str, Any]] = {
        "SendMessage": message_params("say hi"),
        "GetTask": {"id": task_id},
        "ListTasks": {},
        "CancelTask": {"id": task_id},
    }
    for method, params in requests.items():
        async with asyncio.timeout(SOON_S):
            answer = await call(gateway, method, params)
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True), method
        assert "postgres" not in answer.text
    async with http_client() as http:
        ready = await http.get(f"{gateway.url}/readyz")
        assert ready.status_code == 503
        assert "database" in ready.text
        assert PASSWORD not in ready.text
        assert (await http.get(f"{gateway.url}/healthz")).status_code == 200


async def is_ready(gateway: Gateway) -> bool:
    async with http_client() as http:
        return (await http.get(f"{gateway.url}/readyz")).status_code == 200


@pytest.mark.full
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light")
async def test_the_example_for_nginx_spreads_requests(
    config: str, make: Make, tmp_path: Path
) -> None:
    port, ports = free_port(), (free_port(), free_port())
    public = f'[server]\nport = 0\npublic_url = "http://127.0.0.1:{port}"\n[auth]\n'
    keys = '[auth.keys.alice]\nkey = "alice-has-this-key"\n'
    gateways = [make(f"{public}{keys}{config}") for _ in ports]
    for gateway, own in zip(gateways, ports, strict=True):
        gateway.launch("--port", str(own))
    for gateway in gateways:
        gateway.finish_start()
    block = (ROOT / "docs" / "examples" / "nginx-cluster.conf").read_text()
    for address, own in zip(("10.0.0.11:8642", "10.0.0.12:8642"), ports, strict=True):
        block = block.replace(address, f"127.0.0.1:{own}")
    done = tmp_path / "done"
    headers = {"A2A-Version": "1.0", "Authorization": "Bearer alice-has-this-key"}
    with nginx(tmp_path / "nginx", block, port=port, upstream_port=0):
        async with http_client(headers=headers) as http:
            body = envelope("SendStreamingMessage", message_params(str(done)))
            url = gateways[0].agent_url("test/patient")
            assert str(port) in url
            async with http.stream("POST", url, json=body) as response:
                stream = Stream(response)
                task = (await stream.event()).result["task"]
                # Whichever gateway these meet, they are about the same task.
                for _ in range(4):
                    answer = await http.post(url, json=envelope("GetTask", {"id": task["id"]}))
                    assert answer.json()["result"]["id"] == task["id"]
                done.touch()
                *_, last = await stream.events()
            assert last.result["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            # The other one answers when one is gone.
            gateways[0].kill()
            for _ in range(4):
                answer = await http.post(url, json=envelope("GetTask", {"id": task["id"]}))
                assert answer.status_code == 200


@contextmanager
def a_pooler(
    kind: str, server: PostgresServer, database: str
) -> Iterator[TransactionPooler | PgBouncer]:
    if kind == "pgbouncer":
        with pgbouncer(server.folder) as real:
            yield real
    else:
        with transaction_pooler(server.folder, database) as stand_in:
            yield stand_in


@pytest.mark.parametrize("kind", ["stand-in", pytest.param("pgbouncer", marks=HAS_PGBOUNCER)])
async def test_gateways_work_behind_a_pooler(
    server: PostgresServer, make: Make, tmp_path: Path, kind: str
) -> None:
    """In transaction mode, with the address of the server itself for what needs a session."""
    direct = server.create_database(lambda _: None)
    database = str(conninfo_to_dict(direct)["dbname"])
    with a_pooler(kind, server, database) as pooler:
        store = store_behind(pooler.port, direct)
        refused = make(store.replace("prepared_statements = false\n", ""))
        refused.launch()
        assert refused.wait() == 1
        assert "Set prepared_statements = false in [store]" in refused.stderr
        one, two = [make(store) for _ in range(2)]
        one.launch()
        two.start()
        one.finish_start()
        for gateway in (one, two):
            task_id = await sent(gateway)
            for other in (one, two):
                answer = await call(other, "GetTask", {"id": task_id})
                assert answer.json()["result"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert await streamed(one, two, tmp_path) == "TASK_STATE_COMPLETED"
        assert pooler.transactions > 10
        for gateway in (one, two):
            assert "not hear its own message" not in gateway.stderr
            assert gateway.stop() == 0


@HAS_PGBOUNCER
@pytest.mark.full
async def test_a_pooler_that_was_killed_is_told(server: PostgresServer, make: Make) -> None:
    direct = server.create_database(lambda _: None)
    with pgbouncer(server.folder) as pooler:
        gateway = make(store_behind(pooler.port, direct)).start()
        task_id = await sent(gateway)
        pooler.kill()
        await assert_unavailable(gateway, task_id)
        pooler.start()
        await eventually(lambda: is_ready(gateway))
        assert (await call(gateway, "GetTask", {"id": task_id})).status_code == 200
        assert await sent(gateway)


def store_behind(port: int, direct: str) -> str:
    """As docs/guides/scaling.md says."""
    url = f"postgresql://postgres@127.0.0.1:{port}/{conninfo_to_dict(direct)['dbname']}"
    addresses = f'url = "{url}"\nlisten_url = "{direct}"\n'
    return f'[store]\nkind = "postgres"\n{addresses}prepared_statements = false\n'


async def streamed(here: Gateway, there: Gateway, folder: Path) -> str:
    """The state at the end of a stream that is read at one gateway, of a turn at the other."""
    done = folder / "done"
    params = message_params(str(done)) | {"configuration": {"returnImmediately": True}}
    answer = await call(there, "SendMessage", params, agent="test/patient")
    task_id = answer.json()["result"]["task"]["id"]
    body = envelope("SubscribeToTask", {"id": task_id})
    async with (
        http_client(headers={"A2A-Version": "1.0"}) as http,
        http.stream("POST", here.agent_url("test/patient"), json=body) as response,
    ):
        stream = Stream(response)
        assert (await stream.event()).result["task"]["id"] == task_id
        await asyncio.to_thread(done.touch)
        *_, last = await stream.events()
    return str(last.result["statusUpdate"]["status"]["state"])

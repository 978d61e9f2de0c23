"""Commands of operators, from the file of the credential to the answer."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trunkline.app.operator_client import NotRunning, call_gateway
from trunkline.model.errors import ConfigError, OperatorRefused, Unavailable
from trunkline.server import operator_channel, operator_credential
from trunkline.server.operator_channel import OperatorChannel, OperatorCommands
from trunkline.settings import StoreSettings
from trunkline.settings.stores import operator_path
from trunkline.stores.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> StoreSettings:
    return StoreSettings(path=str(tmp_path / "t.db"))


def file_of(store: StoreSettings) -> Path:
    path = operator_path(store)
    assert path is not None
    return path


@asynccontextmanager
async def gateway(store: StoreSettings) -> AsyncIterator[OperatorCommands]:
    commands = OperatorCommands()
    channel = OperatorChannel(operator_path(store), commands)
    await channel.open()
    try:
        yield commands
    finally:
        await channel.close()


async def call(store: StoreSettings, command: str, **arguments: Any) -> Any:
    return await asyncio.to_thread(call_gateway, store, command, arguments)


async def repeated(arguments: dict[str, Any]) -> Any:
    return arguments


async def raw(store: StoreSettings, data: bytes) -> bytes:
    """The answer to bytes of any kind; empty if the gateway closes the connection."""
    credential = operator_credential.read(file_of(store))
    assert credential is not None
    reader, writer = await asyncio.open_unix_connection(credential.socket)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_gateway_without_a_store_makes_its_data_folder(tmp_path: Path) -> None:
    store = StoreSettings(path=str(tmp_path / "new" / "t.db"))
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        assert await call(store, "repeat", text="hello") == {"text": "hello"}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


async def test_a_command_reaches_the_gateway_and_its_result_comes_back(
    store: StoreSettings,
) -> None:
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        assert await call(store, "repeat", text="hällo", many=[1] * 1000) == {
            "text": "hällo",
            "many": [1] * 1000,
        }


async def test_the_credential_is_private_new_each_time_and_gone_at_the_end(
    store: StoreSettings,
) -> None:
    path, tokens = file_of(store), set()
    for _ in range(2):
        async with gateway(store):
            assert path.stat().st_mode & 0o777 == 0o600
            found = operator_credential.read(path)
            assert found is not None
            assert os.stat(found.socket).st_mode & 0o777 == 0o600
            assert found.pid == os.getpid()
            assert found.token not in repr(found)
            tokens.add(found.token)
        assert sorted(path.parent.iterdir()) == []
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 40


async def test_a_json_file_folder_and_a_long_path_have_theirs_too(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    for store in (
        StoreSettings(kind="json-file", path=str(folder)),
        StoreSettings(path=str(folder / "t.db")),
    ):
        async with gateway(store) as commands:
            commands.add("repeat", repeated)
            assert await call(store, "repeat", a=1) == {"a": 1}
            credential = operator_credential.read(file_of(store))
            assert credential is not None
        assert not Path(credential.socket).parent.exists()
        assert [*folder.iterdir()] == []


async def test_without_a_gateway_there_is_nothing_to_call(store: StoreSettings) -> None:
    with pytest.raises(NotRunning, match="no gateway is running on this store"):
        await call(store, "reload")
    with pytest.raises(OperatorRefused, match="Send its process SIGHUP"):
        await call(StoreSettings(kind="memory"), "reload")


async def test_a_gateway_that_was_killed_is_recognised_and_the_next_one_takes_over(
    store: StoreSettings,
) -> None:
    path = file_of(store)
    left = operator_credential.new_credential(path)
    operator_credential.write(path, left)
    with pytest.raises(NotRunning, match=f"process {left.pid}, was killed"):
        await call(store, "reload")
    # A killed process leaves its socket as well.
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(left.socket)
    with pytest.raises(NotRunning, match="was killed"):
        await call(store, "reload")
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        assert await call(store, "repeat") == {}


async def test_a_process_on_the_store_without_the_file_is_told_apart(store: StoreSettings) -> None:
    held = SqliteStore(Path(store.path), synchronous="normal")
    await held.open()
    try:
        with pytest.raises(OperatorRefused, match=f"process {os.getpid()} uses the store"):
            await call(store, "reload")
    finally:
        await held.close()
    with pytest.raises(NotRunning):
        await call(store, "reload")


async def test_a_lock_that_cannot_be_opened_names_the_remedy(store: StoreSettings) -> None:
    os.mkdir(f"{store.path}.lock")
    with pytest.raises(OperatorRefused, match="cannot be opened: Is a directory"):
        await call(store, "reload")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o602])
async def test_a_file_that_others_can_read_or_write_is_not_trusted(
    store: StoreSettings, mode: int
) -> None:
    path = file_of(store)
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        path.chmod(mode)
        with pytest.raises(
            OperatorRefused, match=f"other users have access to it .mode {mode:04o}"
        ):
            await call(store, "repeat")
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        assert await call(store, "repeat") == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give files away")
async def test_a_file_of_another_user_is_not_trusted(store: StoreSettings) -> None:
    path = file_of(store)
    async with gateway(store):
        os.chown(path, 12345, 12345)
        with pytest.raises(OperatorRefused, match=r"belongs to another user \(uid 12345\)"):
            await call(store, "reload")
        # The superuser may give commands to the gateway of the user who owns the folder.
        os.chown(path.parent, 12345, 12345)
        with pytest.raises(OperatorRefused, match="has no command 'reload'"):
            await call(store, "reload")


async def test_a_link_or_nonsense_in_place_of_the_file_is_refused(
    store: StoreSettings, tmp_path: Path
) -> None:
    path = file_of(store)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OperatorRefused, match="cannot be read"):
        await call(store, "reload")
    path.unlink()
    path.touch(mode=0o600)
    with pytest.raises(OperatorRefused, match="is not the credential of a gateway"):
        await call(store, "reload")
    path.unlink()
    path.mkdir(mode=0o700)
    with pytest.raises(OperatorRefused, match="is not a file"):
        await call(store, "reload")


async def test_another_credential_is_refused_and_never_logged(
    store: StoreSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        real = operator_credential.read(file_of(store))
        assert real is not None
        for token in ("", "wrong", real.token[:-1], "ü" * 43, real.token + "\0"):
            request = {"token": token, "command": "repeat"}
            answer = msgspec.json.decode(await raw(store, msgspec.json.encode(request) + b"\n"))
            assert answer["failure"]["kind"] == "refused"
        assert await call(store, "repeat") == {}
    assert real.token not in caplog.text
    assert "an operator command with another credential was refused" in caplog.text


@pytest.mark.parametrize(
    "data",
    [b"\n", b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"[1]\n", b"\xff\xfe\n", b'{"token": 1}\n'],
)
async def test_nonsense_is_refused_and_the_channel_goes_on(
    store: StoreSettings, data: bytes
) -> None:
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        answer = msgspec.json.decode((await raw(store, data)).splitlines()[0])
        assert answer["failure"]["kind"] == "refused"
        assert await raw(store, b"") == b""
        assert await raw(store, b"no line") == b""
        assert await call(store, "repeat") == {}


async def test_a_request_without_end_is_cut_off(store: StoreSettings) -> None:
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        with suppress(ConnectionError):
            assert b"refused" in await raw(store, b"x" * (operator_channel.MAX_REQUEST_BYTES * 3))
        assert await call(store, "repeat") == {}


async def test_clients_that_keep_still_do_not_keep_others_out_for_ever(
    store: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_channel, "REQUEST_S", 0.05)
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        credential = operator_credential.read(file_of(store))
        assert credential is not None
        opened = [
            await asyncio.open_unix_connection(credential.socket)
            for _ in range(operator_channel.MAX_CLIENTS)
        ]
        for reader, writer in opened:
            assert await reader.read() == b""
            writer.close()
        assert await call(store, "repeat") == {}


# The long request is still being sent when the gateway closes the connection.
@pytest.mark.parametrize("size", [1, 1_000_000])
async def test_one_client_too_many_is_told_so(store: StoreSettings, size: int) -> None:
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        credential = operator_credential.read(file_of(store))
        assert credential is not None
        opened = [
            await asyncio.open_unix_connection(credential.socket)
            for _ in range(operator_channel.MAX_CLIENTS)
        ]
        for _ in range(20):
            with pytest.raises(OperatorRefused, match=r"already has 16 clients .* within 10 s"):
                await call(store, "repeat", text="x" * size)
        reader, writer = opened[0]
        writer.write_eof()
        assert await reader.read() == b""
        assert await call(store, "repeat", text="x") == {"text": "x"}
        for _, writer in opened:
            writer.close()


async def test_errors_of_a_command_come_back_by_their_kind(
    store: StoreSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(arguments: dict[str, Any]) -> None:
        raise {
            "configuration": ConfigError("server.port: wrong."),
            "busy": Unavailable("later.", retry_after_s=1),
            "bug": RuntimeError("a secret detail"),
        }[arguments["how"]]

    async with gateway(store) as commands:
        commands.add("fail", fail)
        with pytest.raises(ConfigError, match="wrong"):
            await call(store, "fail", how="configuration")
        with pytest.raises(OperatorRefused, match="later"):
            await call(store, "fail", how="busy")
        with pytest.raises(OperatorRefused, match="its log has the details"):
            await call(store, "fail", how="bug")
        with pytest.raises(OperatorRefused, match="has no command 'agent add'"):
            await call(store, "agent add")
    assert "a secret detail" in caplog.text


async def test_a_command_goes_on_when_its_client_leaves(store: StoreSettings) -> None:
    begun, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(_: dict[str, Any]) -> None:
        begun.set()
        await may_end.wait()
        ended.set()

    async with gateway(store) as commands:
        commands.add("work", work)
        credential = operator_credential.read(file_of(store))
        assert credential is not None
        _, writer = await asyncio.open_unix_connection(credential.socket)
        writer.write(msgspec.json.encode({"token": credential.token, "command": "work"}) + b"\n")
        await begun.wait()
        writer.transport.abort()
        may_end.set()
        await asyncio.wait_for(ended.wait(), 10)


async def test_a_gateway_without_a_place_for_the_file_runs_without_commands(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway(StoreSettings(kind="memory")):
        pass
    assert caplog.text == ""
    (tmp_path / "file").touch()
    async with gateway(StoreSettings(path=str(tmp_path / "file" / "t.db"))):
        pass
    assert "operator commands do not reach this gateway" in caplog.text


async def test_a_second_gateway_on_the_folder_leaves_the_first_alone(
    store: StoreSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway(store) as commands:
        commands.add("repeat", repeated)
        async with gateway(store):
            assert "takes the commands of this folder" in str(
                [record.__dict__ for record in caplog.records]
            )
            assert await call(store, "repeat") == {}
        assert await call(store, "repeat") == {}

"""`trunkline login` and `logout` against a gateway in this process, and the files of sessions."""

import asyncio
import json
import socket
import stat
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from tests.hub.sign_in_world import ME, PASSWORD, SignInGateway, csrf_in, sign_in_gateway
from tests.sockets.peer import serving
from typer.testing import CliRunner, Result

from trunkline.cli.commands import app
from trunkline.cli.remote.login import base_of
from trunkline.cli.remote.sessions import Sessions, StoredSession, config_dir
from trunkline.clock import SystemClock
from trunkline.model.errors import ConfigError
from trunkline.server.http import Request, Response
from trunkline.testing import FakeClock

Browse = Callable[[str], object]
DEADLINE_S = 30.0
SESSION = StoredSession(
    url="https://agents.example/hub",
    login="ada",
    token="tl_session_1",
    expires_at="2026-01-31T12:00:00Z",
)


class Shell:
    """A person at a terminal, whose browser does what the test says."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "config" / "trunkline" / "sessions"
        self._monkeypatch = monkeypatch
        self.opened: list[str] = []

    async def run(self, *words: str, browse: Browse | None = None) -> Result:
        """In a thread, because the gateway runs in the event loop of the test."""

        def opened(address: str) -> bool:
            self.opened.append(address)
            if browse is not None:
                browse(address)
            return True

        self._monkeypatch.setattr(webbrowser, "open", opened)
        return await asyncio.to_thread(CliRunner().invoke, app, list(words))

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.exists() else []


def visit(address: str) -> httpx.Response:
    return httpx.get(address, trust_env=False, timeout=DEADLINE_S)


def callback_of(address: str) -> tuple[str, str]:
    query = httpx.URL(address).params
    return query["redirect_uri"], query["state"]


def come_back(address: str, answer: str = "code=x") -> httpx.Response:
    """What a gateway sends the browser to that lets everybody sign in."""
    callback, state = callback_of(address)
    return visit(f"{callback}?{answer}&state={state}")


def sign_in(address: str) -> str:
    """What ada does in a browser. Returns the last page."""
    with httpx.Client(trust_env=False, timeout=DEADLINE_S, follow_redirects=True) as browser:
        page = browser.get(address)
        form = {"csrf": csrf_in(page.text), "login": "ada", "password": PASSWORD}
        origin = f"http://{page.url.netloc.decode()}"
        headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
        return browser.post(page.url.join("sign-in"), data=form, headers=headers).text


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    return Shell(tmp_path, monkeypatch)


@pytest.fixture
async def gateway() -> AsyncIterator[SignInGateway]:
    echo = {"name": "Echo", "backend": {"kind": "echo"}}
    # The client looks at the time of this machine.
    clock = FakeClock(SystemClock().now_ms())
    async with sign_in_gateway(agents={"acme/echo": echo}, clock=clock) as made:
        await made.add("ada", is_admin=True)
        yield made


async def status_of(gateway: SignInGateway, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE_S) as http:
        return (await http.get(gateway.url + ME, headers=headers)).status_code


async def test_login_and_logout(gateway: SignInGateway, shell: Shell) -> None:
    pages: list[str] = []
    done = await shell.run("login", gateway.url, browse=lambda at: pages.append(sign_in(at)))
    assert done.exit_code == 0, done.output
    assert "You are signed in. You can close this window." in pages[0]
    assert done.stdout.startswith(f"Signed in to {gateway.url} as ada, until ")
    # Whoever has no browser here copies the address from the terminal.
    assert shell.opened[0] in done.stderr
    (file,) = shell.files
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    stored = json.loads(file.read_text())
    assert (stored["url"], stored["login"]) == (gateway.url, "ada")
    assert stored["token"] not in done.output
    assert await status_of(gateway, stored["token"]) == 200
    out = await shell.run("logout", gateway.url)
    assert (out.exit_code, out.stdout) == (0, f"Signed out of {gateway.url}.\n"), out.stderr
    assert shell.files == []
    assert await status_of(gateway, stored["token"]) == 401
    again = await shell.run("logout", gateway.url)
    assert (again.exit_code, again.stdout) == (0, f"There is no session for {gateway.url}.\n")


async def test_commands_use_the_session(gateway: SignInGateway, shell: Shell) -> None:
    agent = f"{gateway.url}/api/a2a/v1/agents/acme/echo"
    refused = await shell.run("send", agent, "hello")
    assert (refused.exit_code, refused.stdout) == (10, ""), refused.output
    await shell.run("login", gateway.url, browse=sign_in)
    sent = await shell.run("send", agent, "hello")
    assert (sent.exit_code, sent.stdout) == (0, "hello\n"), sent.stderr
    # A credential that is given comes first.
    for own in (("--token", "x" * 20), ("-H", "X-API-Key: wrong")):
        assert (await shell.run("send", agent, "hello", *own)).exit_code == 10
    (file,) = shell.files
    file.chmod(0o640)
    unsafe = await shell.run("send", agent, "hello")
    assert (unsafe.exit_code, unsafe.stdout) == (2, "")
    assert "other users can read this session" in unsafe.stderr


async def test_a_file_that_others_can_read_is_deleted_at_logout(
    gateway: SignInGateway, shell: Shell
) -> None:
    await shell.run("login", gateway.url, browse=sign_in)
    shell.files[0].chmod(0o644)
    done = await shell.run("logout", gateway.url)
    assert (done.exit_code, done.stdout) == (0, f"There is no session for {gateway.url}.\n")
    assert shell.files == []


async def test_login_waits_for_its_own_state(gateway: SignInGateway, shell: Shell) -> None:
    answers: list[tuple[int, str]] = []

    def browse(address: str) -> None:
        callback, state = callback_of(address)
        assert callback.startswith("http://127.0.0.1:")
        for query in ("", "?code=x", "?code=x&state=forged", "?code=x&state=%C3%A9", "x"):
            answer = visit(callback + query)
            answers.append((answer.status_code, answer.text))
        posted = httpx.post(f"{callback}?code=x&state={state}", trust_env=False)
        answers.append((posted.status_code, posted.text))
        port = httpx.URL(callback).port
        assert port is not None
        # Neither is that a browser.
        for sent in (b"", b"\r\n\r\n", b"x" * 100_000):
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as peer,
            ):
                peer.sendall(sent)
        answers.append((200, sign_in(address)))

    done = await shell.run("login", gateway.url, browse=browse)
    assert done.exit_code == 0, done.output
    assert [status for status, _ in answers] == [400, 400, 400, 400, 404, 404, 200]
    assert "This sign-in was not started by this program." in answers[0][1]
    assert "Nothing is here." in answers[4][1]


async def test_what_the_callback_says_to_the_browser(shell: Shell, gateway: SignInGateway) -> None:
    pages: list[httpx.Response] = []

    def browse(address: str) -> None:
        pages.append(come_back(address, "error=access_denied"))

    done = await shell.run("login", gateway.url, browse=browse)
    assert (done.exit_code, done.stdout) == (10, "")
    assert "the sign-in failed: access_denied." in done.stderr
    (page,) = pages
    assert (page.status_code, page.headers["cache-control"]) == (200, "no-store")
    assert page.headers["content-security-policy"] == "default-src 'none'"
    assert "The sign-in failed." in page.text
    assert shell.files == []


async def test_a_code_that_the_gateway_did_not_give(gateway: SignInGateway, shell: Shell) -> None:
    done = await shell.run("login", gateway.url, browse=come_back)
    assert (done.exit_code, done.stdout) == (10, "")
    assert f"{gateway.url} gives no session (status 400): " in done.stderr
    assert "it gives no reason" not in done.stderr
    assert shell.files == []


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"not JSON", "gives no session that this program understands"),
        (200, b'{"user": {"login": "ada"}}', "gives no session that this program understands"),
        (200, b'{"user": "\xff"}', "gives no session that this program understands"),
        (503, b"", "(status 503): it gives no reason"),
        (503, b"[]", "(status 503): it gives no reason"),
        (400, b'{"error": "x", "error_description": "too\\nlate"}', "(status 400): too late"),
        (403, b'{"error": {"message": "not you"}}', "(status 403): not you"),
    ],
)
async def test_another_answer_than_a_session(
    shell: Shell, status: int, body: bytes, told: str
) -> None:
    async def serve(request: Request, response: Response) -> None:
        await response.answer(status, body)

    async with serving(serve) as server:
        done = await shell.run("login", f":{server.port}", browse=come_back)
    assert (done.exit_code, done.stdout) == (10, ""), done.output
    assert told in done.stderr
    assert shell.files == []


async def test_a_redirect_is_not_followed(shell: Shell) -> None:
    """It could lead the code, and the session with it, elsewhere."""

    async def serve(request: Request, response: Response) -> None:
        await response.answer(307, headers=[(b"location", b"https://other.example/")])

    async with serving(serve) as server:
        done = await shell.run("login", f":{server.port}", browse=come_back)
    assert (done.exit_code, done.stdout) == (9, "")
    assert "redirects (status 307)" in done.stderr
    assert shell.files == []


async def test_nobody_signs_in(shell: Shell) -> None:
    done = await shell.run("login", "http://127.0.0.1:1", "--no-browser", "--timeout", "0.05")
    assert (done.exit_code, done.stdout) == (124, "")
    assert "the sign-in was not completed within 0.05 s" in done.stderr
    assert shell.opened == []


async def test_a_gateway_that_is_gone(shell: Shell) -> None:
    done = await shell.run("login", "http://127.0.0.1:1", browse=come_back)
    assert (done.exit_code, done.stdout) == (9, "")
    assert done.stderr.splitlines()[-1].startswith("error: http://127.0.0.1:1: ")
    Sessions().save(
        StoredSession(
            url="http://127.0.0.1:1", login="ada", token="t", expires_at=SESSION.expires_at
        )
    )
    out = await shell.run("logout", "http://127.0.0.1:1")
    assert (out.exit_code, out.stdout) == (9, "")
    assert f"deleted here, and counts there until {SESSION.expires_at}" in out.stderr
    assert shell.files == []


@pytest.mark.parametrize("command", ["login", "logout"])
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://agents.example", "Use https:// there"),
        ("http://192.0.2.7:8642", "Use https:// there"),
        ("https://agents.example?x=1", "without a query"),
        ("ftp://agents.example", ""),
        ("nonsense", ""),
    ],
)
async def test_only_https_or_this_machine(shell: Shell, command: str, url: str, told: str) -> None:
    done = await shell.run(command, url)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert shell.opened == []


def test_addresses_as_people_type_them() -> None:
    assert base_of(":8642") == "http://127.0.0.1:8642"
    assert base_of("localhost:8642/") == "http://localhost:8642"
    assert base_of("agents.example:443") == "https://agents.example:443"
    assert base_of("https://agents.example/hub/") == "https://agents.example/hub"


def test_a_session_is_stored_and_read(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)
    assert sessions.at(SESSION.url) is None
    assert sessions.all() == []
    path = sessions.save(SESSION)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.name.startswith("agents-example-")
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert sessions.at(SESSION.url) == SESSION
    assert SESSION.token not in repr(SESSION)
    newer = StoredSession(url=SESSION.url, login="bob", token="2", expires_at=SESSION.expires_at)
    assert sessions.save(newer) == path
    assert sessions.all() == [newer]
    sessions.remove(SESSION.url)
    sessions.remove(SESSION.url)
    assert sessions.all() == []


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("https://agents.example/hub", True),
        ("https://agents.example:443/hub/a2a", True),
        ("https://agents.example/hubs", False),
        ("https://agents.example/", False),
        ("http://agents.example/hub", False),
        ("https://agents.example:8443/hub", False),
        ("https://agents.example.evil.example/hub", False),
        ("https://other.example/hub", False),
        ("nonsense", False),
    ],
)
def test_a_session_is_sent_to_its_gateway_alone(tmp_path: Path, url: str, is_sent: bool) -> None:
    sessions = Sessions(tmp_path)
    sessions.save(SESSION)
    found = sessions.for_address(url, now_ms=0)
    assert found == (SESSION if is_sent else None)


def test_the_session_of_the_longest_address_is_sent_while_it_counts(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)
    whole = StoredSession(
        url="https://agents.example", login="a", token="1", expires_at="2026-02-28T12:00:00Z"
    )
    broken = StoredSession(
        url="https://agents.example/hub/a", login="a", token="2", expires_at="tomorrow"
    )
    for each in (whole, SESSION, broken):
        sessions.save(each)
    url = "https://agents.example/hub/a"
    assert sessions.for_address(url, now_ms=0) == SESSION
    january, march = 1_769_900_000_000, 1_772_400_000_000
    assert sessions.for_address(url, now_ms=january) == whole
    assert sessions.for_address(url, now_ms=march) is None


def test_files_that_are_not_sessions(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)
    path = sessions.save(SESSION)
    for content in (b"", b"{}", b"[1]", b'{"url": "\xff"}'):
        path.write_bytes(content)
        assert sessions.at(SESSION.url) is None
    # A link may lead to a file of somebody else.
    elsewhere = path.rename(tmp_path / "elsewhere")
    path.symlink_to(elsewhere)
    assert sessions.all() == []


def test_a_session_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)
    path = sessions.save(SESSION)
    for mode in (0o644, 0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(ConfigError, match="other users can read this session"):
            sessions.at(SESSION.url)
        with pytest.raises(ConfigError):
            sessions.for_address(SESSION.url, now_ms=0)
    # Signing in once more makes the file anew.
    sessions.save(SESSION)
    assert sessions.at(SESSION.url) == SESSION


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file")
    sessions = Sessions(tmp_path)
    with pytest.raises(ConfigError, match="cannot be written"):
        sessions.save(SESSION)
    with pytest.raises(ConfigError, match="cannot be deleted"):
        sessions.remove(SESSION.url)
    assert sessions.all() == []


def test_the_folder_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    given = str(tmp_path / "xdg")
    assert config_dir(environment={"XDG_CONFIG_HOME": given}) == tmp_path / "xdg" / "trunkline"
    home = tmp_path / ".config" / "trunkline"
    assert config_dir(environment={}, platform="linux") == home
    assert config_dir(environment={"XDG_CONFIG_HOME": "relative"}, platform="linux") == home
    mac = tmp_path / "Library" / "Application Support" / "trunkline"
    assert config_dir(environment={}, platform="darwin") == mac
    roaming = {"APPDATA": str(tmp_path / "roaming")}
    assert config_dir(environment=roaming, platform="win32") == tmp_path / "roaming" / "trunkline"
    assert config_dir(environment={}, platform="win32") == tmp_path / "trunkline"

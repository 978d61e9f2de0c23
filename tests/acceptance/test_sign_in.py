"""People who sign in to a real gateway: `trunkline user`, `login` and `logout`, end to end."""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.acceptance.command import Ended, Shell
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway

CONFIG = """
[hub]

[agents."acme/echo"]
name = "Echo"
backend = { kind = "echo" }
"""
PASSWORD = "correct horse"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Gateway]:
    with gateway(tmp_path, CONFIG) as started:
        yield started.start()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    made.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    return made


def user(shell: Shell, *arguments: str, password: str = "") -> Ended:
    data = ["--data", str(shell.folder / "data"), "--config", str(shell.folder / "trunkline.toml")]
    return shell.run("user", *arguments, *data, stdin=password.encode())


def browse(address: str, login: str, password: str = PASSWORD) -> str:
    """What a person does in a browser: the answer of the last page."""
    with httpx.Client(trust_env=False, timeout=DEADLINE_S, follow_redirects=True) as browser:
        page = browser.get(address)
        assert "asks to act for you" in page.text
        found = re.search(r'name="csrf" value="([^"]*)"', page.text)
        assert found is not None
        form = {"csrf": found[1], "login": login, "password": password}
        headers = {"Origin": f"http://{page.url.netloc.decode()}", "Sec-Fetch-Site": "same-origin"}
        return browser.post(page.url.join("sign-in"), data=form, headers=headers).text


def sign_in(shell: Shell, url: str, login: str) -> Ended:
    with shell.started("login", url, "--no-browser") as process:
        assert process.stderr is not None
        process.stderr.readline()
        address = process.stderr.readline().strip()
        assert address.startswith(f"{url}/api/v1/auth/oauth/start?")
        assert "You are signed in." in browse(address, login)
        out, err = process.communicate(timeout=DEADLINE_S)
        return Ended(process.returncode, out, err)


def test_the_first_operator_gets_a_token_once(hub: Gateway) -> None:
    found = re.findall(r"tl_key_[0-9a-f]{40}", hub.stdout)
    assert len(found) == 1
    assert found[0] not in hub.stderr
    headers = {"Authorization": f"Bearer {found[0]}"}
    told = httpx.get(f"{hub.url}/api/v1/auth/me", headers=headers, trust_env=False)
    assert told.json()["roles"] == ["operator"]
    hub.stop()
    hub.start()
    assert "tl_key_" not in hub.stdout
    again = httpx.get(f"{hub.url}/api/v1/auth/me", headers=headers, trust_env=False)
    assert again.status_code == 200


def test_users_with_and_without_a_gateway(hub: Gateway, shell: Shell) -> None:
    added = user(shell, "add", "ada", "--admin", "--name", "Ada", password=PASSWORD + "\n")
    assert (added.code, added.out) == (0, "ada: added\n")
    assert user(shell, "add", "ada", password=PASSWORD).code == 1
    short = user(shell, "add", "bob", password="short")
    assert short.code == 1
    assert "password: has fewer than 10 characters" in short.err
    hub.stop()
    assert user(shell, "add", "bob", password=PASSWORD).out == "bob: added\n"
    assert user(shell, "disable", "bob").out == "bob: disabled\n"
    listed = json.loads(user(shell, "ls", "-o", "json").out)["users"]
    assert [(each["login"], each["is_admin"], each["is_disabled"]) for each in listed] == [
        ("ada", True, False),
        ("bob", False, True),
    ]
    assert "argon2" not in json.dumps(listed)
    hub.start()
    assert user(shell, "rm", "bob").code == 0
    shown = user(shell, "ls").out
    assert "ada" in shown
    assert "bob" not in shown
    assert user(shell, "rm", "bob").code == 1


def test_login_send_and_logout(hub: Gateway, shell: Shell, tmp_path: Path) -> None:
    user(shell, "add", "ada", "--admin", password=PASSWORD)
    agent = hub.agent_url("acme/echo")
    refused = shell.run("send", agent, "hello")
    assert refused.code == 10
    done = sign_in(shell, hub.url, "ada")
    assert done.code == 0, done.err
    assert done.out.startswith(f"Signed in to {hub.url} as ada, until ")
    (file,) = (tmp_path / "config" / "trunkline" / "sessions").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    token = json.loads(file.read_text())["token"]
    assert token not in done.out + done.err
    assert shell.run("send", agent, "hello").out == "hello\n"
    # A credential that is given comes first.
    assert shell.run("send", agent, "hello", "--token", "x" * 20).code == 10
    assert shell.run("send", agent, "hello", "-H", "X-API-Key: wrong").code == 10
    # The password changes: the session ends, everywhere.
    user(shell, "passwd", "ada", password="another password")
    assert shell.run("send", agent, "hello").code == 10
    user(shell, "passwd", "ada", password=PASSWORD)
    assert sign_in(shell, hub.url, "ada").code == 0
    token = json.loads(file.read_text())["token"]
    assert shell.run("logout", hub.url).out == f"Signed out of {hub.url}.\n"
    assert not file.exists()
    headers = {"Authorization": f"Bearer {token}"}
    me = httpx.get(f"{hub.url}/api/v1/auth/me", headers=headers, trust_env=False)
    assert me.status_code == 401
    assert shell.run("send", agent, "hello").code == 10
    assert "There is no session" in shell.run("logout", hub.url).out


def test_a_session_goes_to_no_other_address(hub: Gateway, shell: Shell, tmp_path: Path) -> None:
    """Another gateway on this machine, at another port."""
    user(shell, "add", "ada", password=PASSWORD)
    assert sign_in(shell, hub.url, "ada").code == 0
    other = tmp_path / "other"
    other.mkdir()
    with gateway(other, CONFIG) as second:
        second.start()
        # It would know the session: it has a copy of the store.
        refused = shell.run("send", second.agent_url("acme/echo"), "hello")
        assert refused.code == 10
        assert "--token" in refused.err


def test_a_session_that_others_can_read_is_not_used(
    hub: Gateway, shell: Shell, tmp_path: Path
) -> None:
    user(shell, "add", "ada", "--admin", password=PASSWORD)
    assert sign_in(shell, hub.url, "ada").code == 0
    (file,) = (tmp_path / "config" / "trunkline" / "sessions").iterdir()
    file.chmod(0o644)
    refused = shell.run("send", hub.agent_url("acme/echo"), "hello")
    assert refused.code == 2
    assert "other users can read this session" in refused.err


def test_login_waits_for_its_own_state(hub: Gateway, shell: Shell) -> None:
    user(shell, "add", "ada", password=PASSWORD)
    with shell.started("login", hub.url, "--no-browser") as process:
        assert process.stderr is not None
        process.stderr.readline()
        address = process.stderr.readline().strip()
        callback = dict(httpx.URL(address).params)["redirect_uri"]
        for path in (callback, f"{callback}?code=x&state=forged", f"{callback}x"):
            assert httpx.get(path, trust_env=False).status_code in (400, 404)
        assert "You are signed in." in browse(address, "ada")
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0


def test_login_needs_https_elsewhere(shell: Shell) -> None:
    for url in ("http://agents.example", "ftp://x", "nonsense"):
        refused = shell.run("login", url, "--no-browser")
        assert refused.code == 2, url


def test_login_where_no_gateway_is(shell: Shell) -> None:
    ended = shell.run("login", "http://127.0.0.1:1", "--no-browser", "--timeout", "0.5")
    assert ended.code == 124

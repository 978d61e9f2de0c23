"""A gateway with a hub, and the people who sign in to its page."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway

CONFIG = """
[hub]
owner_backends = ["echo"]

[hub.audit]
keep_questions = true

[relay_server]

[agents."demo/echo"]
name = "Echo"
description = "Says what it hears"
default = true
backend = { kind = "echo" }
"""
PASSWORD = "correct horse battery"
ADMIN, OWNER = "ada", "bob"


class HubServer:
    def __init__(self, running: Gateway) -> None:
        self.running = running
        self.url = running.url
        found = re.search(r"tl_key_[0-9a-f]+", running.stdout)
        assert found is not None, "a new hub prints the token of its first operator"
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {found[0]}"},
            timeout=DEADLINE_S,
            verify=False,
        )

    def close(self) -> None:
        self._client.close()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """A request of an operator, with the JSON of its answer."""
        answer = self._client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def publish(self, slug: str, owner: str = "acme", **values: Any) -> dict[str, Any]:
        body = {"owner": owner, "slug": slug, "backend": {"kind": "echo"}, "status": "published"}
        made: dict[str, Any] = self.call("POST", "/agents", body | values)
        return made

    def new_token(self, name: str, *agents: str) -> str:
        made = self.call("POST", "/tokens", {"name": name, "agents": agents})
        token: str = made["token"]
        return token

    def ask(self, handle: str, text: str, *, token: str, message: str = "") -> httpx.Response:
        """A message, as a program sends it."""
        parts = [{"text": text}]
        sent = {"messageId": message or os.urandom(8).hex(), "role": "ROLE_USER", "parts": parts}
        return httpx.post(
            f"{self.url}/api/a2a/v1/agents/{handle}",
            json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": sent}},
            headers={"Authorization": f"Bearer {token}", "A2A-Version": "1.0"},
            timeout=DEADLINE_S,
        )

    def add_user(self, login: str, *options: str) -> None:
        command = [sys.executable, "-m", "trunkline", "user", "add", login, *options]
        subprocess.run(
            [*command, *self.running.arguments(())],
            input=f"{PASSWORD}\n",
            text=True,
            check=True,
            capture_output=True,
        )


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    folder = tmp_path_factory.mktemp("hub")
    with gateway(folder, CONFIG) as running:
        server = HubServer(running.start())
        server.add_user(ADMIN, "--admin")
        server.add_user(OWNER)
        try:
            yield server
        finally:
            server.close()
        running.check_log()


def sign_in(page: Page, login: str) -> None:
    """By login and password, as people do."""
    page.goto("/api/v1/auth/oauth/start?next=/")
    page.get_by_label("Login").fill(login)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Agents").wait_for()

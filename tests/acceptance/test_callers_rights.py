"""An agent that calls another one of its gateway has the rights of its caller, not its own."""

import httpx
from tests.acceptance.conftest import Make
from tests.acceptance.remote import free_port

KEYS = """\
[auth.keys.operator]
key = "operator-key-0123456789"
[auth.keys.alice]
key = "alice-key-0123456789"
grants = { "acme/bridge" = ["*"], "acme/secret" = ["*"] }
[auth.keys.bob]
key = "bob-key-0123456789"
grants = { "acme/bridge" = ["*"] }
"""
SECRET = '[agents."acme/secret"]\nname = "Secret"\nbackend = { kind = "echo" }\n'


def bridge(port: int) -> str:
    url = f"http://127.0.0.1:{port}/api/a2a/v1/agents/acme/secret"
    return (
        '[agents."acme/bridge"]\nname = "Bridge"\n'
        f'backend = {{ kind = "a2a", url = "{url}", '
        'credentials = { kind = "bearer", token = "operator-key-0123456789" } }\n'
    )


def call(base: str, handle: str, method: str, who: str, **params: object) -> httpx.Response:
    return httpx.post(
        f"{base}/api/a2a/v1/agents/{handle}",
        json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        headers={"A2A-Version": "1.0", "Authorization": f"Bearer {who}-key-0123456789"},
        timeout=60,
    )


def said(base: str, who: str) -> str:
    """The state of the task of a message to the bridge."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    answer = call(base, "acme/bridge", "SendMessage", who, message=message).json()
    return str(answer["result"]["task"]["status"]["state"])


def tasks_of(base: str, who: str) -> int:
    answer = call(base, "acme/secret", "ListTasks", who).json()
    return int(answer["result"]["totalSize"])


def test_an_agent_lends_its_rights_to_no_caller(make: Make) -> None:
    port = free_port()
    gateway = make(f"[hub]\n{KEYS}", agents=SECRET + bridge(port))
    gateway.start("--port", str(port))
    assert said(gateway.url, "alice") == "TASK_STATE_COMPLETED"
    assert said(gateway.url, "bob") == "TASK_STATE_FAILED"
    # The task belongs to the caller, not to the credentials of the bridge.
    assert tasks_of(gateway.url, "alice") == 1
    assert tasks_of(gateway.url, "operator") == 0


def test_an_agent_elsewhere_is_called_with_the_credentials_of_the_bridge(make: Make) -> None:
    other = make(KEYS, agents=SECRET)
    other.start()
    gateway = make(f"[hub]\n{KEYS}", agents=bridge(other.port))
    gateway.start()
    assert said(gateway.url, "bob") == "TASK_STATE_COMPLETED"
    assert tasks_of(other.url, "operator") == 1

from typing import Any

import pytest
from tests.unit.settings.documents import made, only

from trunkline.backends.a2a.settings import A2aBackend
from trunkline.settings import effective
from trunkline.settings.show import to_toml

TOKEN = "a-token-that-nobody-sees"
PATH = 'agents."acme/support".backend'


def agents(**keys: Any) -> dict[str, Any]:
    backend = {"kind": "a2a", "url": "https://support.example.com", **keys}
    return {"acme/support": {"backend": backend}}


def test_a_url_is_all_that_an_upstream_needs() -> None:
    agent = made(agents=agents()).agents["acme/support"]
    assert agent.name == ""
    assert isinstance(agent.backend, A2aBackend)
    assert (agent.backend.on_unreachable, agent.backend.retry_s) == ("fail", 60.0)


@pytest.mark.parametrize(
    ("keys", "place", "what"),
    [
        ({"url": "support.example.com"}, "url", "absolute http or https URL"),
        ({"url": "https://me:pw@support.example.com"}, "url", "without user and password"),
        ({"card_path": "https://x/card.json"}, "card_path", "expected a path"),
        ({"transports": ["GRPC"]}, "transports[0]", "cannot speak"),
        ({"trusted_origins": ["rpc.example"]}, "trusted_origins[0]", "absolute http or https URL"),
        ({"headers": {"Bad Name": "x"}}, 'headers."Bad Name"', "name of a header"),
        ({"credentials": {"kind": "bearer", "token": " "}}, "credentials.token", "is empty"),
        (
            {
                "headers": {"Authorization": "Basic eA=="},
                "credentials": {"kind": "bearer", "token": TOKEN},
            },
            "headers.Authorization",
            "set by the credentials already",
        ),
        ({"timeout_s": 0}, "timeout_s", "expected a number > 0"),
        ({"on_unreachable": "queue"}, "on_unreachable", "retry"),
    ],
)
def test_what_cannot_be_is_named_with_its_remedy(
    keys: dict[str, Any], place: str, what: str
) -> None:
    problem = only(agents=agents(**keys))
    assert place in str(problem)
    assert what in str(problem)


def test_no_secret_is_shown() -> None:
    credentials = {"kind": "api-key", "key": TOKEN}
    settings = made(agents=agents(credentials=credentials, headers={"X-Team": TOKEN}))
    assert TOKEN not in to_toml(effective(settings))
    assert TOKEN not in repr(settings)

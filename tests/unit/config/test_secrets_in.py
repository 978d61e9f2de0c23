from trunkline.config.secret import secrets_in
from trunkline.settings import from_document


def test_every_secret_of_a_configuration_is_found() -> None:
    settings = from_document(
        {
            "auth": {"keys": {"me": {"key": "the-key-of-a-caller"}}},
            "remote": {"headers": {"X-Team": "header-of-all"}},
            "targets": {
                "support": {
                    "base_url": "https://support.example",
                    "headers": {"X-Key": "header-of-one"},
                    "credentials": {"kind": "bearer", "token": "token-of-one"},
                }
            },
            "agents": {
                "acme/model": {
                    "name": "Model",
                    "backend": {
                        "kind": "openai",
                        "base_url": "http://127.0.0.1:1/v1",
                        "model": "m",
                        "api_key": "key-of-a-model",
                    },
                }
            },
        }
    )
    assert set(secrets_in(settings)) == {
        "the-key-of-a-caller",
        "header-of-all",
        "header-of-one",
        "token-of-one",
        "key-of-a-model",
    }

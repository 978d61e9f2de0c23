"""What the routes of OpenClaw's inbound plugin answer where the request is no JSON-RPC."""

import msgspec

CHANNEL = "a2a"


def not_running(account_id: str) -> bytes:
    """With 503."""
    message = "The requested A2A inbound account is not running."
    return _envelope("A2A_ACCOUNT_NOT_RUNNING", message, account_id)


def not_found(account_id: str) -> bytes:
    """With 404."""
    return _envelope(
        "A2A_ROUTE_NOT_FOUND", "No A2A inbound route matched this request.", account_id
    )


def _envelope(code: str, message: str, account_id: str) -> bytes:
    details = {"channel": CHANNEL, "accountId": account_id}
    return msgspec.json.encode({"error": {"code": code, "message": message, "details": details}})

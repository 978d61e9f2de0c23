"""Findings of `trunkline doctor` about the server of a model."""

import asyncio
from typing import Final

from trunkline.backends.json_values import json_value
from trunkline.backends.kind import Resources
from trunkline.backends.openai import failures
from trunkline.backends.openai.failures import ModelFailure
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.backends.openai.wire import error_code
from trunkline.ports.backend import Finding
from trunkline.remote.errors import RemoteError
from trunkline.remote.http import Answer, Guard, HttpClient, build_request
from trunkline.remote.target import Limits

_MAX_BYTES: Final = 4 * 1024 * 1024
_SHOWN: Final = 5


async def check(
    settings: OpenAIBackend, resources: Resources, *, timeout_s: float = 20.0
) -> list[Finding]:
    """Asks for the list of models; costs no tokens."""
    http = HttpClient(Guard.of(settings.base_url))
    try:
        async with asyncio.timeout(timeout_s):
            headers = {"Accept": "application/json", **settings.request_headers()}
            answer = await http.fetch(
                build_request("GET", settings.url("models"), headers),
                Limits(connect_s=settings.connect_s),
                max_bytes=_MAX_BYTES,
            )
    except TimeoutError:
        what = f"{settings.base_url} is there, and says nothing for {timeout_s:g} s"
        return [Finding("error", what, "Look into the log of the model's server.")]
    except RemoteError as error:
        return [_error(settings, failures.of_remote(error, has_begun=False))]
    finally:
        await http.close()
    return found(settings, answer)


def found(settings: OpenAIBackend, answer: Answer) -> list[Finding]:
    """The findings from the answer to `GET /models`."""
    if answer.status in (404, 405, 501):
        remedy = "Run `trunkline agent try` to see whether it answers."
        if not settings.base_url.rstrip("/").endswith("/v1"):
            remedy = f"Check base_url: it usually ends with /v1. {remedy}"
        return [
            Finding("ok", f"{settings.base_url} answers"),
            Finding(
                "warning",
                "it has no list of models, so the model was not checked",
                remedy,
            ),
        ]
    if not 200 <= answer.status < 300:
        failure = failures.of_status(answer.status, *error_code(answer.body))
        return [_error(settings, failure)]
    names = _names(answer.body)
    if names is None:
        return [_error(settings, failures.garbage("no list of models"))]
    reached = Finding("ok", f"{settings.base_url} answers and lets us in")
    if settings.model in names:
        return [reached, Finding("ok", f'it has the model "{settings.model}"')]
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    missing = Finding(
        "warning",
        f'it does not list the model "{settings.model}"',
        f"It lists: {shown or 'none'}. Correct model, or fetch it there.",
    )
    return [reached, missing]


def _names(body: bytes) -> list[str] | None:
    listed = json_value(body)
    models = listed.get("data") if isinstance(listed, dict) else listed
    if not isinstance(models, list):
        return None
    return [str(model["id"]) for model in models if isinstance(model, dict) and "id" in model]


def _error(settings: OpenAIBackend, failure: ModelFailure) -> Finding:
    detail = settings.without_secrets(failure.detail)[:200]
    reason = failure.reason.rstrip(".")
    what = f"{settings.base_url}: {reason}" + (f" ({detail})" if detail else "")
    return Finding("error", what, failure.remedy)

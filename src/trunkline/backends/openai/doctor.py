"""Findings of `trunkline doctor` about the server of a model."""

import asyncio
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from trunkline.backends.kind import Resources
from trunkline.backends.openai import failures
from trunkline.backends.openai.failures import ModelFailure
from trunkline.backends.openai.options import Options, openai_options
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.backends.openai.wire import error_code
from trunkline.ports.backend import Finding
from trunkline.remote.errors import RemoteError
from trunkline.remote.http import Answer, Guard, HttpClient
from trunkline.remote.target import Limits

_MAX_BYTES: Final = 4 * 1024 * 1024
_SHOWN: Final = 5


async def check(settings: OpenAIBackend, resources: Resources) -> list[Finding]:
    return await check_openai(openai_options(replace(settings, tools=()), {}))


async def check_openai(options: Options, *, timeout_s: float = 20.0) -> list[Finding]:
    """Asks for the list of models; costs no tokens."""
    http = HttpClient(Guard.of(options.base_url))
    limits = Limits(connect_s=options.limits.connect_s)
    try:
        async with asyncio.timeout(timeout_s):
            answer = await http.fetch(
                "GET",
                options.url("models"),
                headers={"Accept": "application/json", **options.headers},
                body=None,
                limits=limits,
                max_bytes=_MAX_BYTES,
            )
    except TimeoutError:
        what = f"{options.base_url} is there, and says nothing for {timeout_s:g} s"
        return [Finding("error", what, "Look into the log of the model's server.")]
    except RemoteError as error:
        return [_error(options, failures.of_remote(error, has_begun=False))]
    finally:
        await http.close()
    return found(options, answer)


def found(options: Options, answer: Answer) -> list[Finding]:
    """The findings from the answer to `GET /models`."""
    if answer.status in (404, 405, 501):
        remedy = "Run `trunkline agent try` to see whether it answers."
        if not options.base_url.rstrip("/").endswith("/v1"):
            remedy = f"Check base_url: it usually ends with /v1. {remedy}"
        return [
            Finding("ok", f"{options.base_url} answers"),
            Finding(
                "warning",
                "it has no list of models, so the model was not checked",
                remedy,
            ),
        ]
    if not 200 <= answer.status < 300:
        failure = failures.of_status(answer.status, *error_code(answer.body))
        return [_error(options, failure)]
    names = _names(answer.body)
    if names is None:
        return [_error(options, failures.garbage("no list of models"))]
    reached = Finding("ok", f"{options.base_url} answers and lets us in")
    if options.model in names:
        return [reached, Finding("ok", f'it has the model "{options.model}"')]
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    missing = Finding(
        "warning",
        f'it does not list the model "{options.model}"',
        f"It lists: {shown or 'none'}. Correct model, or fetch it there.",
    )
    return [reached, missing]


def _names(body: bytes) -> list[str] | None:
    try:
        listed: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    models = listed.get("data") if isinstance(listed, dict) else listed
    if not isinstance(models, list):
        return None
    return [str(model["id"]) for model in models if isinstance(model, dict) and "id" in model]


def _error(options: Options, failure: ModelFailure) -> Finding:
    detail = options.masked(failure.detail)[:200]
    reason = failure.reason.rstrip(".")
    what = f"{options.base_url}: {reason}" + (f" ({detail})" if detail else "")
    return Finding("error", what, failure.remedy)

"""The gateway's own pages: `/healthz`, `/readyz`, `/metrics` and `/version`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from trunkline.model.errors import TrunklineError
from trunkline.protocol import rest
from trunkline.protocol.versions import Version
from trunkline.server.a2a import error_headers
from trunkline.server.access import Access
from trunkline.server.asgi import App, AsgiRequest
from trunkline.server.metrics import Metrics

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]

PATHS = ("/healthz", "/readyz", "/metrics", "/version")


def build_pages(
    *,
    problems: Callable[[], Sequence[str]],
    metrics: Metrics,
    access: Access,
    version: str,
    lifespan: Lifespan | None = None,
    more: Mapping[str, App] | None = None,
    notes: Callable[[], Sequence[str]] = tuple,
) -> Starlette:
    """`problems` are the reasons for which the gateway should get no traffic now, and `notes` what
    is worth knowing while it gets some; `more` are ASGI applications, each for one path."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        found = problems()
        if not found:
            return PlainTextResponse("".join(["ready\n", *(f"note: {n}\n" for n in notes())]))
        text = "".join(f"not ready: {problem}\n" for problem in found)
        return PlainTextResponse(text, status_code=503, headers={"Retry-After": "5"})

    async def metrics_page(request: Request) -> Response:
        # Only callers that the gateway knows may see traffic figures.
        try:
            await access.identify_unrestricted(AsgiRequest.of(request.scope, request.receive))
        except TrunklineError as error:
            status, body = rest.error(error, Version.V1_0)
            headers = {name.decode(): value.decode() for name, value in error_headers(error)}
            return Response(body, status, headers, media_type="application/json")
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def version_page(_: Request) -> Response:
        return JSONResponse({"name": "trunkline", "version": version, "a2a": [*map(str, Version)]})

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics_page),
            Route("/version", version_page),
            *(Route(path, endpoint=app) for path, app in (more or {}).items()),
        ],
        lifespan=lifespan,
    )

"""A hard-coded answer on Starlette and uvicorn: what HTTP alone costs, with no task behind it."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.peers.serving import arguments, serve

ANSWER = (
    b'{"jsonrpc":"2.0","id":10000000,"result":{"task":{"id":"3f0c9d6e-2f43-4d1c-8f5a-0d6c3a1b7e55",'
    b'"contextId":"9b2e6c1d-7a40-4c55-b8f1-2c4d5e6f7a88","status":{"state":"TASK_STATE_COMPLETED",'
    b'"timestamp":"2025-01-01T00:00:00.000Z"},"artifacts":[{"artifactId":"answer","parts":'
    b'[{"text":"hello 10000000"}]}],"history":[{"messageId":"m-10000000","role":"ROLE_USER",'
    b'"parts":[{"text":"hello 10000000"}]}]}}}'
)


async def answer(request: Request) -> Response:
    await request.body()
    return Response(ANSWER, media_type="application/json")


app = Starlette(routes=[Route("/", answer, methods=["POST"])])

if __name__ == "__main__":
    serve(app, arguments().port)

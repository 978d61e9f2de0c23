"""`ResponseReader`: results and refusals of a peer, without our secrets in them."""

from collections.abc import Callable
from typing import Any, Final

from trunkline.model.errors import InvalidAgentResponse
from trunkline.ports.clock import Clock
from trunkline.protocol import client_responses
from trunkline.protocol.client_responses import Refusal
from trunkline.remote.errors import BadPeerAnswer, PeerRefused
from trunkline.remote.http import Answer
from trunkline.remote.interfaces import Endpoint
from trunkline.remote.retries import retry_after_s
from trunkline.remote.target import masked

_EVENT: Final = Answer(200, {}, b"")
# Error data may be nested more deeply than Python can recurse.
_DEEPEST: Final = 32


class ResponseReader:
    """`secrets` returns the current texts that must not be shown."""

    def __init__(self, clock: Clock, secrets: Callable[[], tuple[str, ...]]) -> None:
        self._clock = clock
        self._secrets = secrets

    def event(self, endpoint: Endpoint, data: bytes, id: bytes, *, is_error: bool = False) -> bytes:
        """The JSON in one event of a stream. Raises InvalidAgentResponse and PeerRefused.

        `is_error`: the event has the name "error", the only sign of an error in HTTP+JSON of 0.3.
        """
        if endpoint.binding == "JSONRPC":
            return self._result(client_responses.opened(data, id), _EVENT)
        if is_error or data.startswith(b'{"error"'):
            raise self.refused(client_responses.http_refusal(_EVENT.status, data), _EVENT)
        return data

    def payload(self, endpoint: Endpoint, answer: Answer, id: bytes) -> bytes:
        """The JSON of the result, or PeerRefused, or BadPeerAnswer."""
        is_success = 200 <= answer.status < 300
        if answer.media_type == "text/html" and is_success:
            raise BadPeerAnswer("the agent answers with a page of HTML", reason="WRONG_TYPE")
        if not is_success:
            raise self.refused(client_responses.http_refusal(answer.status, answer.body), answer)
        if endpoint.binding == "HTTP+JSON":
            return answer.body
        try:
            return self._result(client_responses.opened(answer.body, id), answer)
        except InvalidAgentResponse as error:
            raise self.bad(error) from None

    def bad(self, error: InvalidAgentResponse, *, reason: str = "") -> BadPeerAnswer:
        """The text may quote the answer, which may quote our credentials."""
        return BadPeerAnswer(masked(error.message, self._secrets()), reason=reason)

    def _result(self, result: bytes | Refusal, answer: Answer) -> bytes:
        if isinstance(result, Refusal):
            raise self.refused(result, answer)
        return result

    def refused(self, refusal: Refusal, answer: Answer) -> PeerRefused:
        # A peer may repeat our credentials in its answer.
        secrets = self._secrets()
        text = refusal.message or f"the agent answered with status {answer.status}"
        error = PeerRefused(
            masked(text, secrets)[:2000],
            code=refusal.code,
            reason=masked(refusal.reason, secrets) or f"HTTP_{answer.status}",
            data=_masked_tree(refusal.data, secrets),
            status=answer.status,
        )
        error.retry_after_s = retry_after_s(answer.headers.get("retry-after"), self._clock.now_ms())
        return error


def _masked_tree(tree: Any, secrets: tuple[str, ...], depth: int = 0) -> Any:
    if isinstance(tree, str):
        return masked(tree, secrets)
    if depth > _DEEPEST and isinstance(tree, list | dict):
        return "…"
    if isinstance(tree, list):
        return [_masked_tree(one, secrets, depth + 1) for one in tree]
    if isinstance(tree, dict):
        return {name: _masked_tree(one, secrets, depth + 1) for name, one in tree.items()}
    return tree

"""HTTP/1.1 as a client: requests and their answers, within limits in time and size.

A client for small requests to few peers, so it can be small; llhttp (httptools) says what the
bytes mean. Read in this order: `place` (what a url stands for), `guard` (which addresses may be
called), `answer`, `exchange` (an answer as it comes), `connection` (one socket), `connecting`,
`pool` (those that wait for a further request), `patience` (limits in time), `client`.
"""

from trunkline.remote.http.client import HttpClient, StreamedResponse
from trunkline.remote.http.connector import Network
from trunkline.remote.http.guard import Guard
from trunkline.remote.http.response import SSE, Answer, media_type

__all__ = ["SSE", "Answer", "Guard", "HttpClient", "Network", "StreamedResponse", "media_type"]

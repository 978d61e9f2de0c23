"""An HTTP/1.1 client: requests and their responses, within limits in time and size.

The client serves small requests to few peers, so it can be small; llhttp (httptools) parses the
bytes. Read in this order: `request` (URLs and the bytes of a request), `guard` (addresses that may
be called), `response` (a response as it arrives), `connection` (one socket), `connector`, `pool`
(connections that wait for the next request), `client`.
"""

from trunkline.remote.http.client import HttpClient
from trunkline.remote.http.connector import Network
from trunkline.remote.http.guard import Guard
from trunkline.remote.http.request import build_request
from trunkline.remote.http.response import SSE, Answer, Response

__all__ = ["SSE", "Answer", "Guard", "HttpClient", "Network", "Response", "build_request"]

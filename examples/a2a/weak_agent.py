"""The least that can be called an A2A agent: it answers with a message, and knows nothing else.

No streams, no tasks, no list, no cancel: what the gateway in front of it adds.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = f"http://{self.headers['Host']}/"
        self._answer(
            {
                "name": "Parrot",
                "description": "Repeats every message",
                "version": "1",
                "supportedInterfaces": [
                    {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
                ],
                "capabilities": {"streaming": False},
                "defaultInputModes": ["text/plain"],
                "defaultOutputModes": ["text/plain"],
                "skills": [
                    {"id": "repeat", "name": "Repeat", "description": "Repeats", "tags": ["echo"]}
                ],
            }
        )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["method"] != "SendMessage":
            error = {"code": -32601, "message": "no such method"}
            self._answer({"jsonrpc": "2.0", "id": body["id"], "error": error})
            return
        message = body["params"]["message"]
        text = "".join(part.get("text", "") for part in message["parts"])
        reply = {"messageId": "r", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        self._answer({"jsonrpc": "2.0", "id": body["id"], "result": {"message": reply}})

    def _answer(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=9001)
    ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler).serve_forever()

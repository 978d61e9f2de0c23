"""The load generator: keep-alive connections over plain sockets and epoll, in a closed loop."""

import select
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Self

from bench.exchange import FIRST_NUMBER, Exchange
from bench.wire import BadResponse, Response

# Numbers are never reused in a run: every message id and every echoed text is unique.
_numbers = count(FIRST_NUMBER)

# One buffer for all: `recv` would allocate its limit for every call.
_buffer = memoryview(bytearray(256 * 1024))


class ServerGone(Exception):
    """The server closed a connection, or was silent for too long."""


@dataclass(slots=True)
class Outcome:
    """What one closed-loop run saw."""

    latencies_ns: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        return len(self.latencies_ns)

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_ns)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6


class Connection:
    """One socket with at most one request under way."""

    __slots__ = ("number", "response", "sent_ns", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.settimeout(None)  # epoll waits; a timeout would cost a poll before every call
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.response = Response()
        self.number = 0
        self.sent_ns = 0

    def ask(self, exchange: Exchange) -> None:
        self.number = next(_numbers)
        self.response = Response()
        request = exchange.request(self.number)
        self.sent_ns = time.perf_counter_ns()
        self.socket.sendall(request)

    def receive(self) -> bool:
        """Take what is there; True once the response is complete."""
        size = self.socket.recv_into(_buffer)
        if not size:
            raise ServerGone("the server closed the connection")
        return self.response.feed(_buffer[:size])

    def verdict(self, exchange: Exchange) -> str | None:
        try:
            return exchange.verdict(self.number, self.response.status, self.response.body())
        except BadResponse as bad:
            return f"bad response: {bad}"


class Client:
    """A fixed number of connections that ask as fast as they are answered."""

    def __init__(self, port: int, connections: int, *more_ports: int) -> None:
        """The connections go to all ports in turn."""
        ports = (port, *more_ports)
        self._epoll = select.epoll()
        self._by_fd: dict[int, Connection] = {}
        try:
            for number in range(connections):
                connection = Connection(ports[number % len(ports)])
                self._by_fd[connection.socket.fileno()] = connection
                self._epoll.register(connection.socket, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    @property
    def connections(self) -> list[Connection]:
        return list(self._by_fd.values())

    def run(
        self, exchange: Exchange, *, total: int, limit_s: float, silence_s: float = 60
    ) -> Outcome:
        """Ask `total` times, or as often as fits in `limit_s`; what was asked is always awaited."""
        outcome = Outcome()
        busy = 0
        for connection in self.connections[:total]:
            connection.ask(exchange)
            busy += 1
        asked = busy
        stop_ns = time.perf_counter_ns() + int(limit_s * 1e9)
        while busy:
            for connection in self.ready(silence_s):
                if not connection.receive():
                    continue
                now_ns = time.perf_counter_ns()
                outcome.latencies_ns.append(now_ns - connection.sent_ns)
                wrong = connection.verdict(exchange)
                if wrong is not None:
                    outcome.errors[wrong] += 1
                if asked < total and now_ns < stop_ns:
                    connection.ask(exchange)
                    asked += 1
                else:
                    busy -= 1
        return outcome

    def run_paced(
        self, exchange: Exchange, *, every_s: float, limit_s: float, silence_s: float = 60
    ) -> Outcome:
        """Ask once in every so many seconds, however long the answers take.

        A request that waited for a free connection counts from when it was due. In a closed loop
        a server that stands still is asked nothing meanwhile, and hardly shows.
        """
        outcome = Outcome()
        free = self.connections
        due_ns = time.perf_counter_ns()
        stop_ns = due_ns + int(limit_s * 1e9)
        busy = 0
        while due_ns < stop_ns or busy:
            now_ns = time.perf_counter_ns()
            if free and due_ns <= now_ns and due_ns < stop_ns:
                connection = free.pop()
                connection.ask(exchange)
                connection.sent_ns = due_ns
                due_ns += int(every_s * 1e9)
                busy += 1
                continue
            waits_s = (due_ns - now_ns) / 1e9 if free and due_ns < stop_ns else silence_s
            for fd, _ in self._epoll.poll(waits_s):
                connection = self._by_fd[fd]
                if connection.receive():
                    outcome.latencies_ns.append(time.perf_counter_ns() - connection.sent_ns)
                    wrong = connection.verdict(exchange)
                    if wrong is not None:
                        outcome.errors[wrong] += 1
                    free.append(connection)
                    busy -= 1
        return outcome

    def ready(self, silence_s: float) -> list[Connection]:
        """The connections with something to read; raises when none speaks for `silence_s`."""
        events = self._epoll.poll(silence_s)
        if not events:
            raise ServerGone(f"no answer for {silence_s:g} s")
        return [self._by_fd[fd] for fd, _ in events]

    def ignore(self, connection: Connection) -> None:
        """Look no more at a connection: its server may close it when it has nothing to say."""
        self._epoll.unregister(connection.socket)

    def close(self) -> None:
        for connection in self._by_fd.values():
            connection.socket.close()
        self._epoll.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

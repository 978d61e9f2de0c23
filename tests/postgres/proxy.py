"""`DatabaseProxy`: stands between nodes and PostgreSQL, and does what a network does at its worst.

Every fault is for the connections of one role, as their `application_name` tells it: `write` for
those of "trunkline write". Without a role it is for all of them.
"""

import asyncio
import struct
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

_GREETINGS = {80877103: "SSLRequest", 80877104: "GSSENCRequest"}
_CANCEL = 80877102


class _Faults:
    """What happens to the connections of one role."""

    def __init__(self) -> None:
        self.passes = asyncio.Event()
        self.passes.set()
        self.refuses = False
        self.delay_s = 0.0
        # For each answer to be lost, a piece of its statement.
        self.loses: list[str] = []


class DatabaseProxy:
    def __init__(self, url: str) -> None:
        """`url` is that of the database, `self.url` the one that leads through the proxy."""
        self._settings = conninfo_to_dict(url)
        self.url = ""
        # How many answers were lost, by role.
        self.lost: Counter[str] = Counter()
        self._faults: defaultdict[str, _Faults] = defaultdict(_Faults)
        self._links: set[_Link] = set()

    def roles(self) -> Counter[str]:
        """How many connections there are of each role."""
        return Counter(link.role for link in self._links)

    def freeze(self, role: str = "") -> None:
        """Pass nothing on, and keep all connections open, new ones too: half-open."""
        self._faults[role].passes.clear()

    def thaw(self, role: str = "") -> None:
        """Pass on what was held back."""
        self._faults[role].passes.set()

    def cut(self, role: str = "") -> int:
        """Close all connections. Returns how many there were."""
        found = [link for link in self._links if role in ("", link.role)]
        for link in found:
            link.cut()
        return len(found)

    def refuse(self, role: str = "") -> None:
        """Close every new connection, once its role is known."""
        self._faults[role].refuses = True

    def accept(self, role: str = "") -> None:
        self._faults[role].refuses = False

    def delay(self, seconds: float, role: str = "") -> None:
        """Hold every answer back for a while."""
        self._faults[role].delay_s = seconds

    def lose_answer(self, role: str, statement: str = "") -> None:
        """Let the next statement with this text be carried out, and close the connection instead
        of passing its answer on."""
        self._faults[role].loses.append(statement)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        link = _Link(self, (reader, writer), server)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = str(self._settings["host"]), int(self._settings.get("port") or 5432)
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def pass_through(self, role: str) -> None:
        """Wait while the role is frozen."""
        for each in {"", role}:
            await self._faults[each].passes.wait()

    def refuses(self, role: str) -> bool:
        return any(self._faults[each].refuses for each in ("", role))

    def delay_s(self, role: str) -> float:
        return max(self._faults[each].delay_s for each in ("", role))

    def takes_answer(self, role: str, statement: str) -> bool:
        for each in ("", role):
            loses = self._faults[each].loses
            for wanted in loses:
                if wanted in statement:
                    loses.remove(wanted)
                    return True
        return False


class _Link:
    """One connection, message by message."""

    def __init__(
        self,
        proxy: DatabaseProxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self.role = ""
        self._statements: dict[bytes, str] = {}
        # The answer to the statement under way is being lost.
        self._is_losing = False

    def cut(self) -> None:
        self._to_client.transport.abort()
        self._to_server.transport.abort()

    async def run(self) -> None:
        try:
            await self._greet()
            if self._proxy.refuses(self.role):
                return
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_requests())
                both.create_task(self._pass_answers())
        except* (OSError, EOFError):
            pass
        finally:
            self.cut()

    async def _greet(self) -> None:
        """Pass on the first packets, up to the one with the role."""
        while True:
            head = await self._from_client.readexactly(8)
            length, code = struct.unpack("!II", head)
            body = await self._from_client.readexactly(length - 8)
            if code not in _GREETINGS:
                fields = body.split(b"\0")
                options = dict(zip(fields[::2], fields[1::2], strict=False))
                name = options.get(b"application_name", b"").decode()
                self.role = "cancel" if code == _CANCEL else name.removeprefix("trunkline ")
                await self._proxy.pass_through(self.role)
                self._to_server.write(head + body)
                return
            # PostgreSQL answers with one byte; on a Unix socket that is always a no.
            self._to_server.write(head + body)
            self._to_client.write(await self._from_server.readexactly(1))

    async def _pass_requests(self) -> None:
        while True:
            kind, message = await _read(self._from_client)
            await self._proxy.pass_through(self.role)
            statement = self._statement(kind, message[5:])
            if statement is not None:
                self._is_losing = self._proxy.takes_answer(self.role, statement)
            self._to_server.write(message)
            await self._to_server.drain()

    def _statement(self, kind: bytes, body: bytes) -> str | None:
        """The text of the statement that this message runs, if it runs one."""
        if kind == b"Q":
            return body[:-1].decode()
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._statements[name] = text.decode()
        if kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            return self._statements.get(name, "")
        return None

    async def _pass_answers(self) -> None:
        while True:
            kind, message = await _read(self._from_server)
            if self._is_losing:
                # "Ready for query" comes after the commit.
                if kind == b"Z":
                    self._proxy.lost[self.role] += 1
                    raise EOFError
                continue
            await self._proxy.pass_through(self.role)
            if delay_s := self._proxy.delay_s(self.role):
                await asyncio.sleep(delay_s)
            self._to_client.write(message)
            await self._to_client.drain()


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    [length] = struct.unpack("!I", head[1:])
    return head[:1], head + await reader.readexactly(length - 4)


@asynccontextmanager
async def database_proxy(url: str, *, tcp: bool = False) -> AsyncIterator[DatabaseProxy]:
    proxy = DatabaseProxy(url)
    database = proxy._settings["dbname"]
    with tempfile.TemporaryDirectory(prefix="trunkline-proxy-") as folder:
        if tcp:
            listening = await asyncio.start_server(proxy.serve, "127.0.0.1")
            port = listening.sockets[0].getsockname()[1]
            proxy.url = f"postgresql://postgres@127.0.0.1:{port}/{database}"
        else:
            path = Path(folder, ".s.PGSQL.5432")
            listening = await asyncio.start_unix_server(proxy.serve, path)
            proxy.url = f"postgresql://postgres@/{database}?host={folder}"
        try:
            yield proxy
        finally:
            listening.close()
            proxy.cut()
            await listening.wait_closed()

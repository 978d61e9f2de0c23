"""`Notices`: what nodes tell each other, by NOTIFY and LISTEN.

Notices go in transactions of their own, behind the commit that they tell about: in the same
transaction the commits of all nodes would wait for each other. The first one goes at once, and
those that come soon after it go together.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreUnusable
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import Advanced, Missed, Notice
from trunkline.stores.postgres.connection import Connection, ConnectionLost, DatabaseError, connect
from trunkline.stores.postgres.database import Database, LastingConnection
from trunkline.stores.postgres.packing import texts
from trunkline.stores.statements import Statements

_log = logging.getLogger("trunkline.cluster")

# Between two messages of a node.
_PAUSE_S = 0.003
# PostgreSQL takes messages below 8,000 bytes.
_MAX_BYTES = 4000
# Notices that wait while the database is away. Beyond that, the other nodes are told to look.
_MAX_PENDING = 10_000
# A node hears its own messages too. Where it hears none for this long, LISTEN does not work.
PROOF_S = 10.0
_RETRY_S = 0.5
# Every node sends a message in each round.
_LONELY_ROUNDS = 2

_MISSED = Missed()
_encode = msgspec.json.Encoder().encode


class _Message(Struct, array_like=True):
    sender: str
    notices: tuple[Notice, ...]


_decode = msgspec.json.Decoder(_Message).decode


def messages(sender: str, notices: Iterable[Notice]) -> Iterator[str]:
    """The payloads for these notices; at least one."""
    pieces: list[str] = []
    size = 0
    for notice in notices:
        piece = _encode(notice)
        if len(piece) > _MAX_BYTES:
            piece = _encode(_MISSED)
        if size + len(piece) > _MAX_BYTES:
            yield _message(sender, pieces)
            pieces, size = [], 0
        pieces.append(piece.decode())
        size += len(piece) + 1
    yield _message(sender, pieces)


def _message(sender: str, pieces: list[str]) -> str:
    return f'["{sender}",[{",".join(pieces)}]]'


class Notices:
    def __init__(
        self,
        database: Database,
        sql: Statements,
        *,
        clock: Clock,
        listen_url: str,
        proof_s: float = PROOF_S,
    ) -> None:
        self._sql = sql
        self._clock = clock
        self._listen_url = listen_url
        self._proof_s = proof_s
        # Tells the messages of this node from those of the others.
        self._name = secrets.token_hex(4)
        self._notify = LastingConnection(database, "notify")
        self._hear: Callable[[Notice], None] = lambda _: None
        # Notices to be sent, by what they are about.
        self._pending: dict[object, Notice] = {}
        self._wake = asyncio.Event()
        # One message at a time, because they go over two connections in the end.
        self._telling = asyncio.Lock()
        self._listener: Connection | None = None
        self._has_heard_itself = False
        # For how many rounds of proofs this node has heard no other one. It tells nothing while it
        # is alone, and hears of a node that joins by the first message of that.
        self._lonely_rounds = 0
        # Since the start of the process: notices that were told and heard, and how often this node
        # missed some.
        self.told = 0
        self.heard = 0
        self.missed = 0
        self._tasks = BackgroundTasks("notices")

    async def start(self, hear: Callable[[Notice], None]) -> None:
        """Listen from now on. Raises StoreUnusable."""
        self._hear = hear
        if self._listener is not None:
            return
        try:
            self._listener = await self._listen()
        except (ConnectionLost, DatabaseError) as error:
            raise StoreUnusable(f"The database cannot be listened to: {error}") from error
        self._tasks.spawn(self._keep_listening(self._listener), name="listen")
        self._tasks.spawn(self._keep_telling(), name="tell")

    async def close(self) -> None:
        await self._tasks.close()
        self._notify.close()
        self._pending.clear()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def tell(self, notice: Notice) -> None:
        """Never blocks and never fails."""
        if self._lonely_rounds > _LONELY_ROUNDS:
            return
        # The last one of a task says all.
        about = notice.task_id if isinstance(notice, Advanced) else notice
        self._pending[about] = notice
        if len(self._pending) > _MAX_PENDING:
            self._pending = {_MISSED: _MISSED}
        self._wake.set()

    async def farewell(self, connection: LastingConnection, notice: Notice) -> None:
        """Tell all that waits, and this last. Raises StoreUnusable."""
        async with self._telling:
            pending, self._pending = self._pending, {}
            last = messages(self._name, [*pending.values(), notice])
            await connection.run(self._sql["notify"], (texts(list(last)),))

    async def _keep_telling(self) -> None:
        is_away = False
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                async with self._telling:
                    pending, self._pending = self._pending, {}
                    payloads = list(messages(self._name, pending.values()))
                    await self._notify.run(self._sql["notify"], (texts(payloads),))
            except StoreUnusable as error:
                if not is_away:
                    _log.warning("notices are lost", extra={"reason": error.message})
                is_away = True
                self.tell(_MISSED)
                await self._clock.sleep(_RETRY_S)
            else:
                is_away = False
                self.told += len(pending)
            await self._clock.sleep(_PAUSE_S)

    async def _listen(self) -> Connection:
        """Raises ConnectionLost and DatabaseError."""
        # Not prepared: a pooler that swallows LISTEN may not know prepared statements either.
        connection = await connect(self._listen_url, "listen", prepares=False)
        connection.on_notify = self._read
        try:
            await connection.run(self._sql["listen"])
        except BaseException:
            connection.close()
            raise
        return connection

    async def _keep_listening(self, connection: Connection) -> None:
        while True:
            reason = await self._until_deaf(connection)
            connection.close()
            self._lonely_rounds = 0
            _log.warning("notices of other nodes do not arrive", extra={"reason": reason})
            connection = self._listener = await self._listen_again()
            self._pass_on(_MISSED)

    async def _listen_again(self) -> Connection:
        while True:
            try:
                return await self._listen()
            except (ConnectionLost, DatabaseError):
                # The reason was logged when the connection broke.
                await self._clock.sleep(_RETRY_S)

    async def _until_deaf(self, connection: Connection) -> str:
        """Return why, once the connection hears nothing any more."""
        closed = asyncio.Event()
        connection.on_closed = closed.set
        while connection.closed is None:
            self._has_heard_itself = False
            self._wake.set()
            try:
                async with asyncio.timeout(self._proof_s):
                    await closed.wait()
            except TimeoutError:
                self._lonely_rounds += 1
                if not self._has_heard_itself:
                    return (
                        f"this node did not hear its own message for {self._proof_s:g} s. Behind a "
                        "pooler, set listen_url in [store] to an address of the database itself"
                    )
        return connection.closed

    def _read(self, _: str, payload: str) -> None:
        try:
            message = _decode(payload)
        except msgspec.DecodeError:
            # A node of another release may tell what this one does not know.
            self._pass_on(_MISSED)
            return
        if message.sender == self._name:
            self._has_heard_itself = True
            return
        self._lonely_rounds = 0
        for notice in message.notices:
            self._pass_on(notice)

    def _pass_on(self, notice: Notice) -> None:
        if isinstance(notice, Missed):
            self.missed += 1
        else:
            self.heard += 1
        try:
            self._hear(notice)
        except Exception:  # noqa: BLE001 - logged; the notices behind it count too
            _log.exception("a notice could not be used")

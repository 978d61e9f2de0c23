"""`audit_records`: the audit as commands of operators read it, of a running gateway or of a store.

A running gateway hands out records of the audit over the operators' channel, a page at a time. The
command itself follows and checks the chains, so that a check of a million rows does not keep the
gateway from its callers.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

from trunkline.app.adapters import make_store
from trunkline.app.operator_client import NotRunning, call_gateway
from trunkline.clock import SystemClock
from trunkline.hub.audit_chain import HEAD, SEGMENT, TIP
from trunkline.hub.audit_reading import Records
from trunkline.model.errors import ConfigError, OperatorRefused
from trunkline.ports.records import Key, Record
from trunkline.ports.store import Store
from trunkline.settings import Settings, StoreSettings

COMMAND: Final = "hub.audit.records"
_KINDS = (HEAD, SEGMENT, TIP.kind)
_MAX_PAGE: Final = 200


class ReadAudit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record by its id, or a page of records."""

    kind: str
    scope: str | None = None
    id: str | None = None
    # Scope and id.
    after: tuple[str, str] | None = None
    newest_first: bool = False
    limit: int = 1


class FoundRecord(Struct, frozen=True, kw_only=True):
    scope: str
    id: str
    version: int
    body: bytes


async def read(store: Store, given: ReadAudit) -> list[FoundRecord]:
    """What the gateway answers. Raises OperatorRefused for records that are not of the audit, and
    StoreError."""
    if given.kind not in _KINDS:
        raise OperatorRefused(f"{given.kind!r} is not a kind of records of the audit.")
    found: Sequence[Record]
    if given.id is not None:
        one = await store.record(Key(given.kind, given.scope or "", given.id))
        found = [] if one is None else [one]
    else:
        after = None if given.after is None else Key(given.kind, *given.after)
        found = await store.records(
            given.kind,
            scope=given.scope,
            after=after,
            newest_first=given.newest_first,
            limit=min(given.limit, _MAX_PAGE),
        )
    return [
        FoundRecord(
            scope=record.key.scope, id=record.key.id, version=record.version, body=record.body
        )
        for record in found
    ]


class _ChannelRecords:
    """The records of a gateway that runs. It implements `hub.audit_reading.Records`."""

    def __init__(self, store: StoreSettings) -> None:
        self._store = store

    async def record(self, key: Key) -> Record | None:
        found = self._ask(ReadAudit(kind=key.kind, scope=key.scope, id=key.id))
        return found[0] if found else None

    async def records(
        self,
        kind: str,
        *,
        scope: str | None = None,
        after: Key | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[Record]:
        place = None if after is None else (after.scope, after.id)
        return self._ask(
            ReadAudit(kind=kind, scope=scope, after=place, newest_first=newest_first, limit=limit)
        )

    def _ask(self, what: ReadAudit) -> list[Record]:
        arguments: dict[str, Any] = msgspec.to_builtins(what)
        answer = call_gateway(self._store, COMMAND, arguments)
        return [
            Record(key=Key(what.kind, each.scope, each.id), version=each.version, body=each.body)
            for each in msgspec.convert(answer, list[FoundRecord])
        ]


@asynccontextmanager
async def audit_records(
    store: StoreSettings, *, load: Callable[[], Settings], must_run: bool = False
) -> AsyncIterator[Records]:
    """The records of the gateway that runs on the store, or of the store itself where none runs,
    unless a gateway `must_run`.

    Raises NotRunning, ConfigError, OperatorRefused and StoreError.
    """
    running = _ChannelRecords(store)
    try:
        await running.record(TIP)
    except NotRunning:
        if must_run and store.kind != "postgres":
            raise
    else:
        yield running
        return
    settings = load()
    if settings.store.kind == "memory":
        raise ConfigError(
            'store.kind = "memory": the audit of this configuration ends with its process, and no '
            "gateway is running."
        )
    opened = make_store(
        settings.store, agent=settings.adopting_agent(settings.store), clock=SystemClock()
    )
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()

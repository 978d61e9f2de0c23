"""`GatewayRecordings`: tests and mock agents of recorded tasks, connected with the stores."""

from collections.abc import Iterator

from trunkline.api.api import Route
from trunkline.app.directory import AgentDirectory
from trunkline.app.routing import GatewayRouting
from trunkline.app.runtimes import Runtimes
from trunkline.console.checks_api import ChecksApi
from trunkline.console.recordings.recorded_tasks import RecordedTasks
from trunkline.console.recordings.recordings import Recordings
from trunkline.console.recordings.recordings_api import RecordingsApi
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store


class GatewayRecordings:
    def __init__(
        self,
        directory: AgentDirectory,
        runtimes: Runtimes,
        routing: GatewayRouting,
        *,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._runtimes = runtimes
        self._tasks = RecordedTasks(
            stores=lambda: [runtime.store for runtime in runtimes],
            may_read=routing.routing.call_list.rights.may,
        )
        self.recordings = Recordings(self._tasks, directory, main=self._main, clock=clock)

    def routes(self) -> Iterator[Route]:
        yield from ChecksApi().routes()
        yield from RecordingsApi(self.recordings, self._tasks, url_of=self._url_of).routes()

    async def open(self) -> None:
        """Publish the recordings of the main store. Raises StoreError."""
        await self.recordings.open()

    async def _main(self) -> Store | None:
        # A store that nothing else needs is not opened for recordings.
        if self._runtimes.main is None:
            return None
        return await self._runtimes.main_store()

    def _url_of(self, handle: str) -> str:
        listing = self._directory.find(handle)
        return "" if listing is None else f"{self._directory.base_url}{listing.jsonrpc_path}"

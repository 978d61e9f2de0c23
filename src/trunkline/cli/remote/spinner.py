"""What turns while something is waited for."""

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from trunkline.ports.clock import Clock


class Waiting:
    """A spinner with what is being waited for, and how long it has been."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._spinner = Spinner("dots", style="cyan")
        self._live: Live | None = None
        self._text = ""
        self._since = 0.0

    def start(self, text: str) -> None:
        self._text = text
        if self._live is None:
            self._since = self._clock.monotonic()
            self._live = Live(
                self,
                console=self._console,
                transient=True,
                refresh_per_second=10,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __rich__(self) -> Spinner:
        seconds = int(self._clock.monotonic() - self._since)
        text = Text(self._text, style="dim", no_wrap=True, overflow="ellipsis")
        if seconds >= 2:
            text.append(f" {seconds} s")
        self._spinner.update(text=text)
        return self._spinner

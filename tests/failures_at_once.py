"""`FailuresAtOnce`: prints a failed test when it fails, also with tests in several processes."""

import pytest

_MAX_LINES = 20


class FailuresAtOnce:
    """pytest prints failures after the last test, and xdist shows only an F until then."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    # After the terminal reporter, which writes the F of this test.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._show(report)

    def _show(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None:
            return
        terminal.ensure_newline()
        terminal.write_line(f"FAILED {report.nodeid} ({report.when})", red=True, bold=True)
        for line in _short(report):
            terminal.write_line(f"    {line}")
        # In a pipe it would wait for more to be written.
        terminal.flush()


def _short(report: pytest.TestReport) -> list[str]:
    """Where it failed, and the lines that pytest marks as the error."""
    lines = report.longreprtext.splitlines()
    errors = [line for line in lines if line.startswith("E ")]
    places = [line for line in lines if line.partition(":")[0].endswith(".py")]
    return ([*places[-1:], *errors] or lines)[:_MAX_LINES]


def pytest_configure(config: pytest.Config) -> None:
    # A worker of xdist reports to the controller, which prints.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(config))

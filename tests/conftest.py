"""Suites that want more than a checkout: they run only when they are asked for by their marker."""

import pytest

OPT_IN = ("openclaw", "claude", "codex")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked: str = config.option.markexpr
    unasked = {name for name in OPT_IN if name not in asked}
    left_out = [item for item in items if any(map(item.get_closest_marker, unasked))]
    if left_out:
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)

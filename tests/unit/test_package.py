import subprocess
import sys

import trunkline


def test_everything_promised_is_there() -> None:
    for name in trunkline.__all__:
        assert getattr(trunkline, name) is not None
    assert set(trunkline.__all__) <= set(dir(trunkline))


def test_importing_the_package_costs_nothing() -> None:
    code = "import sys, trunkline; print([m for m in ('asyncio', 'msgspec') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"

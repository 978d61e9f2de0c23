import resource
import subprocess
import sys

import pytest

from trunkline.server.listener import RESERVED_FILES

SHOW = """
import resource
from trunkline.server import listener
listener.WANTED_FILES = 2048
print(listener.room_for_connections(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "bound", "room"),
    [
        (256, 1024, 1024, 1024 - RESERVED_FILES),
        (1024, 1024, 1024, 1024 - RESERVED_FILES),
        (1024, 4096, 2048, 2048 - RESERVED_FILES),
        (4096, 4096, 4096, 4096 - RESERVED_FILES),
        (200, 200, 200, 100),
    ],
    ids=["raised", "all-there-is", "no-more-than-needed", "more-than-needed", "tiny"],
)
def test_the_bound_is_raised_and_some_of_it_is_kept_back(
    soft: int, hard: int, bound: int, room: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.split() == [str(room), str(bound)]

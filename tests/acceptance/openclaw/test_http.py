"""The whole way over `/v1/chat/completions`: the trials of all agents, as far as it goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.openclaw.claws import TOKEN, Claw
from tests.acceptance.openclaw.conftest import KINDS, MakeClaw
from tests.acceptance.trials import Subject, Trial, cases

CONFIG = """
[agents."test/claw"]
name = "Claw"
[agents."test/claw".backend]
kind = "openclaw"
surface = "http"
url = "{url}"
token = "${{CLAW_TOKEN}}"
"""


def nobody(_: Gateway) -> None:
    """Stands for the OpenClaw of the test."""


SUBJECTS = {
    "http": Subject(
        agent="test/claw",
        slow="SLOW 600 100",
        fail="FAIL 400",
        reason="The agent could not finish: 400 The script says so.",
        kill=nobody,
        killed="broke off",
    )
}


@pytest.fixture(scope="module", params=KINDS)
def own(request: pytest.FixtureRequest, make_claw: MakeClaw) -> Iterator[Claw]:
    made = make_claw(request.param)
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def ours(own: Claw, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("http")
    with gateway(folder, CONFIG.format(url=own.url)) as made:
        made.environment = {"CLAW_TOKEN": TOKEN}
        yield made.start()


@pytest.mark.parametrize(("subject", "trial"), cases(SUBJECTS))
async def test_http(ours: Gateway, own: Claw, subject: Subject, trial: Trial) -> None:
    def restart(_: Gateway) -> None:
        own.kill()
        own.start()

    await trial(ours, structs.replace(subject, kill=restart))

"""`Noted`: the row of the audit about an administrative change, to commit together with it."""

from collections.abc import Sequence
from typing import Protocol

from trunkline.model.principal import Principal
from trunkline.ports.records import Change


class Noted(Protocol):
    def __call__(
        self, actor: Principal | str, action: str, subject: str, detail: str = ""
    ) -> Sequence[Change]: ...


def not_noted(
    actor: Principal | str, action: str, subject: str, detail: str = ""
) -> Sequence[Change]:
    """Where no audit is kept."""
    return ()

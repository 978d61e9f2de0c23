"""`only_in_full`: a case of another file that runs once more, and not by default."""

from types import FunctionType

import pytest


def only_in_full(case: FunctionType) -> FunctionType:
    """A copy, because the case itself is also that of other files."""
    copied = FunctionType(
        case.__code__, case.__globals__, case.__name__, case.__defaults__, case.__closure__
    )
    copied.__dict__ |= vars(case)
    copied.__kwdefaults__ = case.__kwdefaults__
    marks = [*getattr(case, "pytestmark", ())]
    vars(copied)["pytestmark"] = [*marks, pytest.mark.full.mark]
    return copied

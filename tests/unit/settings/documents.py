"""Small documents with one thing changed."""

from typing import Any

import pytest

from trunkline.config.problems import Problem
from trunkline.settings import InvalidSettings, Settings, from_document

KEY = "0123456789abcdef0123"


def agent(**keys: Any) -> dict[str, Any]:
    return {"name": "Echo", "backend": {"kind": "echo"}, **keys}


def document(**sections: Any) -> dict[str, Any]:
    return {"agents": {"acme/echo": agent()}, **sections}


def made(**sections: Any) -> Settings:
    return from_document(document(**sections), environment={})


def problems(environment: dict[str, str] | None = None, **sections: Any) -> list[str]:
    return [str(problem) for problem in refused(environment, **sections).problems]


def refused(environment: dict[str, str] | None = None, **sections: Any) -> InvalidSettings:
    with pytest.raises(InvalidSettings) as caught:
        from_document(document(**sections), environment=environment or {})
    return caught.value


def only(**sections: Any) -> Problem:
    found = refused(None, **sections).problems
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]

"""`negotiate`: the version of the protocol that a request states (A2A 1.0, 3.6)."""

import re
from enum import StrEnum

from trunkline.model.errors import VersionNotSupported


class Version(StrEnum):
    V1_0 = "1.0"
    V0_3 = "0.3"


ALL = tuple(Version)

# A2A 3.6: Major.Minor; a patch number must not be considered.
_FORM = re.compile(r"(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})(?:\.[0-9]{1,9})?", re.ASCII)
_KNOWN = {str(version): version for version in Version}


def negotiate(
    header: str | None, query: str | None, spoken: tuple[Version, ...] = ALL
) -> Version | None:
    """The version that the client states in `A2A-Version`, or None when it states none.

    Raises VersionNotSupported for one that is not `spoken`.

    An empty value states nothing. Header and query may both state a version if it is the same. Two
    different versions are refused, because the gateway cannot know which one the client reads.
    """
    if not query:
        if not header:
            return None
        # Most clients state it in this form.
        if (known := _KNOWN.get(header)) and known in spoken:
            return known
    stated = {_parse(text, spoken) for text in (header, query) if text and text.strip()}
    if len(stated) > 1:
        raise VersionNotSupported(
            "the A2A-Version header and the A2A-Version query parameter differ; send one of them",
            metadata={"supportedVersions": ", ".join(spoken)},
        )
    return stated.pop() if stated else None


def unstated(supported: Version, remedy: str) -> VersionNotSupported:
    """A2A 1.0, 3.6.2: a request without A2A-Version is of 0.3, and 0.3 may not be supported."""
    return VersionNotSupported(
        f"This agent speaks A2A {supported} alone, and a request without A2A-Version is of "
        f'A2A 0.3; send "A2A-Version: {supported}"{remedy}',
        metadata={"requestedVersion": Version.V0_3, "supportedVersions": supported},
    )


def _parse(text: str, spoken: tuple[Version, ...]) -> Version:
    known = _KNOWN.get(text)
    if known is None:
        form = _FORM.fullmatch(text.strip())
        known = None if form is None else _KNOWN.get(f"{form[1]}.{form[2]}")
    if known is not None and known in spoken:
        return known
    shown, supported = text.strip()[:32], ", ".join(spoken)
    raise VersionNotSupported(
        f'A2A version "{shown}" is not supported; supported versions: {supported}',
        metadata={"requestedVersion": shown, "supportedVersions": supported},
    )

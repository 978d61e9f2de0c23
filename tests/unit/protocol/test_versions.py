import pytest

from trunkline.model.errors import VersionNotSupported
from trunkline.protocol.versions import Version, negotiate


@pytest.mark.parametrize(
    ("header", "query", "version"),
    [
        (None, None, None),
        ("", None, None),
        ("", "", None),
        ("  ", None, None),
        ("1.0", None, Version.V1_0),
        ("0.3", None, Version.V0_3),
        (None, "1.0", Version.V1_0),
        ("", "0.3", Version.V0_3),
        ("1.0.1", None, Version.V1_0),
        ("0.3.0", None, Version.V0_3),
        (" 1.0 ", None, Version.V1_0),
        ("1.0", "1.0.7", Version.V1_0),
    ],
)
def test_version_is_taken_from_header_or_query_without_the_patch(
    header: str | None, query: str | None, version: Version | None
) -> None:
    assert negotiate(header, query) is version


@pytest.mark.parametrize(
    "stated",
    ["1.7", "2.0", "0.2", "1", "v1.0", "1.0-beta", "1.0.x", "01.0", "1.00", "١.٠", "1.0, 0.3"],
)
def test_anything_else_is_refused_and_names_what_is_supported(stated: str) -> None:
    with pytest.raises(VersionNotSupported) as refusal:
        negotiate(stated, None)
    assert "1.0, 0.3" in refusal.value.message
    assert refusal.value.metadata == {
        "requestedVersion": stated,
        "supportedVersions": "1.0, 0.3",
    }


def test_a_huge_statement_is_cut_in_the_answer() -> None:
    with pytest.raises(VersionNotSupported) as refusal:
        negotiate(None, "9" * 10_000)
    assert len(refusal.value.message) < 200


def test_header_and_query_that_differ_are_refused() -> None:
    with pytest.raises(VersionNotSupported, match="differ"):
        negotiate("1.0", "0.3")


@pytest.mark.parametrize("spoken", Version)
def test_a_version_that_an_agent_does_not_speak_is_refused(spoken: Version) -> None:
    assert negotiate(spoken, None, (spoken,)) is spoken
    (other,) = set(Version) - {spoken}
    for stated in (other.value, f"{other}.1"):
        for header, query in ((stated, None), (None, stated)):
            with pytest.raises(VersionNotSupported, match=f"supported versions: {spoken}$"):
                negotiate(header, query, (spoken,))

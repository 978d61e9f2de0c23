import pytest

from trunkline.model.handles import HANDLE, OWNER, SLUG, folded


@pytest.mark.parametrize(
    "handle", ["acme/rust-expert", "MRIIOT/rust-expert", "a/1", "0-a/b-", "acme/*"]
)
def test_a_handle_is_an_owner_and_a_slug(handle: str) -> None:
    assert HANDLE.fullmatch(handle)


@pytest.mark.parametrize(
    "handle",
    ["", "acme", "acme/", "/rust", "-a/b", "a/-b", "a/B", "a/b/c", "a b/c", "ä/b", "a/b*", "a%2fb"],
)
def test_what_is_not_a_handle(handle: str) -> None:
    assert not HANDLE.fullmatch(handle)


def test_an_owner_may_have_upper_case_letters_and_a_slug_may_not() -> None:
    assert OWNER.fullmatch("MRIIOT")
    assert not SLUG.fullmatch("Rust")


def test_handles_that_differ_in_case_alone_are_one() -> None:
    assert folded("MRIIOT/rust") == folded("mriiot/rust")
    assert folded("acme/rust") != folded("acme/go")

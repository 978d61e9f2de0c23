import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.errors import InvalidRequest
from trunkline.protocol.call_chain import MAX_MARKS, decode, encode

MARKS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


@given(st.lists(MARKS, min_size=1, max_size=MAX_MARKS))
def test_a_chain_comes_back_as_it_was(chain: list[str]) -> None:
    assert decode(encode(chain)) == tuple(chain)


def test_spaces_and_several_headers_do_not_matter() -> None:
    # Several headers of a name are one, joined by commas (RFC 9110, 5.3).
    assert decode("a, b") == ("a", "b")


@pytest.mark.parametrize(
    "header", ["", "a,,b", "a b", "é", "a" * 65, ",".join("a" * (MAX_MARKS + 1)), "a\r\nb", "a;b"]
)
def test_what_is_not_a_chain_is_refused_by_the_name_of_the_header(header: str) -> None:
    with pytest.raises(InvalidRequest, match="Trunkline-Call-Chain"):
        decode(header)

from trunkline.engine.call_chain import MAX_AGENTS, mark_of, why_refused

A, B = mark_of("gateway", "acme/a"), mark_of("gateway", "acme/b")


def test_a_mark_tells_agents_and_gateways_apart_and_nothing_about_them() -> None:
    assert mark_of("gateway", "acme/a") == A
    assert len({A, B, mark_of("other", "acme/a")}) == 3
    assert "acme" not in A


def test_an_agent_that_is_in_the_chain_is_not_called_again() -> None:
    assert why_refused((), A) is None
    assert why_refused((B,), A) is None
    for chain in ((A,), (A, B), (B, A)):
        refused = why_refused(chain, A)
        assert refused is not None
        assert refused.reason == "call_cycle"


def test_a_chain_has_an_end() -> None:
    others = tuple(mark_of("gateway", str(number)) for number in range(MAX_AGENTS))
    assert why_refused(others[:-1], A) is None
    refused = why_refused(others, A)
    assert refused is not None
    assert refused.reason == "too_many_hops"
    assert str(MAX_AGENTS) in refused.text

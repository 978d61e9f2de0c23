from trunkline.model.principal import ANONYMOUS, OPERATOR, Principal, manages


def test_an_owner_manages_its_own_agents_and_an_operator_all() -> None:
    owner = Principal(id="user:ana", roles=("owner:ana",))
    assert manages(owner, "ana")
    assert not manages(owner, "anna")
    assert manages(Principal(id="user:bo", roles=(OPERATOR,)), "ana")
    assert not manages(Principal(id="user:ana"), "ana")


def test_only_callers_without_a_credential_are_anonymous() -> None:
    assert ANONYMOUS.is_anonymous
    assert not Principal(id="anonymous").is_anonymous

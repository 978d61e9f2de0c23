import msgspec

from trunkline.model.session import MsgContext


def test_a_message_has_the_names_of_the_host() -> None:
    context = MsgContext(
        body="hello",
        body_for_agent="hello",
        raw_body="hello",
        command_body="hello",
        body_for_commands="hello",
        from_="a2a:alice",
        to="a2a:main",
        session_key="agent:main:a2a:c1",
        account_id="main",
        conversation_label="alice",
        sender_id="alice",
        sender_name="alice",
        command_authorized=False,
        provider="a2a",
        surface="a2a",
        message_sid="m1",
        message_sid_full="m1",
        timestamp=1,
        a2a_context_id="c1",
    )
    told = msgspec.to_builtins(context)
    assert (told["From"], told["To"]) == ("a2a:alice", "a2a:main")
    assert (told["SessionKey"], told["ChatType"]) == ("agent:main:a2a:c1", "direct")
    assert (told["A2AContextId"], told["UntrustedContext"]) == ("c1", ())
    # What is not set is left out: the host takes an empty thread for one.
    assert not {"MessageThreadId", "OriginatingTo", "A2ATaskId"} & set(told)

"""Keys, tenants, extended cards and extensions, through the client of a2a-sdk."""

import a2a.types.a2a_pb2 as a2a
import httpx
import pytest
from a2a.client import ClientCallContext
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.errors import A2AClientError
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.utils.errors import (
    ExtensionSupportRequiredError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from tests.acceptance.conftest import ALICE_KEY, BOB_KEY, SPOKEN
from tests.acceptance.gateway import Gateway
from tests.acceptance.sdk import BINDINGS, connect

COLOUR = "https://example.com/ext/colour/v1"
BILLING = "https://example.com/ext/billing/v1"

every_way = pytest.mark.parametrize("spoken", SPOKEN, ids="-".join)
every_binding = pytest.mark.parametrize("binding", BINDINGS)


class Keys(CredentialService):
    """Has a key for one of the schemes on the card."""

    def __init__(self, scheme: str, key: str) -> None:
        self._keys = {scheme: key}

    async def get_credentials(self, name: str, context: ClientCallContext | None) -> str | None:
        return self._keys.get(name)


def listing(*uris: str) -> ClientCallContext:
    """A call that declares extensions."""
    return ClientCallContext(
        service_parameters=ServiceParametersFactory.create([with_a2a_extensions([*uris])])
    )


@every_way
@pytest.mark.parametrize("scheme", ["bearer", "apiKey"])
async def test_the_card_tells_the_client_how_to_show_its_key(
    locked: Gateway, spoken: tuple[str, str], scheme: str
) -> None:
    key = AuthInterceptor(Keys(scheme, ALICE_KEY))
    async with connect(locked, *spoken, interceptors=[key]) as peer:
        task = await peer.send("show principal")
        # 0.3 knows data only as an object, and the text is inside one there.
        assert '"alice"' in str(task.artifacts[0].parts[0].data)
        opening = await anext(peer.stream("say hello"))
        assert opening.HasField("task")
        header = {"bearer": "authorization", "apiKey": "x-api-key"}[scheme]
        assert all(header in sent.headers for sent in peer.requests)


@every_way
async def test_without_a_key_nothing_is_told_but_the_card(
    locked: Gateway, spoken: tuple[str, str]
) -> None:
    async with connect(locked, *spoken) as peer:
        assert peer.card.name == "Scripted"
        with pytest.raises(A2AClientError) as refused:
            await peer.send("say hello")
    cause = refused.value.__cause__
    assert isinstance(cause, httpx.HTTPStatusError)
    assert cause.response.status_code == 401
    assert cause.response.headers["www-authenticate"].startswith("Bearer")


@every_way
async def test_a_wrong_key_is_refused(locked: Gateway, spoken: tuple[str, str]) -> None:
    async with connect(locked, *spoken, key="this-is-not-a-key") as peer:
        with pytest.raises(A2AClientError, match="401"):
            await peer.get("any")


@every_way
async def test_the_tasks_of_others_do_not_exist(locked: Gateway, spoken: tuple[str, str]) -> None:
    async with connect(locked, *spoken, key=ALICE_KEY) as alice:
        task = await alice.send("ask whose is it?")
        async with connect(locked, *spoken, key=BOB_KEY) as bob:
            for call in (
                bob.get(task.id),
                bob.cancel(task.id),
                bob.send("say mine", task_id=task.id),
                anext(bob.subscribe(task.id)),
            ):
                with pytest.raises(TaskNotFoundError):
                    await call
        assert (await alice.get(task.id)).id == task.id


@every_binding
async def test_a_list_holds_only_the_callers_own(locked: Gateway, binding: str) -> None:
    async with (
        connect(locked, binding, "1.0", key=ALICE_KEY) as alice,
        connect(locked, binding, "1.0", key=BOB_KEY) as bob,
    ):
        task = await alice.send("say hello", context_id=f"shared-name-{binding}")
        theirs = await bob.send("say hello", context_id=f"shared-name-{binding}")
        [listed] = (await alice.list(context_id=task.context_id)).tasks
        assert listed.id == task.id
        [listed] = (await bob.list(context_id=task.context_id)).tasks
        assert listed.id == theirs.id


@every_binding
async def test_the_client_echoes_the_tenant_of_the_card(shared: Gateway, binding: str) -> None:
    async with connect(shared, binding, "1.0", agent="test/tenants") as peer:
        assert {one.tenant for one in peer.card.supported_interfaces} == {"acme", "globex"}
        task = await peer.send("show tenant")
        assert task.artifacts[0].parts[0].data.string_value == "acme"
        assert (await peer.get(task.id)).id == task.id
        assert task.id in [one.id for one in (await peer.list()).tasks]
        opening = await anext(peer.stream("say hello"))
        assert opening.HasField("task")
        # The tenant parts the tasks, and the SDK lets a request name another one.
        with pytest.raises(TaskNotFoundError):
            await peer.get(task.id, tenant="globex")
        with pytest.raises(InvalidParamsError):
            await peer.get(task.id, tenant="nobody")


@every_way
async def test_the_extended_card_is_for_callers_with_a_key(
    shared: Gateway, spoken: tuple[str, str]
) -> None:
    wanted = a2a.GetExtendedAgentCardRequest()
    async with connect(shared, *spoken, agent="test/extended", key=ALICE_KEY) as peer:
        assert "secret" not in [skill.id for skill in peer.card.skills]
        extended = await peer.client.get_extended_agent_card(wanted)
        assert extended.description == "What only customers may know"
        assert "secret" in [skill.id for skill in extended.skills]
        assert len(peer.requests) == 1
        assert peer.spoken() == {spoken}
    async with connect(shared, *spoken, agent="test/extended") as stranger:
        with pytest.raises(A2AClientError, match="401"):
            await stranger.client.get_extended_agent_card(wanted)


@every_binding
async def test_an_agent_without_extended_card_says_so(shared: Gateway, binding: str) -> None:
    async with connect(shared, binding, "1.0", key=ALICE_KEY) as peer:
        peer.card.capabilities.extended_agent_card = True
        with pytest.raises(UnsupportedOperationError):
            await peer.client.get_extended_agent_card(a2a.GetExtendedAgentCardRequest())


@every_way
async def test_extensions_that_both_know_reach_the_agent(
    shared: Gateway, spoken: tuple[str, str]
) -> None:
    async with connect(shared, *spoken, agent="test/extended") as peer:
        call = listing(COLOUR, "https://example.com/ext/unknown")
        task = await peer.send("show extensions", call=call)
        [sent] = peer.requests
        assert COLOUR in sent.headers["a2a-extensions"]
    assert COLOUR in str(task.artifacts[0].parts[0])
    assert "unknown" not in str(task.artifacts[0].parts[0])


@every_way
async def test_a_required_extension_must_be_declared(
    shared: Gateway, spoken: tuple[str, str]
) -> None:
    # 0.3 has no code of its own for it; over REST it has names, and the SDK knows this one.
    expected = (
        UnsupportedOperationError if spoken == ("jsonrpc", "0.3") else ExtensionSupportRequiredError
    )
    async with connect(shared, *spoken, agent="test/strict") as peer:
        with pytest.raises(expected, match=BILLING):
            await peer.send("say hello")
        task = await peer.send("say hello", call=listing(BILLING))
    assert task.status.state == a2a.TASK_STATE_COMPLETED


@every_way
async def test_push_notifications_are_refused_by_name(
    shared: Gateway, spoken: tuple[str, str]
) -> None:
    config = a2a.TaskPushNotificationConfig(url="https://example.com/hook", task_id="any", id="c")
    wanted = a2a.GetTaskPushNotificationConfigRequest(task_id="any", id="c")
    async with connect(shared, *spoken) as peer:
        assert not peer.card.capabilities.push_notifications
        with pytest.raises(PushNotificationNotSupportedError):
            await peer.client.create_task_push_notification_config(config)
        with pytest.raises(PushNotificationNotSupportedError):
            await peer.client.get_task_push_notification_config(wanted)
        with pytest.raises(PushNotificationNotSupportedError):
            await peer.send("say hello", task_push_notification_config=config)


@every_binding
async def test_a_version_that_nobody_speaks_is_refused(shared: Gateway, binding: str) -> None:
    async with connect(shared, binding, "1.0") as peer:
        future = ClientCallContext(service_parameters={"A2A-Version": "7.5"})
        with pytest.raises(VersionNotSupportedError, match=r"1\.0, 0\.3"):
            await peer.send("say hello", call=future)

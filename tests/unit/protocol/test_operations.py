from trunkline.model.calls import Operation
from trunkline.protocol.operations import LEGACY_METHODS, METHOD_OF, METHODS, PUSH, STREAMING
from trunkline.protocol.versions import Version

# Transcribed from the specification of each version.
V1 = {
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
}
V03 = {
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
}


def test_methods_are_those_of_the_specification() -> None:
    assert set(METHODS[Version.V1_0]) == V1
    assert set(METHODS[Version.V0_3]) == V03 | {"tasks/list"}


def test_every_operation_has_one_method_in_each_version() -> None:
    for version in Version:
        assert set(METHOD_OF[version]) == set(Operation)
        assert len(METHODS[version]) == len(Operation)


def test_groups_of_operations() -> None:
    assert {operation for operation in Operation if "Push" in operation} == PUSH
    assert {Operation.SEND_STREAMING_MESSAGE, Operation.SUBSCRIBE_TO_TASK} == STREAMING


def test_legacy_names_are_all_forms_of_the_two_versions() -> None:
    assert [name for name, of in LEGACY_METHODS.items() if of is Operation.GET_TASK] == [
        "tasks/get",
        "tasks.get",
        "getTask",
        "GetTask",
    ]
    assert set(LEGACY_METHODS.values()) == set(Operation)
    # No form of one operation is a name of another.
    assert len(LEGACY_METHODS) == 4 * len(Operation)

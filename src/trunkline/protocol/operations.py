"""The parameters of the operations of A2A, and their names over JSON-RPC."""

from collections.abc import Callable
from typing import Final, TypeAlias

from trunkline.model.calls import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Operation,
    PushConfigQuery,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from trunkline.protocol.versions import Version

PUSH: Final = frozenset(
    {
        Operation.CREATE_PUSH_CONFIG,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
        Operation.DELETE_PUSH_CONFIG,
    }
)
STREAMING: Final = frozenset({Operation.SEND_STREAMING_MESSAGE, Operation.SUBSCRIBE_TO_TASK})
# A2A 1.0, 3.3.4: operations that need a capability on the card. A missing capability is refused
# before bad parameters.
OPTIONAL: Final = STREAMING | PUSH | {Operation.GET_EXTENDED_AGENT_CARD}

# 0.3 has no tasks/list over JSON-RPC. The gateway adds it under the obvious name, so that clients
# of 0.3 can list tasks, too.
V03_METHODS: Final = {
    "message/send": Operation.SEND_MESSAGE,
    "message/stream": Operation.SEND_STREAMING_MESSAGE,
    "tasks/get": Operation.GET_TASK,
    "tasks/list": Operation.LIST_TASKS,
    "tasks/cancel": Operation.CANCEL_TASK,
    "tasks/resubscribe": Operation.SUBSCRIBE_TO_TASK,
    "tasks/pushNotificationConfig/set": Operation.CREATE_PUSH_CONFIG,
    "tasks/pushNotificationConfig/get": Operation.GET_PUSH_CONFIG,
    "tasks/pushNotificationConfig/list": Operation.LIST_PUSH_CONFIGS,
    "tasks/pushNotificationConfig/delete": Operation.DELETE_PUSH_CONFIG,
    "agent/getAuthenticatedExtendedCard": Operation.GET_EXTENDED_AGENT_CARD,
}
V1_METHODS: Final = {str(operation): operation for operation in Operation}

METHODS: Final = {Version.V1_0: V1_METHODS, Version.V0_3: V03_METHODS}
METHOD_OF: Final = {
    version: {operation: method for method, operation in methods.items()}
    for version, methods in METHODS.items()
}

# The method names of clients before 0.3: `message.send`, `sendMessage` and `SendMessage` are
# all `message/send`.
LEGACY_METHODS: Final = {
    name: operation
    for method, operation in V03_METHODS.items()
    for name in (
        method,
        method.replace("/", "."),
        operation[0].lower() + operation[1:],
        str(operation),
    )
}


RequestValue: TypeAlias = (
    SendMessageRequest
    | GetTaskRequest
    | ListTasksRequest
    | CancelTaskRequest
    | SubscribeToTaskRequest
    | GetExtendedAgentCardRequest
    | TaskPushNotificationConfig
    | PushConfigQuery
)
# The parameters of each operation in 1.0.
PARAMETERS: Final[dict[Operation, type[RequestValue]]] = {
    Operation.SEND_MESSAGE: SendMessageRequest,
    Operation.SEND_STREAMING_MESSAGE: SendMessageRequest,
    Operation.GET_TASK: GetTaskRequest,
    Operation.LIST_TASKS: ListTasksRequest,
    Operation.CANCEL_TASK: CancelTaskRequest,
    Operation.SUBSCRIBE_TO_TASK: SubscribeToTaskRequest,
    Operation.CREATE_PUSH_CONFIG: TaskPushNotificationConfig,
    Operation.GET_PUSH_CONFIG: PushConfigQuery,
    Operation.LIST_PUSH_CONFIGS: PushConfigQuery,
    Operation.DELETE_PUSH_CONFIG: PushConfigQuery,
    Operation.GET_EXTENDED_AGENT_CARD: GetExtendedAgentCardRequest,
}
# Takes the JSON of the parameters. Raises ParseFailed, InvalidRequest or InvalidParams.
Decoder: TypeAlias = Callable[[bytes], RequestValue]

"""The JSON of each version, to and from that of 1.0, transcribed from the specifications.

Tests speak 1.0. Reading is strict: what a version requires must be there, and what
belongs to the other one must not.
"""

from typing import Any, Protocol

Json = dict[str, Any]

_STATES = {
    "TASK_STATE_SUBMITTED": "submitted",
    "TASK_STATE_WORKING": "working",
    "TASK_STATE_INPUT_REQUIRED": "input-required",
    "TASK_STATE_COMPLETED": "completed",
    "TASK_STATE_CANCELED": "canceled",
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_REJECTED": "rejected",
    "TASK_STATE_AUTH_REQUIRED": "auth-required",
}
_ROLES = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}


class Shapes(Protocol):
    def send(self, params: Json) -> Json: ...
    def task(self, value: Json) -> Json: ...
    def message(self, value: Json) -> Json: ...
    def event(self, value: Json) -> tuple[str, Json]: ...
    def state(self, name: str) -> str: ...


class V1:
    def send(self, params: Json) -> Json:
        return params

    def state(self, name: str) -> str:
        return name

    def task(self, value: Json) -> Json:
        assert "kind" not in value
        assert {"id", "contextId", "status"} <= set(value)
        assert value["status"]["state"] in _STATES
        for message in value.get("history", []):
            self.message(message)
        for artifact in value.get("artifacts", []):
            self.artifact(artifact)
        return value

    def message(self, value: Json) -> Json:
        assert "kind" not in value
        assert {"messageId", "role", "parts"} <= set(value)
        assert value["role"] in _ROLES
        assert value["parts"]
        for part in value["parts"]:
            assert len({"text", "raw", "url", "data"} & set(part)) == 1
        return value

    def artifact(self, value: Json) -> Json:
        assert {"artifactId", "parts"} <= set(value)
        assert value["parts"]
        return value

    def event(self, value: Json) -> tuple[str, Json]:
        [(kind, inner)] = value.items()
        match kind:
            case "task":
                self.task(inner)
            case "message":
                self.message(inner)
            case "statusUpdate":
                assert {"taskId", "contextId", "status"} <= set(inner)
                # What 0.3 had and 1.0 has not.
                assert not {"final", "kind"} & set(inner)
            case "artifactUpdate":
                assert {"taskId", "contextId", "artifact"} <= set(inner)
                self.artifact(inner["artifact"])
            case _:
                raise AssertionError(f"unknown event {kind}")
        return kind, inner


class V03JsonRpc:
    """0.3 over JSON-RPC: every object says its kind."""

    def send(self, params: Json) -> Json:
        sent = {"message": self._message_out(params["message"])}
        if "metadata" in params:
            sent["metadata"] = params["metadata"]
        if "configuration" in params:
            configuration = dict(params["configuration"])
            if "returnImmediately" in configuration:
                configuration["blocking"] = not configuration.pop("returnImmediately")
            if "taskPushNotificationConfig" in configuration:
                push = configuration.pop("taskPushNotificationConfig")
                configuration["pushNotificationConfig"] = push
            sent["configuration"] = configuration
        return sent

    def state(self, name: str) -> str:
        return _STATES[name]

    def _message_out(self, message: Json) -> Json:
        sent: Json = {"kind": "message"} | message
        if "role" in message:
            sent["role"] = _ROLES.get(message["role"], message["role"])
        if "parts" in message:
            sent["parts"] = [self._part_out(part) for part in message["parts"]]
        return sent

    def _part_out(self, part: Json) -> Json:
        extra = {"metadata": part["metadata"]} if "metadata" in part else {}
        if "text" in part:
            return {"kind": "text", "text": part["text"]} | extra
        if "data" in part:
            return {"kind": "data", "data": part["data"]} | extra
        file = {
            old: part[new]
            for old, new in (
                ("bytes", "raw"),
                ("uri", "url"),
                ("name", "filename"),
                ("mimeType", "mediaType"),
            )
            if new in part
        }
        return {"kind": "file", "file": file} | extra

    def task(self, value: Json) -> Json:
        assert value["kind"] == "task"
        assert {"id", "contextId", "status"} <= set(value)
        task = {name: value[name] for name in value if name != "kind"}
        task["status"] = self._status(value["status"])
        if "artifacts" in value:
            task["artifacts"] = [self._artifact(artifact) for artifact in value["artifacts"]]
        if "history" in value:
            task["history"] = [self.message(message) for message in value["history"]]
        return task

    def _status(self, value: Json) -> Json:
        status = dict(value)
        status["state"] = _flipped(_STATES)[value["state"]]
        if "message" in value:
            status["message"] = self.message(value["message"])
        return status

    def message(self, value: Json) -> Json:
        assert value["kind"] == "message"
        assert {"messageId", "role", "parts"} <= set(value)
        message = {name: value[name] for name in value if name != "kind"}
        message["role"] = _flipped(_ROLES)[value["role"]]
        message["parts"] = [self._part(part) for part in value["parts"]]
        return message

    def _artifact(self, value: Json) -> Json:
        return value | {"parts": [self._part(part) for part in value["parts"]]}

    def _part(self, value: Json) -> Json:
        part = {"metadata": value["metadata"]} if "metadata" in value else {}
        match value["kind"]:
            case "text":
                return part | {"text": value["text"]}
            case "data":
                assert isinstance(value["data"], dict)
                return part | {"data": value["data"]}
            case "file":
                names = {
                    "bytes": "raw",
                    "uri": "url",
                    "name": "filename",
                    "mimeType": "mediaType",
                }
                return part | {names[name]: item for name, item in value["file"].items()}
            case _:
                raise AssertionError(f"unknown part {value}")

    def event(self, value: Json) -> tuple[str, Json]:
        match value["kind"]:
            case "task":
                return "task", self.task(value)
            case "message":
                return "message", self.message(value)
            case "status-update":
                assert isinstance(value["final"], bool)
                return "statusUpdate", value | {"status": self._status(value["status"])}
            case "artifact-update":
                return "artifactUpdate", value | {"artifact": self._artifact(value["artifact"])}
            case _:
                raise AssertionError(f"unknown event {value}")


class V03Rest:
    """0.3 over REST: the ProtoJSON of its gRPC definition."""

    def send(self, params: Json) -> Json:
        sent = {"message": self._message_out(params["message"])}
        if "metadata" in params:
            sent["metadata"] = params["metadata"]
        if "configuration" in params:
            configuration = dict(params["configuration"])
            # What is not said is false in a proto, and most callers want to wait.
            configuration["blocking"] = not configuration.pop("returnImmediately", False)
            if "taskPushNotificationConfig" in configuration:
                push = configuration.pop("taskPushNotificationConfig")
                configuration["pushNotification"] = push
            sent["configuration"] = configuration
        return sent

    def state(self, name: str) -> str:
        return _spelled(name)

    def _message_out(self, message: Json) -> Json:
        sent = {name: message[name] for name in message if name != "parts"}
        if "parts" in message:
            sent["content"] = [self._part_out(part) for part in message["parts"]]
        return sent

    def _part_out(self, part: Json) -> Json:
        extra = {"metadata": part["metadata"]} if "metadata" in part else {}
        if "text" in part:
            return {"text": part["text"]} | extra
        if "data" in part:
            return {"data": {"data": part["data"]}} | extra
        file = {
            old: part[new]
            for old, new in (
                ("fileWithBytes", "raw"),
                ("fileWithUri", "url"),
                ("name", "filename"),
                ("mimeType", "mediaType"),
            )
            if new in part
        }
        return {"file": file} | extra

    def task(self, value: Json) -> Json:
        assert "kind" not in value
        assert {"id", "contextId", "status"} <= set(value)
        task = dict(value)
        task["status"] = self._status(value["status"])
        if "artifacts" in value:
            task["artifacts"] = [self._artifact(artifact) for artifact in value["artifacts"]]
        if "history" in value:
            task["history"] = [self.message(message) for message in value["history"]]
        return task

    def _status(self, value: Json) -> Json:
        status = dict(value)
        status["state"] = {_spelled(name): name for name in _STATES}[value["state"]]
        if "message" in value:
            status["message"] = self.message(value["message"])
        return status

    def message(self, value: Json) -> Json:
        assert not {"kind", "parts"} & set(value)
        assert {"messageId", "role", "content"} <= set(value)
        assert value["role"] in _ROLES
        message = {name: value[name] for name in value if name != "content"}
        message["parts"] = [self._part(part) for part in value["content"]]
        return message

    def _artifact(self, value: Json) -> Json:
        return value | {"parts": [self._part(part) for part in value["parts"]]}

    def _part(self, value: Json) -> Json:
        assert "kind" not in value
        assert len({"text", "file", "data"} & set(value)) == 1
        part = {"metadata": value["metadata"]} if "metadata" in value else {}
        if "text" in value:
            return part | {"text": value["text"]}
        if "data" in value:
            return part | {"data": value["data"]["data"]}
        names = {
            "fileWithBytes": "raw",
            "fileWithUri": "url",
            "name": "filename",
            "mimeType": "mediaType",
        }
        return part | {names[name]: item for name, item in value["file"].items()}

    def event(self, value: Json) -> tuple[str, Json]:
        [(kind, inner)] = value.items()
        match kind:
            case "task":
                return kind, self.task(inner)
            case "message":
                return kind, self.message(inner)
            case "statusUpdate":
                assert isinstance(inner["final"], bool)
                return kind, inner | {"status": self._status(inner["status"])}
            case "artifactUpdate":
                return kind, inner | {"artifact": self._artifact(inner["artifact"])}
            case _:
                raise AssertionError(f"unknown event {kind}")


def _spelled(state: str) -> str:
    """The proto of 0.3 has two Ls in one of them."""
    return state.replace("CANCELED", "CANCELLED")


def _flipped(names: dict[str, str]) -> dict[str, str]:
    return {old: new for new, old in names.items()}

"""The profile of an agent as a file has it, with the styles and presets of OpenClaw.

`own_profile` hands the styles in to the engine, which knows them by other names.
"""

from typing import Annotated, Any, Final, Literal

from trunkline.model.profile import GatewayTexts, Profile, ProfileKeys, doc
from trunkline.settings import hub_profile
from trunkline.settings.hub_profile import HubKeys


class ProfileSettings(HubKeys, frozen=True, kw_only=True):
    """The keys of a profile, with the names and descriptions of its styles."""

    # Outbound on the channel.
    message_context: Annotated[
        Literal["openclaw-inbound", "openclaw-design"],
        doc("Mapping of the message for backends that serve OpenClaw channels."),
    ] = "openclaw-inbound"
    # Shape of a stream.
    artifact_style: Annotated[
        Literal["answer", "openclaw-inbound", "openclaw-design"],
        doc(
            "Artifacts that the gateway makes of the output. `answer`: one for each "
            "message and each tool call. `openclaw-inbound`: `assistant-output-0001`, "
            "`tool-progress-…`, `tool-result-0001`; a task also reports `submitted` "
            "before `working`, and a canceled task ends with the last text of the "
            "agent. `openclaw-design`: only tool results, as JSON text."
        ),
    ] = "answer"
    # Addresses and cards.
    card_style: Annotated[
        Literal["standard", "openclaw-inbound", "openclaw-design", "hub"],
        doc(
            "Additions to the 0.3 card. `openclaw-inbound` lists the interface twice "
            "and sets `stateTransitionHistory` to false; `openclaw-design` sets it to "
            "true and also lists the schemes in `authentication`. `hub`: a client that names no "
            "version gets the card of the hub, with one skill `ask` and the session token as "
            "credential; no client keeps it without asking again."
        ),
    ] = "standard"
    # Wire dialect.
    message_checks: Annotated[
        Literal["strict", "openclaw-inbound"],
        doc(
            "`openclaw-inbound` accepts messages of either role and media types that "
            "are not on the card, ignores 0.3 JSON-RPC parts of an unknown kind, and "
            "answers an empty message with a message that says so."
        ),
    ] = "strict"
    error_style: Annotated[
        Literal["standard", "openclaw-inbound"], doc("Codes and texts of JSON-RPC errors.")
    ] = "standard"

    def own_profile(self) -> Profile:
        """The keys of the profile alone, with the styles under the names that the engine has."""
        keys = {name: getattr(self, name) for name in ProfileKeys.__struct_fields__}
        for name, names in _ENGINE_NAMES.items():
            keys[name] = names.get(keys[name], keys[name])
        return Profile(**keys, texts=self._texts())

    def _texts(self) -> GatewayTexts:
        if self.artifact_style == "openclaw-inbound":
            return _INBOUND_TEXTS
        return hub_profile.TEXTS if self.wire_style == hub_profile.HUB else GatewayTexts()


_ENGINE_NAMES: Final = {
    "artifact_style": {"openclaw-inbound": "numbered", "openclaw-design": "tool-results"},
    "message_context": {"openclaw-inbound": "channel", "openclaw-design": "inline"},
}
_INBOUND_TEXTS: Final = GatewayTexts(
    empty_answer="OpenClaw completed without a user-visible terminal reply.",
    approval="OpenClaw is waiting for tool approval to continue.",
    cancel="Task cancellation requested by the client.",
)

# The keys in which a preset differs from `standard`.
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "openclaw-inbound": {
        "dialect": "v0.3",
        "default_version": "0.3",
        "retention_s": 0.0,
        "cancel_terminal": "passthrough",
        "on_restart": ("leave_orphaned",),
        "stream_replay": False,
        "agent_style": "hybrid",
        "files": "reject",
        "files_reject_code": -32602,
        "unnamed_output": "card",
        "list_tasks": "hidden",
        "history_default": "none",
        "subscribe_ended": "snapshot",
        "subscribe_pause": "close",
        "question_is_final": False,
        "artifact_style": "openclaw-inbound",
        "addresses": "exact",
        "card_style": "openclaw-inbound",
        "message_checks": "openclaw-inbound",
        "error_style": "openclaw-inbound",
    },
    "openclaw-design": {
        "dialect": "v0.3-legacy",
        "default_version": "0.3",
        "session_key": "literal",
        "queued_send": "return",
        "overflow": "error",
        "agent_style": "task-generating",
        "stream_shape": "status-text",
        "result_in": ("status", "history"),
        "message_context": "openclaw-design",
        "artifact_style": "openclaw-design",
        "card_style": "openclaw-design",
    },
}

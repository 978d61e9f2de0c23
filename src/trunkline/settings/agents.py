"""Settings of one published agent."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

DEFAULT_MODES = ("text/plain", "application/json")


class EchoBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="echo"
):
    """Answers with what it was told."""


class PythonBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="python"
):
    """An agent written in Python, run in this process."""

    target: Annotated[
        str,
        Meta(
            description="`file.py`, `file.py:attribute`, `module` or `module:attribute`. Relative "
            "files start at the folder of this file."
        ),
    ]


class ScriptedBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="scripted"
):
    """Follows the commands in the message; for tests of clients."""


# One more kind of backend is one more member here.
BackendSettings = EchoBackend | PythonBackend | ScriptedBackend


class SkillSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A skill as the agent card shows it."""

    id: Annotated[str, Meta(min_length=1, description="Unique within the agent.")]
    name: Annotated[str, Meta(description="Name for people. Empty: the id.")] = ""
    description: Annotated[str, Meta(description="What it does. Empty: the name.")] = ""
    tags: Annotated[tuple[str, ...], Meta(description="Words to find it by.")] = ()
    examples: Annotated[tuple[str, ...], Meta(description="Prompts that it handles well.")] = ()
    input_modes: Annotated[
        tuple[str, ...], Meta(description="Media types it takes. Empty: those of the agent.")
    ] = ()
    output_modes: Annotated[
        tuple[str, ...], Meta(description="Media types it gives. Empty: those of the agent.")
    ] = ()


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who offers the agent."""

    organization: Annotated[str, Meta(min_length=1, description="Name of the organization.")]
    url: Annotated[str, Meta(description="Its web site, http or https.")]


class ExtensionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A protocol extension that the agent declares."""

    uri: Annotated[str, Meta(description="Identifies the extension; an absolute URI.")]
    description: Annotated[str, Meta(description="How the agent uses it.")] = ""
    required: Annotated[
        bool, Meta(description="Refuse requests that do not declare the extension.")
    ] = False
    params: Annotated[
        dict[str, Any] | None, Meta(description="Parameters of the extension, free in form.")
    ] = None


class ExtendedCardSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What only authenticated callers see in the card; empty keys keep the public value."""

    name: Annotated[str, Meta(description="Name instead of the public one.")] = ""
    description: Annotated[str, Meta(description="Description instead of the public one.")] = ""
    skills: Annotated[
        tuple[SkillSettings, ...], Meta(description="Skills in addition to the public ones.")
    ] = ()
    extensions: Annotated[
        tuple[ExtensionSettings, ...],
        Meta(description="Extensions in addition to the public ones."),
    ] = ()
    documentation_url: Annotated[str, Meta(description="Instead of the public one.")] = ""


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published agent. Its table is named after the handle, `[agents."owner/slug"]`."""

    name: Annotated[
        str,
        Meta(
            description="Name for people. May be empty with a `python` backend: then the agent's "
            "own name, description and skills are taken where this table has none."
        ),
    ] = ""
    description: Annotated[str, Meta(description="What the agent is for.")] = ""
    version: Annotated[str, Meta(min_length=1, description="The agent's own version.")] = "1.0.0"
    default: Annotated[
        bool,
        Meta(
            description="Serve it at `/.well-known/agent-card.json`, `/a2a/jsonrpc` and "
            "`/a2a/rest` as well. A sole agent is the default."
        ),
    ] = False
    backend: Annotated[
        BackendSettings,
        Meta(description='What runs the agent, for example `{ kind = "echo" }`; see its kinds.'),
    ]
    skills: Annotated[tuple[SkillSettings, ...], Meta(description="Skills on the card.")] = ()
    input_modes: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Media types the agent takes.")
    ] = DEFAULT_MODES
    output_modes: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Media types the agent gives.")
    ] = DEFAULT_MODES
    provider: Annotated[
        ProviderSettings | None, Meta(description="Who offers the agent, on the card.")
    ] = None
    documentation_url: Annotated[
        str, Meta(description="Documentation for people, on the card.")
    ] = ""
    icon_url: Annotated[str, Meta(description="Picture of the agent, on the card.")] = ""
    tenants: Annotated[
        tuple[str, ...], Meta(description="Tenants that are accepted. Empty: any tenant.")
    ] = ()
    extensions: Annotated[
        tuple[ExtensionSettings, ...], Meta(description="Protocol extensions on the card.")
    ] = ()
    extended_card: Annotated[
        ExtendedCardSettings | None,
        Meta(description="Adds to the card for authenticated callers. Absent: no extended card."),
    ] = None
    default_version: Annotated[
        Literal["1.0", "0.3"],
        Meta(description="Protocol version of a request that shows none in any way."),
    ] = "1.0"
    deduplicate_messages: Annotated[
        bool,
        Meta(description="A message id sent twice by one caller gives the first task again."),
    ] = False
    max_queue_per_context: Annotated[
        int, Meta(ge=1, description="Messages that may wait in one context; more are refused.")
    ] = 9999
    max_concurrency: Annotated[
        int, Meta(ge=0, description="Turns that run at once; 0 is no limit.")
    ] = 0
    task_deadline_s: Annotated[
        float, Meta(gt=0, description="Seconds after which a running turn is failed.")
    ] = 1800.0
    cancel_grace_s: Annotated[
        float, Meta(ge=0, description="Seconds that a canceled run gets to stop by itself.")
    ] = 5.0
    streaming: Annotated[bool, Meta(description="Offer streams, on the card and in fact.")] = True
    agent_card_path: Annotated[
        str, Meta(description="Path of the card. Empty: the standard address.")
    ] = ""
    jsonrpc_path: Annotated[
        str, Meta(description="Path of the JSON-RPC binding. Empty: the standard address.")
    ] = ""
    rest_path: Annotated[
        str, Meta(description="Root of the HTTP+JSON binding. Empty: the standard address.")
    ] = ""

"""Findings of `trunkline doctor` about an agent that speaks ACP."""

from trunkline.backends.acp.session import DONE_WITH, CallFailed, Conversation, NotSpoken
from trunkline.backends.acp.settings import AcpBackend
from trunkline.backends.json_values import table
from trunkline.backends.kind import Resources
from trunkline.backends.programs.children import CannotStart, Children
from trunkline.ports.backend import Finding


async def check(settings: AcpBackend, resources: Resources) -> list[Finding]:
    """Whether the program is there, starts and speaks the protocol."""
    children, name = Children(settings, resources.clock), settings.command[0]
    if (missing := children.program.missing()) is not None:
        return [missing]
    try:
        child = await children.spawn(settings.command[1:])
        conversation = Conversation(child)
        with children.killed_after(child, settings.start_timeout_s):
            await conversation.introduce()
    except (CannotStart, NotSpoken, CallFailed, *DONE_WITH) as error:
        words = settings.without_secrets(str(error))
        what = f"{name} does not answer as an ACP agent: {words}".rstrip(": ")
        return [Finding("error", what, "Run it by hand, and look at what it prints.")]
    finally:
        await children.close()
    found = [Finding("ok", f"{name} speaks ACP 1")]
    if conversation.capabilities.get("loadSession") is not True:
        what = "the agent cannot load sessions: a conversation begins anew after a restart"
        found.append(Finding("warning", what))
    mcp = table(conversation.capabilities.get("mcpCapabilities"))
    if settings.tools and mcp.get("http") is not True:
        what = "the agent takes no MCP servers over HTTP: it finds the tools of the gateway in its"
        found.append(Finding("warning", f"{what} environment alone"))
    elif (without := children.program.without_mcp()) is not None:
        found.append(without)
    return found

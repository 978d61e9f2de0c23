"""`text_of`: what each member of the HTTP interface means.

A member of one name means the same in every type, so most have one text. Those that belong to one
feature alone stand beside its routes (`Route.texts`).
"""

from collections.abc import Mapping
from typing import Final

_MEMBERS: Final[Mapping[str, str]] = {
    "id": "The id, which stays the same for ever.",
    "name": "The name that people read.",
    "description": "What it is for, in some sentences.",
    "handle": "The owner and the slug, as `owner/slug`.",
    "owner": "The owner of the agent; without, the one that the caller manages.",
    "slug": "The second part of the handle: lower-case letters, digits and dashes.",
    "tagline": "One line about the agent, for lists.",
    "status": "`published` agents can be called; a `draft` or a `deleted` agent is unknown to all "
    "but those who manage it.",
    "visibility": "`public`: in lists, with a card for everyone. `unlisted`: in no list. "
    "`private`: unknown to callers without a grant.",
    "source": "Agents of a configuration file are changed there; `temporary` ones end with the "
    "gateway.",
    "version": "Rises with every change. A change that names another version than the present one "
    "is refused with 409; 0 names none.",
    "skills": "The skills on the card of the agent.",
    "limits": "The limits of the agent; what is absent from a change stays as it is.",
    "isolated": "Whether the agent answers from its own context alone, without tools that reach "
    "other sessions.",
    "profile": "The preset of its profile.",
    "backend": 'The table of the backend, such as `{"kind": "echo"}`, with the keys of the '
    "configuration. Secrets are shown as `***`.",
    "settings": "Further keys of the agent's table in the configuration.",
    "problem": "Why a published agent cannot be called; empty when it can.",
    "cardPath": "The path of its card.",
    "jsonrpcPath": "The path of its JSON-RPC interface.",
    "restPath": "The path of its HTTP+JSON interface; empty where it has none.",
    "versions": "The versions of A2A in which it can be called.",
    "queue": "Its turns at this gateway.",
    "running": "How many run.",
    "waiting": "How many wait for their turn.",
    "backendKind": "The kind of its backend, which operators see.",
    "online": "Whether the backend is there.",
    "queriesToday": "Queries since the beginning of the day in UTC; absent where none are counted.",
    "queriesAllTime": "Queries since the agent exists; absent where none are counted.",
    "lastQueryAt": "The time of the last query.",
    "createdAt": "The time of its creation.",
    "createdBy": "The id of the principal that created it.",
    "updatedAt": "The time of the last change.",
    "updatedBy": "The id of the principal that changed it last.",
    "items": "The items of this page.",
    "nextPageToken": "The `pageToken` of the next page; empty on the last one.",
    "pageToken": "The `nextPageToken` of the page before; empty for the first page.",
    "pageSize": "Maximum number of items in a page.",
    "mine": "Only agents that the caller manages, in any state but deleted.",
    "q": "Words that occur in the handle, the name, the tagline, the description or the skills.",
    "tags": "Words by which skills are found.",
    "examples": "Messages that the skill is for.",
    "inputModes": "Media types that the skill takes.",
    "outputModes": "Media types that the skill produces.",
    "links": "Addresses of the gateway.",
    "openapi": "The OpenAPI document.",
    "reference": "The reference page.",
    "aiCatalog": "The agents that everyone may know, as an AI Catalog.",
    # Tokens.
    "token": "The token. It is shown once; the gateway keeps only its digest.",
    "prefix": "The beginning of the token, by which people tell it apart.",
    "kind": "A session of a person, or a key.",
    "principal": "The id of the principal, which tasks, grants and the audit name.",
    "scopes": "`read` and `call` allow operations of A2A, `admin` to manage agents and tokens.",
    "agents": "Handles, `owner/*` or `*`: the agents that a service may call, or those among the "
    "person's own that a key is limited to.",
    "methods": "Operations of A2A by their names, such as `SendMessage`; without, all that the "
    "scopes allow.",
    "open": "Whether it may also call every agent that is public or unlisted.",
    "personal": "Whether it is a key of the caller's own, and not of a service.",
    "roles": "`operator`, or `owner:NAME` for the agents that it manages.",
    "expiresAt": "The time after which it is refused; null for never.",
    "expiresInSeconds": "For how long it is valid; without, for ever, or as long as the token that "
    "it replaces was given for.",
    "overlapSeconds": "For how long the old token stays valid.",
    "revokedAt": "The time when it was revoked.",
    "lastUsedAt": "The time of its last use, to the minute; null if it was never used.",
    "replacedBy": "The id of the token that took its place; empty for none.",
    "current": "Whether the request was made with it.",
    "agent": "The handle of the agent.",
    "grantedAt": "The time of the grant.",
    "grantedBy": "The id of the principal that gave it.",
    # OAuth.
    "grant_type": "`client_credentials`, or another one that the description names.",
    "client_id": "The id of the key.",
    "client_secret": "The key.",
    "scope": "Scopes, separated by spaces.",
    "access_token": "The token for `Authorization: Bearer`.",
    "token_type": "`Bearer`.",
    "expires_in": "For how many seconds it is valid.",
    "error_description": "The reason, for people.",
    # People.
    "login": "The name by which a person signs in.",
    "displayName": "The name of the person.",
    "user": "The person; null for a caller that is none.",
    # The sign-in.
    "provider": "The provider to sign in with; without, the only one, or a page to choose one.",
    "next": "A path of this gateway to go to afterwards.",
    "redirect_uri": "Where a program listens, such as `http://localhost:PORT/callback`.",
    "state": "A text that comes back unchanged.",
    "code_challenge": "The challenge of PKCE (RFC 7636).",
    "code_challenge_method": "`S256`.",
    "code": "The code for one exchange.",
    "code_verifier": "The verifier of PKCE (RFC 7636).",
    "iss": "The issuer, as RFC 9207 has it.",
    "error": "The error of the provider.",
    "csrf": "The token that the page has put into its form.",
    "password": "The password.",
    # The report of the audit.
    "days": "The number of days of the report, today included.",
    "since": "The beginning of the first day, in UTC.",
    "window": "The time that the report is about.",
    "summary": "The figures of the whole time.",
    "total": "The number of attempts.",
    "ok": "How many of them, or whether it, succeeded.",
    "denied": "How many were refused.",
    "avgLatencyMs": "The mean time of an answer; null where no call has ended.",
    "distinctAskers": "How many callers there were. Beyond a thousand in a day, further ones count "
    "as one.",
    "topAskers": "The callers with the most calls.",
    "recent": "The last calls, the newest first.",
    "count": "The number of calls.",
    "lastAt": "The time of the last call.",
    "ts": "The time of the call.",
    "askerLogin": "The caller.",
    "latencyMs": "The time that the answer took; null where there was none.",
    "question": "The text of the message; null where the audit keeps no questions.",
    "routeId": "The id of the task; null for a call that was refused before it had one.",
    "deniedReason": "Why it was denied, or did not succeed.",
    # Calls and sessions.
    "session": "The key of the session that asked, to which the answer goes.",
    "tenant": "The tenant of the caller; empty for none.",
    "callee": "The handle of the agent that was asked.",
    "skill": "The skill that was asked for; empty for none.",
    "tool": "The tool by which the call was made; `route` for one of the configuration.",
    "taskId": "The id of the task of the agent that was asked.",
    "callerTaskId": "The id of the task whose turn has asked; empty for none.",
    "timeoutMs": "The time within which an answer is expected, in milliseconds.",
    "endedAt": "The time of its end; null while it is pending.",
    "parent": "The id of the call that the turn of the caller answers; empty for none.",
    "depth": "How many calls led to the agent that was asked.",
    "result": "The answer as it was delivered; null while there is none.",
    "key": "The key of the session.",
    "contextId": "The id of the context; empty where all contexts of the caller are one "
    "conversation.",
    "tasks": "The number of its tasks, among the latest thousand of the agent.",
    "entries": "The number of answers of other agents that came to it, among the latest thousand.",
    "changedAt": "The time of the last change.",
    "messages": "The messages, as A2A 1.0 has them.",
    "limit": "Maximum number of messages.",
    "discardedCalls": "The number of pending calls whose answers are discarded.",
}
_CALL_VIEW: Final = {
    "id": "The correlation id.",
    "agent": "The handle of the agent that has asked.",
    "principal": "The id of the principal on whose behalf it has asked.",
    "status": "`pending`, or how the call came out.",
}
_NAMED_SESSION: Final = {
    "agent": "The agent, where several have a session of this key.",
    "principal": "The principal, where several have a session of this key; for operators.",
    "tenant": "The tenant of the principal; empty for none.",
}
# Where a member means something else than in the other types.
_OF_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "Index": {"name": "The name of the program.", "version": "The release of the gateway."},
    "AgentQuery": {
        "owner": "Only agents of this owner.",
        "status": "Only agents in this state.",
    },
    "Skill": {"id": "The id of the skill within the agent."},
    "TokenView": {
        "name": "The name of the key.",
        "status": "`active`, `expired` or `revoked`.",
        "createdBy": "The id of the principal that made it.",
    },
    "NewToken": {
        "name": "The name of the key. That of a service is a part of its principal, `token:NAME`.",
        "owner": "Of a service with the scope `admin`: the owner whose agents it manages; without, "
        "all agents.",
    },
    "TokenQuery": {
        "principal": "Only tokens of this principal. Callers that are no operators see only their "
        "own.",
    },
    "CallView": _CALL_VIEW,
    "CallDetails": _CALL_VIEW,
    "CallQuery": {
        "agent": "Only calls of this agent.",
        "callee": "Only calls to this agent.",
        "status": "Only calls in this state.",
        "principal": "Only calls in sessions of this principal. Callers that are no operators see "
        "only their own.",
        "tenant": "With this tenant; without, those of callers that have none.",
    },
    "SessionView": {
        "agent": "The handle of the agent.",
        "principal": "The id of the principal whose conversation it is.",
    },
    "SessionQuery": {
        "agent": "Only sessions with this agent.",
        "principal": "Only sessions of this principal. Callers that are no operators see only "
        "their own.",
        "tenant": "With this tenant; without, those of callers that have none.",
    },
    "NamedSession": _NAMED_SESSION,
    "TranscriptQuery": _NAMED_SESSION,
    "GrantView": {"principal": "The person, `user:LOGIN`, or the service, `token:NAME`."},
    "OAuthRefusal": {"error": "The reason, for programs."},
    "Me": {"token": "The id of the credential."},
}


def text_of(kind: str, member: str, more: Mapping[str, str]) -> str:
    """The text of a member of the type; empty for one without. `more` has texts by the name of the
    member, or by `Type.member`."""
    own = more.get(f"{kind}.{member}") or _OF_TYPES.get(kind, {}).get(member)
    return own or more.get(member) or _MEMBERS.get(member, "")

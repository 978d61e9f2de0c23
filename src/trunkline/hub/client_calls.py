"""`HubCalls`: the calls of a hub, one for each of its routes.

Written by tools/gen_hub_client.py from the table of routes; run it after a change of a route.
"""

from typing import Any, Literal

from trunkline.api.about import Index
from trunkline.api.check_types import CheckRequest, CheckResult
from trunkline.api.gateway_view import GatewayView, NodeList
from trunkline.api.me import KeyBody, Me
from trunkline.api.recording_types import NewRecording, RecordingList, RecordingView
from trunkline.hub.agent_cards import CardView
from trunkline.hub.agent_changes import NewAgent
from trunkline.hub.agent_views import AgentView
from trunkline.hub.agents_api import AgentPage, AgentPatch, AgentQuery, VersionQuery
from trunkline.hub.audit_api import AuditPage, AuditQuery, InboundQuery, Verification
from trunkline.hub.calls_api import CallPage, CallQuery
from trunkline.hub.client_http import HubHttp, path_of
from trunkline.hub.grants_api import GrantPage, GrantQuery, GrantView, NewGrant
from trunkline.hub.inbound import InboundReport
from trunkline.hub.oauth_token_api import AccessToken, OAuthForm
from trunkline.hub.sessions_api import (
    EndedSession,
    NamedSession,
    SessionPage,
    SessionQuery,
    Transcript,
    TranscriptQuery,
)
from trunkline.hub.sign_in_api import StartQuery
from trunkline.hub.token_changes import IssuedToken
from trunkline.hub.token_requests import NewToken, Rotation
from trunkline.hub.tokens_api import TokenPage, TokenQuery
from trunkline.hub.visits_api import NewVisit, VisitPage, VisitView
from trunkline.ports.call_views import CallDetails
from trunkline.ports.task_views import (
    EventQuery,
    TaskDetails,
    TaskEvent,
    TaskEvents,
    TaskExport,
    TaskList,
    TaskListQuery,
    Timeline,
)
from trunkline.ports.wire_views import (
    FaultBody,
    FaultView,
    RecordedAgent,
    RecordingBody,
    WireDetails,
    WireExportQuery,
    WirePage,
    WireQuery,
    WireSession,
    WireSettings,
)


class HubCalls:
    def __init__(self, http: HubHttp) -> None:
        self._http = http

    async def agent_call(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask another agent: a tool for the program of an agent. Ask another agent of this
        gateway. It answers at once with the status pending; the answer itself arrives
        later in this conversation, as a skill_response with the same correlationId. With
        wait, the result is the answer. An answer with the status input_required is a
        question: answer it by a new call with its taskId.
        """
        return await self._http.value(dict[str, Any], "POST", "/tools/agent_call", body=body)

    async def agent_call_batch(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask several agents: a tool for the program of an agent. Ask several agents of this
        gateway, or one of them several times, side by side. The result has an entry for
        each call, in their order; one that fails does not stop the others.
        """
        return await self._http.value(dict[str, Any], "POST", "/tools/agent_call_batch", body=body)

    async def agent_poll(self, body: dict[str, Any]) -> dict[str, Any]:
        """See how a call stands: a tool for the program of an agent. Tell how a call of this
        conversation stands: working, completed, error, input_required or timeout, with its
        output where there is one.
        """
        return await self._http.value(dict[str, Any], "POST", "/tools/agent_poll", body=body)

    async def begin_visit(self, body: NewVisit) -> VisitView:
        """Publish an agent elsewhere as `visit/NAME`, until the gateway stops. Only operators
        may do this, where `visits` in `[console]` allows it. An agent that is visited
        already gets the new headers.
        """
        return await self._http.value(VisitView, "POST", "/visits", body=body)

    async def change_agent(self, id: str, body: AgentPatch) -> AgentView:
        """Change members of an agent; those that are absent keep their values."""
        return await self._http.value(AgentView, "PATCH", path_of("/agents/{id}", id=id), body=body)

    async def check_message(self, body: CheckRequest) -> CheckResult:
        """Check a message, a card or a stream against the rules of A2A. Nothing is sent or
        stored. At most 100 findings are returned.
        """
        return await self._http.value(CheckResult, "POST", "/checks", body=body)

    async def choose_provider(
        self,
        *,
        provider: str = "",
        next: str = "",
        redirect_uri: str = "",
        state: str = "",
        code_challenge: str = "",
        code_challenge_method: str = "",
    ) -> str:
        """Show a page with the providers at which people sign in."""
        return await self._http.text(
            "GET",
            "/auth/oauth/providers",
            query=StartQuery(
                provider=provider,
                next=next,
                redirect_uri=redirect_uri,
                state=state,
                code_challenge=code_challenge,
                code_challenge_method=code_challenge_method,
            ),
        )

    async def clear_wire(self) -> None:
        """Forget all recorded requests. Requests under way are not recorded further. For
        operators.
        """
        await self._http.nothing("DELETE", "/wire")

    async def create_agent(self, body: NewAgent) -> AgentView:
        """Create an agent, or restore a deleted one with new values."""
        return await self._http.value(AgentView, "POST", "/agents", body=body)

    async def create_recording(self, body: NewRecording) -> RecordingView:
        """Publish an agent that plays a recorded task again. For operators. The agent
        `recording/SLUG` answers any message with the recorded events. It is in no list,
        and only callers whose grants cover it reach it. Other nodes that share the store
        have it when they start the next time.
        """
        return await self._http.value(RecordingView, "POST", "/recordings", body=body)

    async def create_token(self, body: NewToken) -> IssuedToken:
        """Create a key. The answer is the only place where it is shown. Operators create keys
        of services, each a principal of its own. Other people create keys of their own,
        which reach what the person reaches or less.
        """
        return await self._http.value(IssuedToken, "POST", "/tokens", body=body)

    async def debate_call(self, body: dict[str, Any]) -> dict[str, Any]:
        """Have agents debate: a tool for the program of an agent. Have agents of this gateway
        debate a topic: one proposes, critics find flaws, the proposer refines, for some
        rounds or until it is sure enough, and a resolver concludes. The result has the
        conclusion, its confidence, all rounds and the dissent.
        """
        return await self._http.value(dict[str, Any], "POST", "/tools/debate_call", body=body)

    async def delete_agent(self, id: str, *, version: int = 0) -> None:
        """Delete an agent. Its handle can be published again, with the tasks it had."""
        await self._http.nothing(
            "DELETE", path_of("/agents/{id}", id=id), query=VersionQuery(version=version)
        )

    async def delete_fault(self, id: str) -> None:
        """End the fault of an agent. For operators."""
        await self._http.nothing("DELETE", path_of("/agents/{id}/fault", id=id))

    async def delete_recording(self, slug: str) -> None:
        """Withdraw an agent that plays a recorded task. For operators. Its own tasks stay."""
        await self._http.nothing("DELETE", path_of("/recordings/{slug}", slug=slug))

    async def end_session(
        self, key: str, *, agent: str = "", principal: str = "", tenant: str = ""
    ) -> EndedSession:
        """End a session. Its messages and entries belong to no later turn, the answers to its
        pending calls are discarded, and programs lose their tools. Its tasks stay.
        """
        return await self._http.value(
            EndedSession,
            "DELETE",
            path_of("/sessions/{key}", key=key),
            query=NamedSession(agent=agent, principal=principal, tenant=tenant),
        )

    async def end_visit(self, slug: str) -> None:
        """Withdraw an agent that was visited. Its tasks stay. Only operators may do this."""
        await self._http.nothing("DELETE", path_of("/visits/{slug}", slug=slug))

    async def exchange_key(self, body: KeyBody) -> None:
        """Exchange an API key of the configuration for a session of the page. The session is
        in a cookie, which counts only together with the header `Trunkline-Page: 1`. It
        stands for the key, and ends with it.
        """
        await self._http.nothing("POST", "/auth/key", body=body)

    async def export_task(self, id: str) -> TaskExport:
        """Download a task with its whole journal as one JSON file."""
        return await self._http.value(TaskExport, "GET", path_of("/tasks/{id}/export", id=id))

    async def export_wire(self, *, agent: str = "", task_id: str = "") -> WireSession:
        """Download recorded requests as a file that the page opens. For operators."""
        return await self._http.value(
            WireSession, "GET", "/wire/export", query=WireExportQuery(agent=agent, task_id=task_id)
        )

    async def get_access_token(self, body: OAuthForm) -> AccessToken:
        """Exchange a credential for a token (RFC 6749). With `grant_type=client_credentials`
        the client id is the id of a key, and the client secret the key; they may come as
        HTTP Basic instead.
        """
        return await self._http.form(AccessToken, "POST", "/auth/oauth/token", body=body)

    async def get_agent(self, id: str) -> AgentView:
        """Get an agent."""
        return await self._http.value(AgentView, "GET", path_of("/agents/{id}", id=id))

    async def get_agent_by_handle(self, owner: str, slug: str) -> AgentView:
        """Get an agent by its handle, whatever the case of its letters."""
        return await self._http.value(
            AgentView, "GET", path_of("/agents/by-handle/{owner}/{slug}", owner=owner, slug=slug)
        )

    async def get_agent_card(self, id: str) -> CardView:
        """Get the card of an agent, with what checks of it found."""
        return await self._http.value(CardView, "GET", path_of("/agents/{id}/card", id=id))

    async def get_call(self, id: str) -> CallDetails:
        """Get a call by its correlation id, with its outcome."""
        return await self._http.value(CallDetails, "GET", path_of("/calls/{id}", id=id))

    async def get_fault(self, id: str) -> FaultView:
        """Tell which fault an operator has injected into the answers of an agent. For
        operators.
        """
        return await self._http.value(FaultView, "GET", path_of("/agents/{id}/fault", id=id))

    async def get_gateway(self) -> GatewayView:
        """Show what the gateway is, and to operators how it is."""
        return await self._http.value(GatewayView, "GET", "/gateway")

    async def get_inbound(self, id: str, *, days: int = 7) -> InboundReport:
        """Report who has called an agent in the last days, and how that ended."""
        return await self._http.value(
            InboundReport,
            "GET",
            path_of("/agents/{id}/inbound", id=id),
            query=InboundQuery(days=days),
        )

    async def get_index(self) -> Index:
        """Show what is served here."""
        return await self._http.value(Index, "GET", "")

    async def get_me(self) -> Me:
        """Show who the caller is."""
        return await self._http.value(Me, "GET", "/auth/me")

    async def get_openapi(self) -> dict[str, Any]:
        """Get this reference as an OpenAPI document."""
        return await self._http.value(dict[str, Any], "GET", "/openapi.json")

    async def get_reference(self) -> str:
        """Get this reference as a page."""
        return await self._http.text("GET", "/reference")

    async def get_sign_in_page(self) -> str:
        """Show the form for login and password, or who is signed in."""
        return await self._http.text("GET", "/auth/sign-in")

    async def get_task(self, id: str) -> TaskDetails:
        """Get a task, as A2A 1.0 has it, with its place in the journal."""
        return await self._http.value(TaskDetails, "GET", path_of("/tasks/{id}", id=id))

    async def get_task_event(self, id: str, seq: str) -> TaskEvent:
        """Get one entry of a task's journal, with all of its texts."""
        return await self._http.value(
            TaskEvent, "GET", path_of("/tasks/{id}/events/{seq}", id=id, seq=seq)
        )

    async def get_task_test(self, id: str) -> str:
        """Get a task as a test in Python, which sends its messages again. A file for pytest
        that needs Python alone. It sends the messages of the task in their order to any
        agent, and checks the states and answers that were recorded. Texts of the task are
        literals in it, so that none becomes code.
        """
        return await self._http.text("GET", path_of("/tasks/{id}/test", id=id))

    async def get_task_timeline(self, id: str) -> Timeline:
        """Get the states, the turns and the idle times of a task. Of the times of at least
        one second in which nothing was recorded, the hundred longest.
        """
        return await self._http.value(Timeline, "GET", path_of("/tasks/{id}/timeline", id=id))

    async def get_transcript(
        self, key: str, *, agent: str = "", principal: str = "", tenant: str = "", limit: int = 100
    ) -> Transcript:
        """Get the last messages of a session, the oldest first. With the answers of agents
        that the agent of the session has asked.
        """
        return await self._http.value(
            Transcript,
            "GET",
            path_of("/sessions/{key}/transcript", key=key),
            query=TranscriptQuery(agent=agent, principal=principal, tenant=tenant, limit=limit),
        )

    async def get_wire(self, id: str) -> WireDetails:
        """Get a recorded request with its headers, bodies and events. For operators."""
        return await self._http.value(WireDetails, "GET", path_of("/wire/{id}", id=id))

    async def get_wire_settings(self) -> WireSettings:
        """Tell which agents are recorded, and how much is kept. For operators."""
        return await self._http.value(WireSettings, "GET", "/wire/settings")

    async def give_grant(self, id: str, principal: str, body: NewGrant) -> GrantView:
        """Let a person or a service call the agent, from its next request on. A principal is
        `user:LOGIN` for a person and `token:NAME` for a service.
        """
        return await self._http.value(
            GrantView,
            "PUT",
            path_of("/agents/{id}/grants/{principal}", id=id, principal=principal),
            body=body,
        )

    async def list_agents(
        self,
        *,
        mine: bool = False,
        owner: str = "",
        q: str = "",
        status: Literal["deleted", "draft", "published"] | None = None,
        page_size: int = 50,
        page_token: str = "",
    ) -> AgentPage:
        """List the agents that the caller may see, in the order of their handles."""
        return await self._http.value(
            AgentPage,
            "GET",
            "/agents",
            query=AgentQuery(
                mine=mine,
                owner=owner,
                q=q,
                status=status,
                page_size=page_size,
                page_token=page_token,
            ),
        )

    async def list_audit(
        self,
        *,
        kind: Literal["attempt", "change", "lost", "outcome", "refusal"] | None = None,
        agent: str = "",
        who: str = "",
        q: str = "",
        since: str = "",
        page_size: int = 50,
        page_token: str = "",
    ) -> AuditPage:
        """List the rows of the audit, the newest first; for operators."""
        return await self._http.value(
            AuditPage,
            "GET",
            "/audit",
            query=AuditQuery(
                kind=kind,
                agent=agent,
                who=who,
                q=q,
                since=since,
                page_size=page_size,
                page_token=page_token,
            ),
        )

    async def list_calls(
        self,
        *,
        agent: str = "",
        callee: str = "",
        status: Literal["completed", "discarded", "error", "input_required", "pending", "timeout"]
        | None = None,
        principal: str = "",
        tenant: str = "",
        page_size: int = 50,
        page_token: str = "",
    ) -> CallPage:
        """List calls of agents to agents: the caller's own, for operators those of all. Calls
        under way, and those that ended so recently that their outcome is kept, in the
        order of their ids. That is the order of time, the last call first, except for
        calls of routes.
        """
        return await self._http.value(
            CallPage,
            "GET",
            "/calls",
            query=CallQuery(
                agent=agent,
                callee=callee,
                status=status,
                principal=principal,
                tenant=tenant,
                page_size=page_size,
                page_token=page_token,
            ),
        )

    async def list_grants(self, id: str, *, page_size: int = 50, page_token: str = "") -> GrantPage:
        """List who may call the agent by a grant."""
        return await self._http.value(
            GrantPage,
            "GET",
            path_of("/agents/{id}/grants", id=id),
            query=GrantQuery(page_size=page_size, page_token=page_token),
        )

    async def list_nodes(self) -> NodeList:
        """List the gateways that share the main store."""
        return await self._http.value(NodeList, "GET", "/nodes")

    async def list_recordings(self) -> RecordingList:
        """List the agents that play recorded tasks. For operators."""
        return await self._http.value(RecordingList, "GET", "/recordings")

    async def list_sessions(
        self,
        *,
        agent: str = "",
        principal: str = "",
        tenant: str = "",
        page_size: int = 50,
        page_token: str = "",
    ) -> SessionPage:
        """List sessions with agents: the caller's own, for operators those of all. A session
        is the conversation of a caller with an agent, as far as it was not ended. The one
        that changed last comes first.
        """
        return await self._http.value(
            SessionPage,
            "GET",
            "/sessions",
            query=SessionQuery(
                agent=agent,
                principal=principal,
                tenant=tenant,
                page_size=page_size,
                page_token=page_token,
            ),
        )

    async def list_task_events(
        self,
        id: str,
        *,
        after: int = 0,
        limit: int = 200,
        detail: Literal["full", "summary"] = "summary",
    ) -> TaskEvents:
        """List the entries of a task's journal, in their order. Each with the time of its
        commit. `detail=full` has the events as A2A 1.0 has them, with the first characters
        in place of texts of more than 256 KB.
        """
        return await self._http.value(
            TaskEvents,
            "GET",
            path_of("/tasks/{id}/events", id=id),
            query=EventQuery(after=after, limit=limit, detail=detail),
        )

    async def list_tasks(
        self,
        *,
        agent: str = "",
        state: str = "",
        context_id: str = "",
        principal: str = "",
        tenant: str = "",
        since: str = "",
        page_size: int = 50,
        page_token: str = "",
    ) -> TaskList:
        """List tasks: the caller's own, for operators those of all. The most recent status
        first. A task that goes on while pages are read moves to the top of the list, and
        every other one is on exactly one page.
        """
        return await self._http.value(
            TaskList,
            "GET",
            "/tasks",
            query=TaskListQuery(
                agent=agent,
                state=state,
                context_id=context_id,
                principal=principal,
                tenant=tenant,
                since=since,
                page_size=page_size,
                page_token=page_token,
            ),
        )

    async def list_tokens(
        self, *, principal: str = "", page_size: int = 50, page_token: str = ""
    ) -> TokenPage:
        """List sessions and keys: the caller's own, for operators those of all."""
        return await self._http.value(
            TokenPage,
            "GET",
            "/tokens",
            query=TokenQuery(principal=principal, page_size=page_size, page_token=page_token),
        )

    async def list_visits(self) -> VisitPage:
        """List the agents elsewhere that are published for a while. Only operators may do
        this.
        """
        return await self._http.value(VisitPage, "GET", "/visits")

    async def list_wire(
        self,
        *,
        agent: str = "",
        task_id: str = "",
        side: Literal["client", "server"] | None = None,
        q: str = "",
        after: str = "",
        limit: int = 100,
    ) -> WirePage:
        """List recorded requests, the oldest first. What passed the wire of the agents that
        an operator has had recorded: requests to them, and requests of their backends. For
        operators.
        """
        return await self._http.value(
            WirePage,
            "GET",
            "/wire",
            query=WireQuery(agent=agent, task_id=task_id, side=side, q=q, after=after, limit=limit),
        )

    async def record_agent(self, id: str, body: RecordingBody) -> RecordedAgent:
        """Switch the recording of an agent on or off. It holds for the gateway that answers,
        until it stops. For operators.
        """
        return await self._http.value(
            RecordedAgent, "PUT", path_of("/wire/agents/{id}", id=id), body=body
        )

    async def revoke_token(self, id: str) -> None:
        """Revoke a session or a key, by its id or its prefix. When the answer comes, every
        node refuses the token, and all tokens that were given for it.
        """
        await self._http.nothing("DELETE", path_of("/tokens/{id}", id=id))

    async def rotate_token(self, id: str, body: Rotation) -> IssuedToken:
        """Replace a key by a new one, and let both count for a while."""
        return await self._http.value(
            IssuedToken, "POST", path_of("/tokens/{id}/rotate", id=id), body=body
        )

    async def set_fault(self, id: str, body: FaultBody) -> FaultView:
        """Inject a fault into the answers of an agent, for a while. To try how a client copes
        with slow answers, streams that break off and events that come twice. It takes the
        place of an earlier fault. For operators, on gateways that listen on loopback.
        """
        return await self._http.value(
            FaultView, "PUT", path_of("/agents/{id}/fault", id=id), body=body
        )

    async def sign_out(self) -> None:
        """Revoke the session of the caller, and clear its cookie."""
        await self._http.nothing("POST", "/auth/sign-out")

    async def take_grant(self, id: str, principal: str) -> None:
        """Take a grant away. When the answer comes, no node lets the principal in by it."""
        await self._http.nothing(
            "DELETE", path_of("/agents/{id}/grants/{principal}", id=id, principal=principal)
        )

    async def verify_audit(self) -> Verification:
        """Check that no row of the audit was changed, removed or moved; for operators. It
        reads all rows, one verification at a time. An audit of more than 500000 rows is
        checked with `trunkline audit verify`.
        """
        return await self._http.value(Verification, "POST", "/audit/verify")

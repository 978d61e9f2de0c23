"""`SignInApi`: the addresses of the sign-in, below `/api/v1/auth`."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from trunkline.api.api import Call, Route
from trunkline.api.input import FORM, read_form
from trunkline.api.me import Me, UserView
from trunkline.engine.attempts import source_of
from trunkline.hub import sign_in_pages as pages
from trunkline.hub.providers.provider import Answer
from trunkline.hub.sign_in import SignIn, error_for_program
from trunkline.hub.sign_in_flow import (
    FLOW_S,
    Program,
    SignInFlow,
    as_cookie,
    checked_next,
    checked_program,
    from_cookie,
)
from trunkline.hub.sign_in_settings import PASSWORDS
from trunkline.hub.users import User, Users
from trunkline.model.errors import (
    CallerError,
    InvalidRequest,
    PermissionDenied,
    TrunklineError,
    Unauthenticated,
    WrongMediaType,
)
from trunkline.model.principal import Principal
from trunkline.ports.clock import Clock
from trunkline.protocol.errors import message, wire

_AUTH_PATH: Final = "/api/v1/auth"
_USER: Final = "user:"


class StartQuery(Struct, frozen=True, kw_only=True):
    """Programs send all of `redirect_uri`, `state` and the two of the challenge."""

    provider: str = ""
    # A path of this gateway to go to afterwards.
    next: str = ""
    redirect_uri: str = ""
    state: str = ""
    code_challenge: str = ""
    code_challenge_method: str = ""


class CallbackQuery(Struct, frozen=True, kw_only=True):
    code: str = ""
    state: str = ""
    iss: str = ""
    error: str = ""


class PasswordForm(Struct, frozen=True, kw_only=True):
    csrf: str = ""
    login: str = ""
    password: str = ""


class Cookies(Struct, frozen=True, kw_only=True):
    """The names of the cookies, and whether browsers send them over https alone."""

    session: str
    flow: str
    is_secure: bool
    session_s: int = field(default=30 * 86_400)


class SignInApi:
    def __init__(
        self,
        sign_in: SignIn,
        *,
        users: Users,
        identify: Callable[[Request], Awaitable[Principal | None]],
        sign_out: Callable[[Principal], Awaitable[None]],
        cookies: Cookies,
        clock: Clock,
    ) -> None:
        """`sign_out` revokes the session of a principal, and raises InvalidRequest for one whose
        credential is no session."""
        self._sign_in = sign_in
        self._users = users
        self._identify = identify
        self._revoke = sign_out
        self._cookies = cookies
        self._clock = clock
        # Ends other sessions of a request, and returns cookies to set.
        self.end_others: Callable[[Request], Awaitable[Sequence[str]]] | None = None

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/auth/oauth/start",
            name="start_sign_in",
            tag="auth",
            summary="Send the browser to a provider to sign in.",
            handle=self.start,
            query=StartQuery,
            status=303,
            is_public=True,
            takes_credential=False,
            on_error=self._fault,
        )
        yield Route(
            method="GET",
            path="/auth/oauth/providers",
            name="choose_provider",
            tag="auth",
            summary="Show a page with the providers at which people sign in.",
            handle=self.choose,
            query=StartQuery,
            result_media_type="text/html",
            is_public=True,
            takes_credential=False,
            on_error=self._fault,
        )
        yield Route(
            method="GET",
            path="/auth/oauth/callback",
            name="finish_sign_in",
            tag="auth",
            summary="Take the browser back from the provider.",
            handle=self.callback,
            query=CallbackQuery,
            status=303,
            is_public=True,
            takes_credential=False,
            on_error=self._callback_fault,
        )
        yield Route(
            method="GET",
            path="/auth/sign-in",
            name="get_sign_in_page",
            tag="auth",
            summary="Show the form for login and password, or who is signed in.",
            handle=self.form,
            result_media_type="text/html",
            is_public=True,
            takes_credential=False,
            on_error=self._fault,
        )
        yield Route(
            method="POST",
            path="/auth/sign-in",
            name="check_password",
            tag="auth",
            summary="Check login and password, and continue at the callback.",
            handle=self.check,
            body=PasswordForm,
            body_media_type=FORM,
            status=303,
            is_public=True,
            takes_credential=False,
            errors=(415,),
            on_error=self._form_fault,
        )
        yield Route(
            method="GET",
            path="/auth/me",
            name="get_me",
            tag="auth",
            summary="Show who the caller is.",
            handle=self.me,
            result=Me,
        )
        yield Route(
            method="POST",
            path="/auth/sign-out",
            name="sign_out",
            tag="auth",
            summary="Revoke the session of the caller, and clear its cookie.",
            handle=self.sign_out,
            also=(303,),
            is_public=True,
            takes_credential=False,
        )

    async def start(self, call: Call) -> Response:
        query: StartQuery = call.query
        self._sign_in.check_providers()
        self._sign_in.admit(source_of_request(call.request))
        path, program = _checked(query)
        providers = self._sign_in.providers
        if not query.provider and len(providers) > 1:
            return _see(f"providers?{_start_query(query, '')}")
        name = query.provider or next(iter(providers))
        flow = self._sign_in.begin(name, next=path, program=program)
        cookie = as_cookie(flow)
        response = _see(await self._sign_in.address(flow))
        self._set(response, self._cookies.flow, cookie, FLOW_S, path=_AUTH_PATH)
        return response

    async def choose(self, call: Call) -> Response:
        query: StartQuery = call.query
        self._sign_in.check_providers()
        _, program = _checked(query)
        choices = {
            provider.title: f"start?{_start_query(query, name)}"
            for name, provider in self._sign_in.providers.items()
        }
        return pages.chooser_page(choices, program=_shown(program))

    async def form(self, call: Call) -> Response:
        flow = self._flow(call.request)
        if flow is not None and flow.provider == PASSWORDS and PASSWORDS in self._sign_in.providers:
            return self._password_page(flow)
        user = await self._signed_in(call.request)
        if user is None:
            return pages.signed_out_page()
        return pages.signed_in_page(user.display_name, user.login)

    async def check(self, call: Call) -> Response:
        form = await _form(call.request)
        flow = self._flow(call.request)
        if flow is None or flow.provider != PASSWORDS:
            raise _lost()
        # The cookie is not sent with a form of another site, and that site cannot know the token.
        if not flow.has_form_token(form.csrf):
            raise PermissionDenied("This form is not one that the gateway made; start again")
        source = source_of_request(call.request)
        answer = await self._sign_in.check_password(flow, form.login, form.password, source)
        return _see(f"oauth/callback?{urlencode({'code': answer.code, 'state': answer.state})}")

    async def callback(self, call: Call) -> Response:
        query: CallbackQuery = call.query
        flow = self._flow_of_state(call.request, query.state)
        if flow is None or flow.provider not in self._sign_in.providers:
            raise _lost()
        self._sign_in.admit(source_of_request(call.request))
        answer = Answer(code=query.code, state=query.state, iss=query.iss, error=query.error)
        user = await self._sign_in.finish(flow, answer)
        if flow.program is not None:
            code = await self._sign_in.code_for(user, flow.program)
            response: Response = _see(flow.program.location(code=code))
        else:
            session = await self._sign_in.open(user)
            response = _see(flow.next or "../sign-in")
            self._set(response, self._cookies.session, session.token, self._cookies.session_s)
        self._clear(response, self._cookies.flow, path=_AUTH_PATH)
        return response

    async def me(self, call: Call) -> Me:
        caller = call.caller
        user = await self._user(caller)
        return Me(
            principal=caller.id,
            roles=caller.roles,
            user=None if user is None else view_of(user),
            token=caller.token,
        )

    async def sign_out(self, call: Call) -> Response:
        others = () if self.end_others is None else await self.end_others(call.request)
        try:
            principal = await self._identify(call.request)
        except Unauthenticated:
            # The session has ended, and the browser still has its cookie.
            principal = None
        if principal is not None:
            await self._revoke(principal)
        wants_page = "text/html" in call.request.headers.get("accept", "")
        response = _see("sign-in") if wants_page else Response(status_code=204)
        self._clear(response, self._cookies.session, path="/")
        for cookie in others:
            response.headers.append("Set-Cookie", cookie)
        return response

    async def _signed_in(self, request: Request) -> User | None:
        try:
            principal = await self._identify(request)
        except CallerError:
            return None
        return None if principal is None else await self._user(principal)

    async def _user(self, principal: Principal) -> User | None:
        if not principal.id.startswith(_USER):
            return None
        return await self._users.find(principal.id.removeprefix(_USER))

    def _flow(self, request: Request) -> SignInFlow | None:
        value = request.cookies.get(self._cookies.flow, "")
        return from_cookie(value, now_ms=self._clock.now_ms())

    def _flow_of_state(self, request: Request, state: str) -> SignInFlow | None:
        flow = self._flow(request)
        return flow if flow is not None and flow.has_state(state) else None

    def _password_page(
        self, flow: SignInFlow, *, fault: str = "", login: str = "", status: int = 200
    ) -> Response:
        return pages.password_page(
            form_token=flow.form_token,
            program=_shown(flow.program),
            fault=fault,
            login=login,
            status=status,
            form_to="" if flow.program is None else flow.program.origin,
        )

    def _fault(self, request: Request, error: TrunklineError) -> Response:
        status, text = _said(error)
        start = f"{'../' * (request.url.path.count('/') - _AUTH_PATH.count('/') - 1)}oauth/start"
        return pages.fault_page(text, status=status, start=start)

    def _form_fault(self, request: Request, error: TrunklineError) -> Response:
        flow = self._flow(request)
        # A wrong password, or too many of them: the person may try again on the same page.
        if flow is None or isinstance(error, PermissionDenied | InvalidRequest | WrongMediaType):
            return self._fault(request, error)
        status, text = _said(error)
        return self._password_page(flow, fault=f"{text}.", status=status)

    def _callback_fault(self, request: Request, error: TrunklineError) -> Response:
        state = request.query_params.get("state", "")
        flow = self._flow_of_state(request, state)
        if flow is None or flow.program is None:
            response = self._fault(request, error)
        else:
            response = _see(flow.program.location(error=error_for_program(error)))
        if flow is not None:
            self._clear(response, self._cookies.flow, path=_AUTH_PATH)
        return response

    def _set(
        self, response: Response, name: str, value: str, seconds: int, *, path: str = "/"
    ) -> None:
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            path=path,
            secure=self._cookies.is_secure,
            httponly=True,
            samesite="lax",
        )

    def _clear(self, response: Response, name: str, *, path: str) -> None:
        self._set(response, name, "", 0, path=path)


def view_of(user: User) -> UserView:
    return UserView(login=user.login, display_name=user.display_name, roles=user.roles)


def _checked(query: StartQuery) -> tuple[str, Program | None]:
    """Where to go afterwards, and the program that asks. Raises InvalidParams."""
    program = checked_program(
        redirect_uri=query.redirect_uri,
        state=query.state,
        challenge=query.code_challenge,
        method=query.code_challenge_method,
    )
    return checked_next(query.next), program


def _lost() -> InvalidRequest:
    return InvalidRequest(
        "This sign-in was not started in this browser, or more than 10 minutes ago; start again"
    )


def _see(address: str) -> Response:
    """A redirect after which the browser makes a GET. The address is one that was checked."""
    return RedirectResponse(address, 303, pages.page_headers())


def source_of_request(request: Request) -> str:
    return source_of(request.client.host) if request.client is not None else ""


def _shown(program: Program | None) -> str:
    return "" if program is None else program.origin.removeprefix("http://")


def _start_query(query: StartQuery, provider: str) -> str:
    values = {
        "provider": provider,
        "next": query.next,
        "redirect_uri": query.redirect_uri,
        "state": query.state,
        "code_challenge": query.code_challenge,
        "code_challenge_method": query.code_challenge_method,
    }
    return urlencode({name: value for name, value in values.items() if value})


async def _form(request: Request) -> PasswordForm:
    values = await read_form(request)
    return PasswordForm(
        csrf=values.get("csrf", ""),
        login=values.get("login", "").strip(),
        password=values.get("password", ""),
    )


def _said(error: TrunklineError) -> tuple[int, str]:
    """The status and the text for a person."""
    return wire(error).http, message(error)

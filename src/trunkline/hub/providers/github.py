"""`GithubProvider`: sign-in at GitHub, which speaks OAuth 2 and has no ID tokens."""

from urllib.parse import urlencode

from msgspec import Struct

from trunkline.hub.providers.http import ProviderHttp
from trunkline.hub.providers.provider import Answer, Profile
from trunkline.hub.sign_in_flow import SignInFlow
from trunkline.hub.users import Identity
from trunkline.model.errors import InvalidParams
from trunkline.remote.http import Network


class _Token(Struct):
    access_token: str = ""
    # GitHub reports errors with status 200.
    error: str = ""


class _Account(Struct):
    id: int
    login: str
    name: str | None = None


class GithubProvider:
    def __init__(
        self,
        name: str,
        *,
        title: str,
        url: str,
        client_id: str,
        client_secret: str,
        sign_up: tuple[str, ...] = (),
        network: Network | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.sign_up = sign_up
        self._url = url.rstrip("/")
        # GitHub Enterprise Server has its API below its own address.
        is_public = self._url == "https://github.com"
        self._api = "https://api.github.com" if is_public else f"{self._url}/api/v3"
        self._client_id = client_id
        self._client_secret = client_secret
        self._http = ProviderHttp(name, self._url, self._api, network=network)

    def __repr__(self) -> str:
        return f"GithubProvider({self.name!r})"

    async def close(self) -> None:
        await self._http.close()

    async def address(self, flow: SignInFlow, callback_url: str) -> str:
        query = {
            "client_id": self._client_id,
            "redirect_uri": callback_url,
            "state": flow.state,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        return f"{self._url}/login/oauth/authorize?{urlencode(query)}"

    async def person(self, answer: Answer, flow: SignInFlow, callback_url: str) -> Profile:
        form = {
            "client_id": self._client_id,
            "client_secret": self._client_secret,
            "code": answer.code,
            "redirect_uri": callback_url,
            "code_verifier": flow.verifier,
        }
        url = f"{self._url}/login/oauth/access_token"
        fetched = await self._http.fetch("POST", url, form=form)
        token = self._http.decoded(fetched, _Token, what="the answer with the token")
        if token.error == "bad_verification_code":
            raise InvalidParams.at("code", "is not one that the provider has given; sign in again")
        if token.error or not token.access_token:
            raise self._http.failed(f"it gives no token: {token.error[:64] or 'no reason'}")
        headers = {
            "Authorization": f"Bearer {token.access_token}",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        fetched = await self._http.fetch("GET", f"{self._api}/user", headers=headers)
        account = self._http.decoded(fetched, _Account, what="the answer with the account")
        return Profile(
            # The number of the account. Its name can be changed, and then taken by another person.
            identity=Identity(self._url, str(account.id)),
            account=account.login,
            display_name=account.name or account.login,
        )

"""`LocalProvider`: users with passwords at the gateway itself.

It works as a provider elsewhere does: its page takes the password and sends the browser to the
callback with a code, which fits the PKCE verifier of this flow alone.
"""

from typing import Final

from trunkline.hub.providers.provider import Answer, LocalLogin
from trunkline.hub.sign_in_codes import SignInCodes
from trunkline.hub.sign_in_flow import SignInFlow

# Its page, as a reference from the address of the start.
PAGE: Final = "../sign-in"


class LocalProvider:
    sign_up: tuple[str, ...] = ()

    def __init__(self, name: str, codes: SignInCodes) -> None:
        self.name = name
        self.title = "Password"
        self._codes = codes

    async def address(self, flow: SignInFlow, callback_url: str) -> str:
        return PAGE

    async def person(self, answer: Answer, flow: SignInFlow, callback_url: str) -> LocalLogin:
        redeemed = await self._codes.redeem(answer.code, flow.verifier, purpose="passwords")
        return LocalLogin(redeemed.login)

    async def close(self) -> None:
        return

"""`first_admin_token`: a token for the first operator, made once in the life of a store."""

from typing import Final

from trunkline.api.acting import ON_THE_MACHINE
from trunkline.hub.noted import Noted
from trunkline.hub.token_values import SCOPES
from trunkline.hub.tokens import Tokens
from trunkline.hub.users import Users
from trunkline.model.errors import Conflict, RecordConflict
from trunkline.model.principal import OPERATOR
from trunkline.ports.records import Key, Put
from trunkline.ports.store import Store

_MADE: Final = Key("first-admin.1", "", "")
NAME: Final = "first-admin"


async def first_admin_token(store: Store, tokens: Tokens, users: Users, noted: Noted) -> str:
    """The token, for the person who starts the gateway; empty if one was made before, or if there
    is an admin. Raises StoreError."""
    if await store.record(_MADE) is not None:
        return ""
    # Of several nodes that start at the same time, one makes it; and a process that dies here has
    # made both or neither.
    made = Put(key=_MADE, expected=0)
    principal = f"token:{NAME}"
    try:
        if await users.has_admin():
            await store.change(made)
            return ""
        issued = await tokens.issue(
            kind="key",
            name=NAME,
            principal=principal,
            scopes=SCOPES,
            reaches_open=True,
            roles=(OPERATOR,),
            also=(made, *noted(ON_THE_MACHINE, "token.create", principal)),
        )
    except (Conflict, RecordConflict):
        return ""
    return issued.token

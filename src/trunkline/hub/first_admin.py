"""`first_admin_token`: a token for the first operator, made once in the life of a store."""

from typing import Final

from trunkline.hub.token_values import SCOPES
from trunkline.hub.tokens import Tokens
from trunkline.hub.users import Users
from trunkline.model.errors import RecordConflict
from trunkline.model.principal import OPERATOR
from trunkline.ports.records import Key, Put
from trunkline.ports.store import Store

_MADE: Final = Key("first-admin.1", "", "")
NAME: Final = "first-admin"


async def first_admin_token(store: Store, tokens: Tokens, users: Users) -> str:
    """The token, for the person who starts the gateway; empty if one was made before, or if there
    is an admin. Raises StoreError."""
    if await store.record(_MADE) is not None:
        return ""
    is_needed = not await users.has_admin()
    try:
        # Of several nodes that start at the same time, one makes it.
        await store.change(Put(key=_MADE, expected=0))
    except RecordConflict:
        return ""
    if not is_needed:
        return ""
    issued = await tokens.issue(
        kind="key",
        name=NAME,
        principal=f"token:{NAME}",
        scopes=SCOPES,
        reaches_open=True,
        roles=(OPERATOR,),
    )
    return issued.token

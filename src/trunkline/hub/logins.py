"""`LOGIN`: the form of the logins of people, which are the owners of agents as well."""

import re
import unicodedata
from typing import Final

from trunkline.model.handles import OWNER

# Like an owner, it keeps the spelling that the person knows. Two logins that differ only in case
# are one: `handles.folded` is the same for both.
LOGIN: Final = re.compile(rf"(?=.{{1,64}}\Z){OWNER.pattern}")
# Logins that suggest more than they are. Only an operator may add them.
RESERVED: Final = frozenset(
    {
        "admin",
        "administrator",
        "anonymous",
        "api",
        "hub",
        "me",
        "operator",
        "root",
        "support",
        "system",
        "trunkline",
    }
)


def login_of(account: str) -> str:
    """The name of an account elsewhere as a login: `Ada.Lovelace` is `Ada-Lovelace`."""
    plain = unicodedata.normalize("NFKD", account[:256]).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:48].strip("-") or "user"

"""What may be shown of an address that somebody wrote."""

import re
from typing import Final

MASK: Final = "***"

# With a colon before the first slash, everything up to the last @ may belong to the password:
# one that is not percent-encoded holds any sign.
_USER: Final = re.compile(r"(?<=://)(?:[^\s/?#]*:\S*|[^\s/?#]*)@|^[^\s/?#]+:(?!//)\S*@")


def without_password(text: str) -> str:
    """The text with `***` for user and password, if it is an address that has them."""
    return _USER.sub(f"{MASK}@", text)

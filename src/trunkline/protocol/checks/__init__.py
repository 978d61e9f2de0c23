"""Checks of messages against the rules of A2A, in the form in which they were sent.

The checks judge the bytes of any agent or client, also those that the gateway itself would refuse
to read. They never raise, look at a bounded number of values, and report a bounded number of
findings. Read `findings` first, then `messages` (one message), `order` (a stream) and `cards`.
`shapes_v1` and `shapes_v03` are the tables of members.
"""

from trunkline.protocol.checks.findings import MAX_FINDINGS
from trunkline.protocol.checks.messages import (
    Sent,
    card_report,
    check,
    check_card,
    operation_of,
)
from trunkline.protocol.checks.order import StreamChecker, check_order

__all__ = [
    "MAX_FINDINGS",
    "Sent",
    "StreamChecker",
    "card_report",
    "check",
    "check_card",
    "check_order",
    "operation_of",
]

"""`Rights`: whose calls and sessions a caller may look at and end."""

from msgspec import Struct

from trunkline.engine.access import why_denied
from trunkline.model.calls import Operation
from trunkline.model.principal import OPERATOR, Principal
from trunkline.ports.store import Scope
from trunkline.routing.callees import Callees


class Rights(Struct, frozen=True, eq=False):
    callees: Callees

    def may(self, by: Principal, scope: Scope, operation: Operation = Operation.GET_TASK) -> bool:
        """Whether the caller may do with a session of the scope what the operation does with its
        tasks: with one of its own, within the limits of its credential."""
        if OPERATOR in by.roles:
            return True
        if scope.principal != by.id or by.tenant not in ("", scope.tenant):
            return False
        callee = self.callees.callee(scope.agent)
        is_open = callee is not None and callee.agent.is_open and not callee.is_private
        return why_denied(by, scope.agent, operation, is_open=is_open) is None

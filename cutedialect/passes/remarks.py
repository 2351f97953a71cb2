"""`remark`: how a pass says what it declined and why. An optimization that is not applied leaves a
remark at the op that it would have changed, so that nothing is lost silently.
"""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from cutedialect.remarks import Remark, add


def remark(pass_name: str, op: Operation, message: str) -> None:
    """Note at `op` what pass `pass_name` declined, like "wgmma not taken: ...". Call it before the
    op is erased; one without a location gets that of the op around it.
    """
    at: Operation | None = op
    while at is not None and not isinstance(at.location, FileLineColLoc):
        at = at.parent_op()
    where = None
    if at is not None and isinstance(at.location, FileLineColLoc):
        place = at.location
        where = f"{place.filename.data}:{place.line.data}:{place.column.data}"
    add(Remark(pass_name, message, where))

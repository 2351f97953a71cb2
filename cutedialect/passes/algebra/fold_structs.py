"""`cute-fold-structs`: a field that was put into a struct is itself; behind `cute-to-base`.

    %s = llvm.insertvalue %rows, %poison[0] : !llvm.struct<(i32, i64)>
    %n = llvm.extractvalue %s[0] : !llvm.struct<(i32, i64)>
    becomes uses of %rows

So passes see what layouts of tensors and of views are computed from. Structs without uses go.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.llvm import ExtractValueOp, InsertValueOp
from xdsl.dialects.ub import PoisonOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from cutedialect.dialects.walks import walk


@dataclass(frozen=True)
class FoldStructsPass(ModulePass):
    """Replaces fields of structs by what was put there, and removes structs that nothing uses."""

    name = "cute-fold-structs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = [
            one for one in walk(op) if isinstance(one, ExtractValueOp | InsertValueOp | PoisonOp)
        ]
        for one in ops:
            if isinstance(one, ExtractValueOp):
                field = field_of(one.container, tuple(one.position.get_values()))
                if field is not None:
                    one.res.replace_all_uses_with(field)
        for one in reversed(ops):
            if not one.results[0].uses:
                one.detach()
                one.erase()


def field_of(struct: SSAValue, path: tuple[int, ...]) -> SSAValue | None:
    """What was put into a struct at the end of a path of fields; None where that is not known."""
    while path:
        op = struct.owner
        if not isinstance(op, InsertValueOp):
            return None
        place = tuple(op.position.get_values())
        if place == path[: len(place)]:
            struct, path = op.value, path[len(place) :]
        elif path == place[: len(path)]:
            return None  # a part of the field was put there
        else:
            struct = op.container
    return struct

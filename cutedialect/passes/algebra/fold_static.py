"""`cute-fold-static`: what a type says all of is a constant.

    %s = cute.size (%layout) : (!cute.layout<"(4,8):(8,1)">) -> !cute.int_tuple<"32">
    becomes
    %s = cute.static : !cute.int_tuple<"32">

Pure operations without uses go; comparisons of static values are `arith.constant`. A view of a
tensor through a static layout has it in its type alone, and tiled copies and multiplies are the
attributes that say them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i1
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from cutedialect.dialects.cute import GemmOp, LocalTileOp, MakeViewOp, TiledCopyAttr
from cutedialect.dialects.cute.algebra import OPS, AlgebraOp, is_static_type, outcome
from cutedialect.dialects.cute.tiled_values import (
    TiledCopyType,
    TiledGemmOp,
    TiledMmaType,
    TiledTileOp,
)
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.walks import walk

from .expand_ops import expand_view

StaticOp = OPS["static"]


@dataclass(frozen=True)
class FoldStaticPass(ModulePass):
    """Replaces values of the layout algebra that their types say all of by constants, and removes
    pure operations that nothing uses.
    """

    name = "cute-fold-static"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for one in reversed(list(walk(op))):
            if isinstance(one, TiledTileOp | TiledGemmOp):
                name_tiled(one)
            elif one is not op and not isinstance(one, StaticOp) and is_pure(one):
                fold(one)


def fold(op: Operation) -> None:
    """Replace the static results of a pure op; erase it when nothing uses it then."""
    if op.has_trait(IsTerminator):
        return
    if isinstance(op, MakeViewOp) and all(
        is_static_type(operand.type) for operand in op.operands[1:]
    ):
        expand_view(op)
        return
    if any(result.uses for result in op.results):
        truth = static_truth(op)
        for result in op.results:
            if truth is not None:
                constant: Operation = ConstantOp(IntegerAttr(int(truth), i1))
            elif is_static_type(result.type) and result.uses:
                constant = StaticOp.create(result_types=[result.type])
            else:
                continue
            constant.location = op.location
            Rewriter.insert_op(constant, InsertPoint.before(op))
            constant.results[0].name_hint = result.name_hint
            result.replace_all_uses_with(constant.results[0])
    if not any(result.uses for result in op.results):
        op.detach()
        op.erase()


def name_tiled(op: TiledTileOp | TiledGemmOp) -> None:
    """Name a tiled copy on the tile that goes by it, and a tiled multiply as an atom."""
    if isinstance(op, TiledGemmOp):
        assert isinstance(op.mma.type, TiledMmaType)
        named = GemmOp(op.a, op.b, op.acc, StringAttr(str(op.mma.type.data)))
    else:
        assert isinstance(op.source.owner, LocalTileOp)
        assert isinstance(op.copy.type, TiledCopyType)
        named = op.source.owner.clone()
        named.attributes["tiled"] = TiledCopyAttr(op.copy.type.data)
    named.location = op.location
    Rewriter.replace_op(op, named, list(named.results))


def static_truth(op: Operation) -> bool | None:
    """What a comparison of static values gives; None of another op."""
    if not isinstance(op, AlgebraOp) or op.ROW.name not in ("equal", "elem_less"):
        return None
    if not all(is_static_type(operand.type) for operand in op.operands):
        return None
    return bool(outcome(op))

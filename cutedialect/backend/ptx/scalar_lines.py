"""Lines of the scalar ops, of register arrays element by element, and of exchange in a warp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.ptx import (
    FillOp,
    GetOp,
    ImmOp,
    PackOp,
    RegArrayOp,
    RegsType,
    ScalarOp,
    SetOp,
    ShflOp,
    SmemBaseOp,
    SpecialOp,
    UnpackOp,
    VoteOp,
    operand_classes,
)

from .body import MOVES, TYPED_ZERO, Body, class_of, literal, mask

# Families of one operand and byte permutes get registers: a constant there is a fold not made.
_REGISTERS_ONLY = ("cvt", "popc", "clz", "abs", "neg", "not", "prmt")
_HALF_TYPES = frozenset(
    {"f16", "bf16", "f16x2", "bf16x2", "e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2"}
)


class ScalarLine:
    """The line of a scalar instruction."""

    def __init__(self, op: ScalarOp) -> None:
        self.mnemonic = op.mnemonic
        self.args = tuple(op.operands)
        self.results = tuple((result, class_of(result)) for result in op.results)

    def print(self, body: Body) -> None:
        """Append it, with a new name for the result."""
        values, mnemonic = body.values, self.mnemonic
        args = [values[arg] for arg in self.args]
        for position, shown in enumerate(args):
            if shown[0] != "%" and not _takes_literal(
                mnemonic, position, class_of(self.args[position])
            ):
                args[position] = body.register(self.args[position])
        names = [body.names.fresh(register_class) for _, register_class in self.results]
        for (result, _), name in zip(self.results, names, strict=True):
            values[result] = name
        body.lines.append(f"\t{mnemonic} {'|'.join(names)}, {', '.join(args)};")


class ScalarTrips:
    """The lines of an unrolled region of scalar instructions. What they read is numbered once: the
    arguments of a trip, then what comes from outside, then each result.
    """

    def __init__(self, body: Body, given: Sequence[SSAValue], ops: Sequence[ScalarOp]) -> None:
        self.body = body
        self.places = {value: place for place, value in enumerate(given)}
        made = {result for op in ops for result in op.results}
        outside = [arg for op in ops for arg in op.operands if arg not in made]
        for value in outside:
            self.places.setdefault(value, len(self.places))
        self.fixed = [body.values[value] for value in [*self.places][len(given) :]]
        # Of each line: the instruction, the places that it reads, those that may be literals where
        # it takes none, and the classes of its results.
        self.lines: list[tuple[str, list[int], list[tuple[int, str]], list[str]]] = []
        for op in ops:
            mnemonic, checked = op.mnemonic, []
            for position, arg in enumerate(op.operands):
                register_class = class_of(arg)
                if arg not in made and not _takes_literal(mnemonic, position, register_class):
                    checked.append((position, register_class))
            read = [self.places[arg] for arg in op.operands]
            self.lines.append((mnemonic, read, checked, [class_of(each) for each in op.results]))
            for result in op.results:
                self.places[result] = len(self.places)

    def print(self, given: list[str]) -> list[str]:
        """Append the lines of a trip with these arguments; the text of every value, by place."""
        lines, fresh = self.body.lines, self.body.names.fresh
        values = given + self.fixed
        for mnemonic, read, checked, classes in self.lines:
            args = [values[place] for place in read]
            for position, register_class in checked:
                if args[position][0] != "%":
                    args[position] = self.body.in_register(args[position], register_class)
            names = [fresh(register_class) for register_class in classes]
            values += names
            lines.append(f"\t{mnemonic} {'|'.join(names)}, {', '.join(args)};")
        return values


def _imm(body: Body, op: ImmOp) -> None:
    register_class = class_of(op.res)
    value = op.value.value.data  # type: ignore[union-attr]
    if register_class == "pred":
        name = body.define(op.res)
        body.lines.append(f"\tsetp.ne.b32 {name}, {int(value)}, 0;")
        return
    body.values[op.res] = literal(value, register_class)


def _special(body: Body, op: SpecialOp) -> None:
    body.lines.append(f"\tmov.u32 {body.define(op.res)}, %{op.register.data};")


def _smem_base(body: Body, op: SmemBaseOp) -> None:
    body.lines.append(f"\tmov.u32 {body.define(op.res)}, {body.name}_smem;")


def _pack(body: Body, op: PackOp) -> None:
    parts = ", ".join(body.register(arg) for arg in op.args)
    wide = "b64" if class_of(op.res) in ("b64", "f64") else "b32"
    body.lines.append(f"\tmov.{wide} {body.define(op.res)}, {{{parts}}};")


def _unpack(body: Body, op: UnpackOp) -> None:
    source = body.register(op.arg)
    parts = ", ".join(body.define(result) for result in op.res)
    wide = "b64" if class_of(op.arg) in ("b64", "f64") else "b32"
    body.lines.append(f"\tmov.{wide} {{{parts}}}, {source};")


def _regs(body: Body, op: RegArrayOp) -> None:
    type_ = op.res.type
    assert isinstance(type_, RegsType)
    body.arrays[op.res] = body.names.array(type_.cls, type_.count)


def _fill(body: Body, op: FillOp) -> None:
    type_ = op.data.type
    assert isinstance(type_, RegsType)
    move, value = MOVES[type_.cls], body.values[op.value]
    body.lines += [f"\t{move} {name}, {value};" for name in body.arrays[op.data]]


def _get(body: Body, op: GetOp) -> None:
    name = body.define(op.res)
    source = body.arrays[op.data][op.index.value.data]
    body.lines.append(f"\t{MOVES[class_of(op.res)]} {name}, {source};")


def _set(body: Body, op: SetOp) -> None:
    target = body.arrays[op.data][op.index.value.data]
    body.lines.append(f"\t{MOVES[class_of(op.value)]} {target}, {body.values[op.value]};")


def _shfl(body: Body, op: ShflOp) -> None:
    value = body.register(op.value)
    if class_of(op.value) == "f32":
        moved = body.names.fresh("b32")
        body.lines.append(f"\tmov.b32 {moved}, {value};")
        value = moved
    lane, clamp, members = (body.values[v] for v in (op.lane, op.clamp, op.members))
    result = body.names.fresh("b32")
    body.lines.append(
        f"\tshfl.{op.modifiers.data} {result}, {value}, {lane}, {clamp}, {mask(members)};"
    )
    if class_of(op.res) == "f32":
        body.lines.append(f"\tmov.b32 {body.define(op.res)}, {result};")
    else:
        body.values[op.res] = result


def _vote(body: Body, op: VoteOp) -> None:
    pred, members = body.values[op.pred], body.values[op.members]
    body.lines.append(f"\tvote.{op.modifiers.data} {body.define(op.res)}, {pred}, {mask(members)};")


@lru_cache(maxsize=1024)
def _takes_literal(mnemonic: str, position: int, register_class: str) -> bool:
    """Whether an operand may be a constant: half types have none, and a float's bits stand only
    for a float (PTX ISA 4.5).
    """
    parts = mnemonic.split(".")
    if parts[0] in _REGISTERS_ONLY or not _HALF_TYPES.isdisjoint(parts):
        return False
    wanted = operand_classes(mnemonic, position + 1)[position][0]
    return (wanted in TYPED_ZERO) == (register_class in TYPED_ZERO)


SCALAR_LINES: dict[type[Operation], Callable[[Body, Any], None]] = {
    ImmOp: _imm,
    SpecialOp: _special,
    SmemBaseOp: _smem_base,
    PackOp: _pack,
    UnpackOp: _unpack,
    RegArrayOp: _regs,
    FillOp: _fill,
    GetOp: _get,
    SetOp: _set,
    ShflOp: _shfl,
    VoteOp: _vote,
}

"""Lines of the memory and MMA ops: one op is many instructions, driven by tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from cutedialect.dialects.ptx import (
    AtomOp,
    CpAsyncOp,
    LdMatrixOp,
    LdOp,
    LdScalarOp,
    MmaOp,
    RedOp,
    RegsType,
    StMatrixOp,
    StOp,
    StScalarOp,
    TableOp,
    entries,
)

from .body import MOVES, TYPED_ZERO, Body, address, class_of


def _table(body: Body, op: TableOp) -> None:
    names = body.arrays[op.data]
    type_ = op.data.type
    assert isinstance(type_, RegsType)
    family = op.name[len("ptx.") :]
    mnemonic = f"{family}.{op.modifiers.data}"
    bases = [body.register(value) for value in op.bases]
    preds = [body.values[value] for value in op.preds]
    base, offset = entries(op.base), entries(op.offset)
    regs = entries(op.regs)
    pred = entries(op.pred) if op.pred is not None else None
    width = len(regs) // len(base)
    loads = isinstance(op, LdOp | LdMatrixOp)
    matrix = isinstance(op, LdMatrixOp | StMatrixOp)
    for i in range(len(base)):
        data = [names[r] for r in regs[i * width : (i + 1) * width]]
        vector = data[0] if width == 1 and not matrix else f"{{{', '.join(data)}}}"
        guard = ""
        if pred is not None and pred[i] >= 0:
            guard = f"@{preds[pred[i]]} "
            if op.zero is not None:
                zero = TYPED_ZERO.get(type_.cls, "0")
                body.lines += [f"\t{MOVES[type_.cls]} {name}, {zero};" for name in data]
        at = address(bases[base[i]], offset[i])
        operands = f"{vector}, {at}" if loads else f"{at}, {vector}"
        body.lines.append(f"\t{guard}{mnemonic} {operands};")


def _cp_async(body: Body, op: CpAsyncOp) -> None:
    dst = [body.register(value) for value in op.dst_bases]
    src = [body.register(value) for value in op.src_bases]
    sizes = [body.values[value] for value in op.sizes]
    preds = [body.values[value] for value in op.preds]
    count = op.bytes.value.data
    size = entries(op.size)
    pred = entries(op.pred)
    tables = zip(
        entries(op.dst_base),
        entries(op.dst_offset),
        entries(op.src_base),
        entries(op.src_offset),
        strict=True,
    )
    for i, (db, do, sb, so) in enumerate(tables):
        guard = f"@{preds[pred[i]]} " if pred and pred[i] >= 0 else ""
        ending = f", {sizes[size[i]]}" if size and size[i] >= 0 else ""
        body.lines.append(
            f"\t{guard}cp.async.{op.modifiers.data} {address(dst[db], do)}, "
            f"{address(src[sb], so)}, {count}{ending};"
        )


def _mma(body: Body, op: MmaOp) -> None:
    acc, lhs, rhs = (body.arrays[value] for value in (op.acc, op.lhs, op.rhs))
    nc, na, nb = entries(op.counts)
    mnemonic = f"mma.{op.modifiers.data}"
    endings = _scales(body, op) if op.scales else [""] * len(entries(op.c))
    tables = zip(entries(op.c), entries(op.a), entries(op.b), endings, strict=True)
    for c, a, b, ending in tables:
        d = ", ".join(acc[c : c + nc])
        body.lines.append(
            f"\t{mnemonic} {{{d}}}, {{{', '.join(lhs[a : a + na])}}}, "
            f"{{{', '.join(rhs[b : b + nb])}}}, {{{d}}}{ending};"
        )


def _scales(body: Body, op: MmaOp) -> list[str]:
    """The words of scales of each instruction, with the byte and the thread of a quad."""
    found = [""] * len(entries(op.c))
    pairs = (op.words_a, op.threads_a), (op.words_b, op.threads_b)
    for value, (words, threads) in zip(op.scales, pairs, strict=True):
        assert words is not None
        assert threads is not None
        names = body.arrays[value]
        for at, (word, thread) in enumerate(zip(entries(words), entries(threads), strict=True)):
            found[at] += f", {names[word]}, {{{op.first_byte}, {thread}}}"
    return found


def _ld_scalar(body: Body, op: LdScalarOp) -> None:
    base = body.register(op.base)
    name = body.define(op.res)
    guard = ""
    if op.pred is not None:
        register_class = class_of(op.res)
        zero = TYPED_ZERO.get(register_class, "0")
        body.lines.append(f"\t{MOVES[register_class]} {name}, {zero};")
        guard = f"@{body.values[op.pred]} "
    at = address(base, op.offset.value.data)
    body.lines.append(f"\t{guard}ld.{op.modifiers.data} {name}, {at};")


def _st_scalar(body: Body, op: StScalarOp) -> None:
    base, value = body.register(op.base), body.register(op.value)
    guard = f"@{body.values[op.pred]} " if op.pred is not None else ""
    at = address(base, op.offset.value.data)
    body.lines.append(f"\t{guard}st.{op.modifiers.data} {at}, {value};")


def _atom(body: Body, op: AtomOp) -> None:
    base = body.register(op.base)
    values = ", ".join([body.register(value) for value in op.values])
    at = address(base, op.offset.value.data)
    body.lines.append(f"\tatom.{op.modifiers.data} {body.define(op.res)}, {at}, {values};")


MEMORY_LINES: dict[type[Operation], Callable[[Body, Any], None]] = {
    LdOp: _table,
    StOp: _table,
    RedOp: _table,
    LdMatrixOp: _table,
    StMatrixOp: _table,
    CpAsyncOp: _cp_async,
    MmaOp: _mma,
    LdScalarOp: _ld_scalar,
    StScalarOp: _st_scalar,
    AtomOp: _atom,
}

"""`cute.inline_ptx`: instructions of a program's own, for elements and scalars."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute import InlinePtxOp

from .arithmetic import is_number
from .dtypes import DType, as_dtype
from .elementwise import loaded
from .scalar import Scalar
from .tile import Tile, View, as_value, broadcast_shape, elementwise
from .trace import current, error

Value = Tile | View | Scalar


def inline_ptx(
    text: str,
    inputs: Value | Sequence[Value],
    outputs: object | Sequence[object],
    *,
    effects: None = None,
) -> Tile | Scalar | tuple[Tile | Scalar, ...]:
    """The results of PTX instructions on each element of tiles that broadcast, or on scalars.

    `text` has instructions with semicolons between them. `$0`, `$1`, ... are the results, whose
    element types `outputs` has, then the operands, in their own types; other names are registers
    of the text (`.reg` may declare them, and need not). 16-bit floats and integers lie in registers
    of 16 bits. One type instead of several gives one result instead of a tuple:

        mixed = cute.inline_ptx("lop3.b32 $0, $1, $2, $3, 0x96;", (x, y, z), cute.u32)

    Instructions may compute and no more: no memory, no special registers, no predicates (`selp`
    chooses). The compiler shares and moves them like others, so `effects` is None. Each has to be
    one that the target has (`atoms.legal`), and the emulator runs it; the interpreter does not.
    """
    if effects is not None:
        raise error(
            f"effects: expected None, since instructions of the text may compute alone, got "
            f"{effects!r}",
            code="CD-P4",
        )
    if not isinstance(text, str):
        raise error(f"expected the text of instructions, got {type(text).__name__}")
    is_one = isinstance(outputs, str | DType) or not isinstance(outputs, Sequence)
    kinds = [as_dtype(v) for v in ([outputs] if is_one else outputs)]  # pyright: ignore
    given = [inputs] if isinstance(inputs, Tile | View | Scalar) else list(inputs)
    sides = _sides(given, kinds)
    tiles = [side for side in sides if isinstance(side, Tile)]

    def made(place: int, *args: SSAValue) -> SSAValue:
        elements = iter(args)
        values = [
            next(elements) if isinstance(side, Tile) else as_value(side, side.dtype)
            for side in sides
        ]
        op = InlinePtxOp(text, values, [kind.ir for kind in kinds])
        try:
            op.verify_()
        except VerifyException as failure:
            raise error(f"cute.inline_ptx: {failure}", code="CD-P4") from None
        return current().insert(op).results[place]

    results: list[Tile | Scalar] = []
    shape = broadcast_shape(*(tile.shape for tile in tiles)) if tiles else ()
    for place, kind in enumerate(kinds):
        if tiles:
            results.append(elementwise(lambda *args, p=place: made(p, *args), tiles, shape, kind))
        else:
            results.append(Scalar(made(place)))
    return results[0] if is_one else tuple(results)


def _sides(given: Sequence[Value], kinds: Sequence[DType]) -> list[Tile | Scalar]:
    """The operands; refuses numbers, and types of operands and results that no register holds."""
    if any(is_number(v) for v in given):
        raise error("expected tiles and scalars as inputs, got a number; write it into the text")
    sides = [loaded(v) for v in given]
    for dtype in [*kinds, *(side.dtype for side in sides)]:
        if dtype.bits not in (16, 32, 64):
            raise error(
                f"expected numbers of 16, 32 or 64 bits, got {dtype.name}; convert with "
                ".to(cute.i32)",
                code="CD-P3",
            )
    if not kinds:
        raise error("expected the type of a result in outputs, got none")
    return sides

"""Eight elements of 4 bits in a register, of four bytes that hold two each.

A byte alone takes a select and a sum for each element. Of eight of them the magnitudes, which lie
in the lowest bits of sums (`narrow_floats.py`), are added up times 16, and permutes gather the
signs. Elements of products that were rounded to bf16 are computed in bf16, two at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .scalar_builder import Scalar, ScalarBuilder

_CODES, _BITS = 8, 4
_BOTH = 0x10001
_WORD = 0xFFFFFFFF
# Bits of the signs of eight codes.
_SIGNS = 0x88888888
# Sums of bf16 with 128 are whole numbers, whose low bytes are what is added.
_WHOLE_BITS = 0x4300


class Code(NamedTuple):
    """An element of 4 bits: the f32 that it was rounded from, the bits of its sign, the lines of
    which the least gives its magnitude (slope, steps), the largest magnitude, and a register with
    the magnitude, beside bits that are always the same.
    """

    value: Scalar
    signed: Scalar
    lines: tuple[tuple[float, int], ...]
    most: float
    steps: Scalar
    anchor: int


def packed_codes(builder: ScalarBuilder, parts: Sequence[Scalar]) -> Scalar | None:
    """The register of four bytes of two codes each, or None where they are something else."""
    pairs = [_codes_of(builder, part) for part in parts]
    codes = [code for pair in pairs if pair is not None for code in pair]
    if len(codes) != _CODES:
        return None
    factors = [_factors(builder, code) for code in codes]
    if builder.has("fma.rn.bf16") and None not in factors:
        return _of_products(builder, [each for each in factors if each is not None], codes[0])
    total, same = codes[-1].steps, 0
    for code in codes[-2::-1]:
        total = builder.add(builder.pure("shl.b32", total, _BITS), code.steps)
    for place, code in enumerate(codes):
        same += code.anchor << _BITS * place
    signs = builder.pure("and.b32", _gathered(builder, codes), _SIGNS)
    return builder.add(builder.add(total, -same & _WORD), signs)


def _codes_of(builder: ScalarBuilder, part: Scalar) -> tuple[Code, Code] | None:
    """The codes of a byte, the low one first."""
    total = builder.definition(_source(builder, part, "cvt.u16.u32"))
    if total[:1] != ("add.s32",):
        return None
    high = builder.definition(total[2])
    if high[:1] != ("shl.b32",) or builder.constant(high[2]) != _BITS:
        return None
    low, high = (
        builder.codes.get(_source(builder, each, "cvt.u32.u8")) for each in (total[1], high[1])
    )
    return None if low is None or high is None else (low, high)


def _source(builder: ScalarBuilder, value: Scalar, conversion: str) -> Scalar:
    """What was converted, or the value itself."""
    definition = builder.definition(value)
    return definition[1] if definition[:1] == (conversion,) else value


def _gathered(builder: ScalarBuilder, codes: Sequence[Code]) -> Scalar:
    """A register with the signs of codes, beside other bits: of each word the highest byte."""
    low, high = (
        builder.pure(
            "prmt.b32",
            *(
                builder.pure("prmt.b32", one.signed, other.signed, 0x73)
                for one, other in (some[:2], some[2:])
            ),
            0x5410,
        )
        for some in (codes[::2], codes[1::2])
    )
    return _selected(builder, high, builder.pure("shr.u32", low, _BITS))


def _selected(builder: ScalarBuilder, high: Scalar, low: Scalar) -> Scalar:
    """The high bits of each byte of one register, the low ones of another: a bitwise function."""
    differing = builder.pure("and.b32", builder.pure("xor.b32", high, low), 0xF0F0F0F0)
    return builder.pure("xor.b32", differing, low)


def _factors(builder: ScalarBuilder, code: Code) -> tuple[Scalar, Scalar] | None:
    """The two bf16 whose product, rounded to bf16, an element was rounded from."""
    product = builder.definition(_narrow(builder, code.value))
    if product[:1] != ("cvt.rn.bf16.f32",):
        return None
    product = builder.definition(product[1])
    if product[:1] != ("mul.rn.f32",):
        return None
    one, other = (_narrow(builder, each) for each in product[1:])
    return None if one is product[1] or other is product[2] else (one, other)


def _narrow(builder: ScalarBuilder, value: Scalar) -> Scalar:
    """The bf16 that an f32 is the same number as, or the f32."""
    definition = builder.definition(value)
    is_wide = definition[:1] == ("pack.f32",) and builder.constant(definition[1]) == 0
    return definition[2] if is_wide else value


def _of_products(
    builder: ScalarBuilder, factors: Sequence[tuple[Scalar, Scalar]], code: Code
) -> Scalar:
    """Codes of products of bf16, which have lines and a largest magnitude in common. Those of the
    low halves of the bytes are computed in pairs, and those of the high ones.
    """
    steps: list[Scalar] = []
    products: list[Scalar] = []
    for at in (0, 4, 1, 5):
        one, other = (builder.pack(*pair) for pair in zip(*factors[at : at + 3 : 2], strict=True))
        # A sum with -0 leaves the sign of 0.
        product = builder.pure("fma.rn.bf16x2", one, other, 0x8000 * _BOTH)
        magnitude = builder.pure("abs.bf16x2", product)
        magnitude = builder.pure("min.bf16x2", magnitude, _bf16(code.most) * _BOTH)
        lines = [
            builder.pure(
                "fma.rn.bf16x2", magnitude, _bf16(slope) * _BOTH, (_WHOLE_BITS + first) * _BOTH
            )
            for slope, first in code.lines
        ]
        steps.append(reduce(partial(builder.pure, "min.bf16x2"), lines))
        products.append(product)
    low, high = _bytes_of(builder, steps, 0x6420)
    total = builder.add(builder.pure("shl.b32", high, _BITS), low)
    low, high = _bytes_of(builder, products, 0x7531)
    signs = _selected(builder, high, builder.pure("shr.u32", low, _BITS))
    return builder.pure("or.b32", total, builder.pure("and.b32", signs, _SIGNS))


def _bytes_of(builder: ScalarBuilder, words: Sequence[Scalar], selector: int) -> list[Scalar]:
    """A byte of each half of the first two of four words, and of the others."""
    return [builder.pure("prmt.b32", *words[at : at + 2], selector) for at in (0, 2)]


def _bf16(value: float) -> int:
    from .narrow_floats import encode

    return encode(value, "bf16")

"""Random numbers of a kernel: Philox 4x32 of ten rounds, a counter-based generator (Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011). A number follows from the seed and a place
alone, so that no schedule, tile or target changes it.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32 as f32_type
from xdsl.dialects.builtin import i32 as i32_type
from xdsl.ir import SSAValue

from .arithmetic import binary_value, convert_value, is_number
from .dtypes import f32, i32
from .scalar import Scalar
from .tile import Tile, elementwise
from .trace import current, error

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
# What is added to the key after each round: the golden ratio and the square root of three.
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


def rand(seed: int | Scalar, offset: Tile) -> Tile:
    """Random numbers in [0, 1) of f32, multiples of 2^-24: one for each element of `offset`, a tile
    of i32 that says which number of the sequence of `seed` it is.

    The first word of Philox 4x32-10 for the counter (offset, 0, 0, 0) and the key (seed, 0). Give
    elements of different places different offsets: `cute.rand(seed, row * columns + column)`.
    """
    if not isinstance(offset, Tile) or offset.dtype != i32:
        raise error("expected offsets as a tile of i32 (made of cute.coord)", code="CD-P3")
    if isinstance(seed, Scalar):
        if seed.dtype.kind == "f":
            raise error(f"expected a seed of integers, got {seed.dtype.name}", code="CD-P3")
        key = seed.to(i32).use()
    elif is_number(seed) and hasattr(seed, "__index__"):
        key = current().constant(_signed(int(seed) & _MASK), i32_type)
    else:
        raise error(f"expected a seed as an int or a scalar, got {type(seed).__name__}")

    def body(counter: SSAValue) -> SSAValue:
        word = _philox(counter, key)
        bits = current().insert(arith.ShRUIOp(word, current().constant(8, i32_type))).results[0]
        scale = current().constant(2.0**-24, f32_type)
        return binary_value("mul", convert_value(bits, i32, f32), scale)

    return elementwise(body, (offset,), offset.shape, f32)


def _philox(counter: SSAValue, seed: SSAValue) -> SSAValue:
    """The first word for a counter of one word and a key of one word."""
    trace = current()
    zero = trace.constant(0, i32_type)
    words: list[SSAValue] = [counter, zero, zero, zero]
    for number in range(_ROUNDS):
        keys: list[SSAValue] = []
        for start, step in ((seed, _WEYL[0]), (zero, _WEYL[1])):
            moved = trace.constant(_signed(number * step & _MASK), i32_type)
            keys.append(binary_value("add", start, moved))
        products = [
            trace.insert(
                arith.MulUIExtendedOp(trace.constant(_signed(factor), i32_type), words[2 * which])
            ).results
            for which, factor in enumerate(_MULTIPLIERS)
        ]
        (low, high), (other_low, other_high) = products
        words = [
            binary_value("xor", binary_value("xor", other_high, words[1]), keys[0]),
            other_low,
            binary_value("xor", binary_value("xor", high, words[3]), keys[1]),
            low,
        ]
    return words[0]


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word

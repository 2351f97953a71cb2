"""`ldmatrix` and `stmatrix`: between shared memory and the fragments of MMA operands. A fragment's
own thread-value layout says which lane holds what; the rows that lanes supply follow from it, and
a layout that the instruction cannot produce is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from xdsl.ir import SSAValue

from cutedialect.dialects import ptx
from cutedialect.dialects.cute import FragmentType
from cutedialect.dialects.cute_nvgpu import LdsmType, MatrixCopyType
from cutedialect.passes.analysis.coordinates import split_digits, thread_value

from .addresses import (
    ByteDigit,
    byte_digits,
    granularity,
    lane_offset,
    memory_op,
    shared_addresses,
    value_offsets,
)
from .context import Context
from .views import View


def move_matrices(
    context: Context,
    view: View,
    array: SSAValue,
    type_: FragmentType,
    atom: MatrixCopyType,
) -> None:
    """Fill a fragment from a shared tile: lane 4g+q gets a piece of row or column g (`ldmatrix`);
    or the reverse (`stmatrix`).
    """
    instruction = ptx.LdMatrixOp if isinstance(atom, LdsmType) else ptx.StMatrixOp
    layout = thread_value(type_.tv, view.leaf_shape)
    size = view.element_bytes
    pack = 4 // size if size <= 4 else 0
    if pack == 0 or (atom.transpose and size != 2):
        raise ValueError(
            f"expected {'16-bit' if atom.transpose else '8-, 16- or 32-bit'} elements for "
            f"{atom}, got {view.element}",
        )
    digits = byte_digits(view, split_digits(layout.threads, (4, 32)))
    offsets = [each.static * size for each in value_offsets(view, layout.value_coords())]
    registers = [offsets[v] for v in range(0, len(offsets), pack)]
    lanes = [lane_offset(digits, lane) for lane in range(32)]
    if atom.transpose:
        rows = _transposed_rows(digits, lanes, offsets)
    else:
        rows = _plain_rows(digits, lanes, offsets, pack, size)
    grain = granularity(view, (), ())
    steps = [*(weight for _, _, weight in rows), *registers]
    if grain % 16 or any(step % 16 for step in steps):
        raise ValueError(
            f"expected rows aligned to 16 bytes for {atom}, got {view.shape} tile rows"
        )
    chosen = _register_bits(registers)[: {1: 0, 2: 1, 4: 2}[atom.num_matrices]]
    extra = [(8 << i, 2, step) for i, (_, step) in enumerate(chosen)]
    groups = _groups_of(len(registers), [stride for stride, _ in chosen])
    starts = [registers[group[0]] for group in groups]
    addresses = shared_addresses(context.builder, view, rows + extra, starts, context.threads)
    form = ".trans" if atom.transpose else ""
    modifiers = f"sync.aligned.m8n8.x{1 << len(chosen)}{form}.shared.b16"
    memory_op(context, instruction, modifiers, array, addresses, list(chain(*groups)))


def _groups_of(count: int, strides: Sequence[int]) -> list[list[int]]:
    """Register numbers up to `count`, in groups of those that one instruction fills: each stride
    leads from one half of a group to the other.
    """
    firsts = [
        number for number in range(count) if not any(number // stride % 2 for stride in strides)
    ]
    offsets = [
        sum(stride for place, stride in enumerate(strides) if member >> place & 1)
        for member in range(1 << len(strides))
    ]
    return [[first + offset for offset in offsets] for first in firsts]


def _plain_rows(
    digits: list[ByteDigit],
    lanes: list[int],
    offsets: list[int],
    pack: int,
    size: int,
) -> list[ByteDigit]:
    """Lane L supplies the row that lanes 4(L%8) .. 4(L%8)+3 hold."""
    if any(lanes[lane] != lanes[lane & ~3] + 4 * (lane & 3) for lane in range(32)) or any(
        offsets[v] != offsets[v - v % pack] + v % pack * size for v in range(len(offsets))
    ):
        raise ValueError(
            "expected four neighboring lanes to hold 16 bytes in a row for ldmatrix, "
            f"got lane offsets {lanes[:5]} and value offsets {offsets[: pack + 1]}",
        )
    return [
        (divisor // 4, extent, weight) if divisor < 32 else (divisor, extent, weight)
        for divisor, extent, weight in digits
        if divisor >= 4
    ]


def _transposed_rows(
    digits: list[ByteDigit], lanes: list[int], offsets: list[int]
) -> list[ByteDigit]:
    """Lane L supplies the row with element i = L%2 of the lanes q = L/2%4."""
    pair = offsets[1] - offsets[0]
    if any(lanes[lane] != lanes[lane & 3] + 2 * (lane >> 2) for lane in range(32)) or any(
        offsets[v] != offsets[v - 1] + pair for v in range(1, len(offsets), 2)
    ):
        raise ValueError(
            "expected the eight lanes 4g to hold 16 bytes in a row for transposed ldmatrix, "
            f"got lane offsets {lanes[::4]} and value offsets {offsets[:2]}",
        )
    rows = [(1, 2, pair)]
    for divisor, extent, weight in digits:
        if divisor < 4:
            rows.append((divisor * 2, extent, weight))
        elif divisor >= 32:
            rows.append((divisor, extent, weight))
    return rows


def _register_bits(registers: list[int]) -> list[tuple[int, int]]:
    """(stride, byte step) of the powers of two of a register index with linear addresses."""
    result = []
    stride, count = 1, len(registers)
    while stride < count and count % (2 * stride) == 0:
        step = registers[stride] - registers[0]
        if all(
            registers[r + stride] == registers[r] + step
            for r in range(count)
            if not (r // stride) % 2
        ):
            result.append((stride, step))
        stride *= 2
    return result

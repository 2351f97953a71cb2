"""The descriptors of tcgen05 (PTX ISA 9.7.16.4), read bit by bit: what an instruction descriptor
says of shapes and types, and which 16-byte chunks of shared memory a matrix descriptor covers. One
instruction takes 32 bytes along K of every type, of types below 8 bits in their padded form.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from .errors import EmulatorError
from .lanes import Array, distinct

CHUNK = 16
# Swizzle field to (bytes of a row of the pattern, bytes that stay together).
_SWIZZLES = {0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}
_VERSION = 0b001
_RESERVED = (1 << 64) - 1 & ~(
    0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 46 | 7 << 49 | 1 << 52 | 7 << 61
)  # fmt: skip


@dataclass(frozen=True)
class SharedMatrix:
    """``start`` is an address in the CTA's shared memory, ``leading`` and ``stride`` are steps, all
    in bytes; ``span`` is the swizzle's 128, 64 or 32 bytes, 0 for none; ``atom`` bytes of it stay
    together, 16 or 32."""

    start: int
    leading: int
    stride: int
    base_offset: int
    span: int
    atom: int

    def __str__(self) -> str:
        mode = f"{self.span}B swizzle" if self.span else "no swizzle"
        mode += " of 32-byte atoms" if self.atom == 32 else ""
        return (
            f"start {self.start:#x}, leading {self.leading} B, stride {self.stride} B, "
            f"base offset {self.base_offset}, {mode}"
        )


def decode_matrix(bits: int) -> SharedMatrix:
    """The fields of a matrix descriptor. CD-F2 for what no field may hold."""
    if bits & _RESERVED or bits >> 46 & 7 != _VERSION:
        raise EmulatorError(
            f"matrix descriptor {bits:#018x}: expected (address & 0x3ffff) >> 4 in bits 0-13, byte "
            "offsets / 16 in 16-29 and 32-45, 0b001 in 46-48, the base offset in 49-51, the "
            "swizzle in 61-63, and 0 elsewhere",
            code="CD-F2",
        )
    if bits >> 52 & 1:
        raise EmulatorError(
            f"matrix descriptor {bits:#018x}: an absolute leading dimension (bit 52) belongs to "
            "the K = 96 instructions of sm_103a, which the emulator does not know",
            code="CD-UNSUPPORTED",
        )
    swizzle = bits >> 61
    if swizzle not in _SWIZZLES:
        raise EmulatorError(
            f"matrix descriptor {bits:#018x}: expected a swizzle of 0, 1, 2, 4 or 6 in bits 61-63, "
            f"got {swizzle}",
            code="CD-F2",
        )
    span, atom = _SWIZZLES[swizzle]
    return SharedMatrix(
        (bits & 0x3FFF) << 4,
        (bits >> 16 & 0x3FFF) << 4,
        (bits >> 32 & 0x3FFF) << 4,
        bits >> 49 & 7,
        span,
        atom,
    )


@dataclass(frozen=True, eq=False)
class Footprint:
    """``chunks`` are chunk numbers (address / 16): ``[extent, 2]`` for a K-major operand, ``[extent
    / e, K]`` for an MN-major one, whose chunks hold e rows of one k. ``distinct`` has each once.
    """

    matrix: SharedMatrix
    chunks: Array
    distinct: Array


@functools.lru_cache(maxsize=4096)
def footprint(bits: int, extent: int, mn_major: bool, size: int, wide: int = 2) -> Footprint:
    """What an operand of ``extent`` rows of ``size``-byte elements covers (PTX ISA 9.7.16.4.1 and
    9.7.16.10.6); ``wide`` chunks along K.

    K-major: 8 rows lie one swizzle span (16 bytes without swizzle) apart, groups of 8 rows
    ``stride`` apart; chunks along K are neighbors, or ``leading`` apart without swizzle. MN-major:
    8 k (4 with 32-byte atoms) lie one span apart, groups of them ``stride`` apart and blocks of one
    span along MN ``leading`` apart; without swizzle the two steps change their roles.
    """
    matrix = decode_matrix(bits)
    span, leading, stride = matrix.span, matrix.leading, matrix.stride
    if (matrix.atom == 32) != (mn_major and size == 4):
        raise EmulatorError(
            f"({matrix}): expected 128-byte swizzling of 32-byte atoms for MN-major operands of 32 "
            "bits, and for them alone",
            code="CD-D9",
        )
    if mn_major:
        block, k = np.arange(extent * size // CHUNK)[:, None], np.arange(32 // size)[None, :]
        if span:
            across, group = span // CHUNK, 128 // matrix.atom if matrix.atom == 32 else 8
            offset = block % across * CHUNK + block // across * leading
            offset = offset + k % group * span + k // group * stride
        else:
            offset = block * stride + k % 8 * CHUNK + k // 8 * leading
    else:
        row, part = np.arange(extent)[:, None], np.arange(wide)[None, :]
        pitch, step = (span, CHUNK) if span else (CHUNK, leading)
        offset = row % 8 * pitch + row // 8 * stride + part * step
    address = offset + matrix.start
    if span:
        # The pattern repeats over address bits 7 and up, wherever the operand starts.
        phase = ((address >> 7) - matrix.base_offset) & (span // matrix.atom - 1)
        address = address ^ phase * matrix.atom
    chunks = address >> 4
    return Footprint(matrix, chunks, distinct(chunks))


def rows_of(raw: Array, mn_major: bool, size: int) -> Array:
    """Chunks as loaded, ``[*footprint shape, 4]`` of 32 bits, to the 32 bytes along K of each row:
    ``[extent, 32]`` of 8 bits."""
    if not mn_major:
        return raw.view(np.uint8).reshape(len(raw), -1)
    words = raw.view(np.dtype(f"u{size}")).reshape(len(raw), 32 // size, CHUNK // size)
    rows = np.ascontiguousarray(np.swapaxes(words, 1, 2))
    return rows.view(np.uint8).reshape(-1, 32)


@dataclass(frozen=True)
class Kind:
    """A row of the table of kinds (PTX ISA 9.7.16.2.1): the types that the descriptor's codes stand
    for, K, and what may be set. ``scaled``: A and B have scale factors."""

    k: int
    types: tuple[tuple[int, str], ...]
    accumulators: tuple[tuple[int, str], ...]
    negates: bool = True
    transposes: bool = True
    scaled: bool = False


_FLOATS = ((0, "e4m3"), (1, "e5m2"), (3, "e2m3"), (4, "e3m2"), (5, "e2m1"))
_F16_F32 = ((0, "f16"), (1, "f32"))
KINDS = {
    "f16": Kind(16, ((0, "f16"), (1, "bf16")), _F16_F32),
    "tf32": Kind(8, ((2, "tf32"),), ((1, "f32"),)),
    "f8f6f4": Kind(32, _FLOATS, _F16_F32),
    "i8": Kind(32, ((0, "u8"), (1, "s8")), ((2, "s32"),), negates=False),
    "mxf8f6f4": Kind(32, _FLOATS, (), scaled=True),
    "mxf4": Kind(64, ((1, "e2m1"),), (), transposes=False, scaled=True),
    "mxf4nvf4": Kind(64, ((1, "e2m1"),), (), transposes=False, scaled=True),
}


@dataclass(frozen=True)
class Shape:
    """What an instruction descriptor says. ``m`` and ``n`` are those of the CTA pair."""

    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    negate: tuple[bool, bool]
    transposed: tuple[bool, bool]
    saturates: bool
    scale_ids: tuple[int, int]
    scale_type: str


def _field(bits: int, name: str, low: int, width: int, allowed: tuple[int, ...]) -> int:
    value = bits >> low & (1 << width) - 1
    if value not in allowed:
        expected = " or ".join(map(str, allowed))
        raise EmulatorError(
            f"instruction descriptor {bits:#010x}: expected {expected} in bits {low}-"
            f"{low + width - 1} ({name}), got {value}",
            code="CD-D9",
        )
    return value


@functools.lru_cache(maxsize=1024)
def decode_instruction(bits: int, name: str, group: int, stationary: bool = False) -> Shape:
    """The fields of an instruction descriptor of ``kind::name`` (PTX ISA 9.7.16.4.2). CD-D9 for
    values that the kind does not have, shapes included. ``stationary`` is ``.ws``."""
    kind = KINDS[name]
    types = dict(kind.types)
    _field(bits, "sparsity", 0, 3, (0,))
    flags = (0, 1)
    saturates = _field(bits, "saturate", 3, 1, flags if name == "i8" else (0,)) == 1
    codes = tuple(types)
    a = types[_field(bits, "type of A", 7, 3, codes)]
    b = types[_field(bits, "type of B", 10, 3, codes)]
    negated = flags if kind.negates else (0,)
    negate = _field(bits, "negate A", 13, 1, negated), _field(bits, "negate B", 14, 1, negated)
    majors = flags if kind.transposes else (0,)
    major = _field(bits, "transpose A", 15, 1, majors), _field(bits, "transpose B", 16, 1, majors)
    for type, moved in zip((a, b), major, strict=True):
        if moved and type in ("e2m3", "e3m2", "e2m1"):
            raise EmulatorError(
                f"instruction descriptor {bits:#010x}: a transposed operand of {type}: expected a "
                "type of 8, 16 or 32 bits",
                code="CD-D9",
            )
    if name == "f16" and a != b:
        raise EmulatorError(
            f"instruction descriptor {bits:#010x}: expected the same type of A and B, got {a} and "
            f"{b}",
            code="CD-D9",
        )
    n = (bits >> 17 & 63) << 3
    scale_type, ids, d = "", (0, 0), "f32"
    if kind.scaled:
        m = (bits >> 24 & 31) << 4
        steps = (0, 1, 2, 3) if name == "mxf8f6f4" else (0, 2)
        ids = _field(bits, "scale factor A", 29, 2, steps), _field(bits, "scale factor B", 4, 2,
                                                                   steps)  # fmt: skip
        scales = flags if name == "mxf4nvf4" else (1,)
        scale_type = ("ue4m3", "ue8m0")[_field(bits, "scale type", 23, 1, scales)]
        if _field(bits, "K", 31, 1, (0,) if name == "mxf8f6f4" else flags):
            raise EmulatorError("K = 96, of sm_103a, is not known here", code="CD-UNSUPPORTED")
        _field(bits, "reserved", 6, 1, (0,))
    else:
        m = (bits >> 24 & 31) << 4
        d = dict(kind.accumulators)[_field(bits, "type of D", 4, 2, tuple(dict(kind.accumulators)))]
        for low in (6, 23, 29):
            _field(bits, "reserved", low, 1, (0,))
        if not stationary:
            _field(bits, "maximum shift", 30, 2, (0,))
    if name == "f16" and a == "bf16" and d == "f16":
        raise EmulatorError(
            f"instruction descriptor {bits:#010x}: bf16 operands accumulate in f32, got f16",
            code="CD-D9",
        )
    shape = Shape(m, n, kind.k, a, b, d, (negate[0] == 1, negate[1] == 1),
                  (major[0] == 1, major[1] == 1), saturates, ids, scale_type)  # fmt: skip
    _check_extents(bits, name, shape, group, stationary)
    return shape


def _check_extents(bits: int, name: str, shape: Shape, group: int, stationary: bool) -> None:
    """M and N of the kind (PTX ISA 9.7.16.2.1, "Matrix shape")."""
    rows = (32, 64, 128) if stationary else (64, 128) if group == 1 else (128, 256)
    if KINDS[name].scaled and group == 1:
        rows = (128,)
    step = 8 if group == 1 else 16
    columns = range(step, 257, step)
    if stationary:
        columns = (64, 128, 256)
    elif name == "i8":
        step = 16 * group
        columns = (8, 24, *range(16, 257, 16)) if group == 1 else range(32, 257, 32)
    elif shape.transposed[1] and shape.b in ("e4m3", "e5m2"):
        columns = range(16 * group, 257, 16 * group)
    if shape.m not in rows or shape.n not in columns:
        listed = ", ".join(map(str, rows))
        raise EmulatorError(
            f"instruction descriptor {bits:#010x} says m{shape.m}n{shape.n}: expected M of "
            f"{listed} and N of {columns[0]} to 256 by {columns[-1] - columns[-2]} for kind::"
            f"{name} with .cta_group::{group}",
            code="CD-D9",
        )

"""Forms of `mma.sync`, dense, block-scaled and sparse. One row gives shapes, operand types and
accumulators of one target; register counts follow from the shape.
Source: PTX ISA 9.1, "mma" and "mma.sp", confirmed with ptxas 13.
"""

from __future__ import annotations

from typing import NamedTuple

from cutedialect.atoms.forms import Form

_BITS = {
    "f64": 64,
    "f32": 32,
    "s32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}


class _Row(NamedTuple):
    """`shapes` of `mnk` words, A and B types (every A with every B), accumulators, and what stands
    between `row.col` and the types (`infix`) or after them (`suffix`)."""

    shapes: str
    a: str
    b: str
    accumulators: str
    requires: str
    infix: str = ""
    suffix: str = ""


_FP8 = "e4m3 e5m2"
_NARROW = "e4m3 e5m2 e3m2 e2m3 e2m1"
_KIND = ".kind::f8f6f4"
_KIND_TARGETS = "sm_100f sm_110f sm_120f"

_DENSE = (
    _Row("m16n8k8", "f16", "f16", "f16 f32", "sm_75+"),
    _Row("m16n8k16", "f16", "f16", "f16 f32", "sm_80+"),
    _Row("m16n8k8 m16n8k16", "bf16", "bf16", "f32", "sm_80+"),
    _Row("m16n8k4 m16n8k8", "tf32", "tf32", "f32", "sm_80+"),
    _Row("m8n8k4", "f64", "f64", "f64", "sm_80+", "[.<rn|rz|rm|rp>]"),
    _Row("m8n8k4", "f64", "f64", "f64", "sm_80+", "", "[.<rn|rz|rm|rp>]"),
    _Row("m16n8k4 m16n8k8 m16n8k16", "f64", "f64", "f64", "sm_90+", "[.<rn|rz|rm|rp>]"),
    _Row("m16n8k4 m16n8k8 m16n8k16", "f64", "f64", "f64", "sm_90+", "", "[.<rn|rz|rm|rp>]"),
    _Row("m8n8k16", "s8 u8", "s8 u8", "s32", "sm_75+", "[.satfinite]"),
    _Row("m16n8k16 m16n8k32", "s8 u8", "s8 u8", "s32", "sm_80+", "[.satfinite]"),
    _Row("m8n8k32", "s4 u4", "s4 u4", "s32", "sm_75+", "[.satfinite]"),
    _Row("m16n8k32 m16n8k64", "s4 u4", "s4 u4", "s32", "sm_80+", "[.satfinite]"),
    _Row("m8n8k128", "b1", "b1", "s32", "sm_75+", "", ".xor.popc"),
    _Row("m8n8k128", "b1", "b1", "s32", "sm_80+", "", ".and.popc"),
    _Row("m16n8k128 m16n8k256", "b1", "b1", "s32", "sm_80+", "", ".<xor|and>.popc"),
    _Row("m16n8k16 m16n8k32", _FP8, _FP8, "f16 f32", "sm_89+"),
    _Row("m16n8k16 m16n8k32", _FP8, _FP8, "f16 f32", _KIND_TARGETS, _KIND),
    _Row("m16n8k32", _NARROW, _NARROW, "f16 f32", "sm_120f", _KIND),
)

# Selector immediates of the sparse forms: which lanes of a quad supply the metadata.
_SPARSE = (
    (_Row("m16n8k16", "f16", "f16", "f16 f32", "sm_80+"), 3),
    (_Row("m16n8k32", "f16", "f16", "f16 f32", "sm_80+"), 1),
    (_Row("m16n8k16", "bf16", "bf16", "f32", "sm_80+"), 3),
    (_Row("m16n8k32", "bf16", "bf16", "f32", "sm_80+"), 1),
    (_Row("m16n8k8", "tf32", "tf32", "f32", "sm_80+"), 3),
    (_Row("m16n8k16", "tf32", "tf32", "f32", "sm_80+"), 1),
    (_Row("m16n8k32", "s8 u8", "s8 u8", "s32", "sm_80+", "[.satfinite]"), 1),
    (_Row("m16n8k64", "s8 u8", "s8 u8", "s32", "sm_80+", "[.satfinite]"), 0),
    (_Row("m16n8k64", "s4 u4", "s4 u4", "s32", "sm_80+", "[.satfinite]"), 1),
    (_Row("m16n8k128", "s4 u4", "s4 u4", "s32", "sm_80+", "[.satfinite]"), 0),
    (_Row("m16n8k64", _FP8, _FP8, "f32", "sm_89+"), 0),
    (_Row("m16n8k64", _FP8, _FP8, "f16", "sm_120f"), 0),
    (_Row("m16n8k64", _FP8, _FP8, "f32", _KIND_TARGETS, _KIND), 0),
    (_Row("m16n8k64", _NARROW, _NARROW, "f16 f32", "sm_120f", _KIND), 0),
)


class _Scaled(NamedTuple):
    """A block-scaled kind: byte selectors that an immediate may name depend on the vector size."""

    kind: str
    shape: str
    types: str
    scale: str
    scale_type: str
    bytes_allowed: str


_SCALED = (
    _Scaled("mxf8f6f4", "m16n8k32", _NARROW, "[.scale_vec::1X]", "ue8m0", "0..3"),
    _Scaled("mxf4", "m16n8k64", "e2m1", "[.scale_vec::2X]", "ue8m0", "0,2"),
    _Scaled("mxf4nvf4", "m16n8k64", "e2m1", ".scale_vec::2X", "ue8m0", "0,2"),
    _Scaled("mxf4nvf4", "m16n8k64", "e2m1", ".scale_vec::4X", "<ue4m3|ue8m0>", "0"),
)


def _mnk(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def _bits(kind: str) -> int:
    """Bits of an element in a register: 4- and 6-bit floats of f8f6f4 stand in bytes."""
    return _BITS.get(kind, 8)


def _count(elements: int, bits: int) -> int:
    return elements // 32 * bits // max(32, bits)


def _choice(words: str) -> str:
    parts = words.split()
    return parts[0] if len(parts) == 1 else f"<{'|'.join(parts)}>"


def _of_row(row: _Row, head: str, shape: str, packed: int, tail: str) -> list[Form]:
    """`packed`: how many elements of K an element of A stands for (2 when sparse)."""
    m, n, k = _mnk(shape)
    bits = _bits(row.a.split()[0])
    a, b = _count(m * k // packed, bits), _count(n * k, bits)
    forms: list[Form] = []
    for accumulator in row.accumulators.split():
        c = _count(m * n, _bits(accumulator))
        pattern = (
            f"{head}.sync.aligned.{shape}.row.col{row.infix}.{accumulator}."
            f"{_choice(row.a)}.{_choice(row.b)}.{accumulator}{row.suffix}"
        )
        operands = f"v{c} v{a} v{b} w{c} {tail}"
        forms.append(Form(pattern, tuple(operands.split()), row.requires))
    return forms


def _volta() -> list[Form]:
    """m8n8k4 f16: all four majors, and f16 C into f32 D."""
    head = "mma.sync.aligned.m8n8k4.<row|col>.<row|col>"
    return [
        Form(f"{head}.{d}.f16.f16.{c}", (f"v{nd}", "v2", "v2", f"w{nc}"), "sm_70+")
        for d, nd, c, nc in (("f16", 4, "f16", 4), ("f32", 8, "f32", 8), ("f32", 8, "f16", 4))
    ]


def _scaled() -> list[Form]:
    forms: list[Form] = []
    for each in _SCALED:
        types = _choice(each.types)
        for sparse in (False, True):
            m, n, k = _mnk(each.shape)
            bits = 8 if each.kind == "mxf8f6f4" else 4
            if sparse:
                # 120f assembles the sparse form of mxf8f6f4 only.
                head = "mma.sp::ordered_metadata"
                k *= 2
                requires = "sm_120f" if each.kind == "mxf8f6f4" else "sm_120a sm_121a"
            else:
                head, requires = "mma", "sm_120f"
            pattern = (
                f"{head}.sync.aligned.m{m}n{n}k{k}.row.col.kind::{each.kind}.block_scale"
                f"{each.scale}.f32.{types}.{types}.f32.{each.scale_type}"
            )
            a, b = _count(m * k // (2 if sparse else 1), bits), _count(n * k, bits)
            metadata = "r i{0}" if sparse else ""
            tail = f"r u{{{each.bytes_allowed}/0,1}} r u{{{each.bytes_allowed}/0..3}}"
            operands = f"v4 v{a} v{b} w4 {metadata} {tail}"
            forms.append(Form(pattern, tuple(operands.split()), requires))
    return forms


def forms() -> list[Form]:
    """Every form of `mma`."""
    result = _volta()
    for row in _DENSE:
        for shape in row.shapes.split():
            result += _of_row(row, "mma", shape, 1, "")
    for row, last in _SPARSE:
        for shape in row.shapes.split():
            # `.kind` and fp8 into f16 exist in the ordered form only.
            ordered = row.infix == _KIND or (row.a == _FP8 and row.accumulators == "f16")
            head = "mma.sp::ordered_metadata" if ordered else "mma.sp[::ordered_metadata]"
            result += _of_row(row, head, shape, 2, f"r i{{0..{last}}}")
    return result + _scaled()

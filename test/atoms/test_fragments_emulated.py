"""Every thread-value layout against the emulated instruction, which was written from the manual
without this package's tables. A one-hot operand in each position in turn shows which row and which
k that position is; the other operand's columns differ from each other, so that none is mistaken.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cutedialect import atoms
from cutedialect.atoms import CopyAtom, MmaAtom
from cutedialect.backend.emulator import launch
from cutedialect.layout import Layout

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "tf32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "s8": np.int8,
    "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "s32": np.int32,
    "s4": np.int8,
    "u4": np.uint8,
    "b1": np.uint8,
}
CLASS_BYTES = {"b32": 4, "f32": 4, "f64": 8}


def fragments(matrices: Array, layout: Layout, kind: str) -> Array:
    """Batches of column-major matrices to the registers of 32 lanes: (batch, lane, word)."""
    values = layout[1].size()
    out = np.zeros((len(matrices), 32, values), DTYPES[kind])
    for lane in range(32):
        for value in range(values):
            out[:, lane, value] = matrices[:, layout(lane, value)]
    if kind in ("s4", "u4"):
        nibbles = out.view(np.uint8) & 15
        out = nibbles[..., ::2] | nibbles[..., 1::2] << 4
    elif kind == "b1":
        out = np.packbits(out.astype(np.uint8), axis=-1, bitorder="little")
    return out.view(np.uint64 if kind == "f64" else np.uint32)


@cache
def kernel(name: str) -> str:
    """Load A, B, C of this CTA's batch from memory, one MMA, store D."""
    atom = atoms.mma_atom(name)
    counts = (atom.registers_a, atom.registers_b, atom.registers_c, atom.registers_d)
    classes = atom.register_classes
    declared: list[str] = []
    body: list[str] = []
    named: list[str] = []
    for i, (letter, count, kind) in enumerate(zip("abcd", counts, classes, strict=True)):
        declared.append(f".reg .{kind} %{letter}<{count}>;")
        size = CLASS_BYTES[kind]
        body.append(f"ld.param.u64 %base, [p{i}];")
        body.append(f"mul.wide.u32 %offset, %thread, {size * count};")
        body.append("add.u64 %base, %base, %offset;")
        named.append("{" + ", ".join(f"%{letter}{r}" for r in range(count)) + "}")
        for r in range(count):
            if letter == "d":
                continue
            body.append(f"ld.global.{kind} %{letter}{r}, [%base+{size * r}];")
    body.append(f"{atom.ptx} {named[3]}, {named[0]}, {named[1]}, {named[2]};")
    size = CLASS_BYTES[classes[3]]
    body += [f"st.global.{classes[3]} [%base+{size * r}], %d{r};" for r in range(counts[3])]
    lines = [
        ".version 8.8",
        f".target {'sm_120a' if '.kind::' in atom.ptx else 'sm_90a'}",
        ".address_size 64",
        ".visible .entry probe(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)",
        "{",
        *declared,
        ".reg .b64 %base, %offset;",
        ".reg .b32 %thread, %cta, %lane;",
        "mov.u32 %lane, %tid.x;",
        "mov.u32 %cta, %ctaid.x;",
        "mad.lo.u32 %thread, %cta, 32, %lane;",
        *body,
        "ret;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def run(atom: MmaAtom, a: Array, b: Array, c: Array) -> Array:
    """D of batches of matrices, each flattened column-major, as (batch, n, m)."""
    m, n, _ = atom.shape_mnk
    words = [
        fragments(a, atom.a_layout, atom.types.a),
        fragments(b, atom.b_layout, atom.types.b),
        fragments(c, atom.c_layout, atom.types.c),
    ]
    d = np.zeros((len(a), 32, atom.registers_d), words[2].dtype)
    launch(kernel(atom.name), "probe", len(a), 32, [*words, d])
    found = d.view(DTYPES[atom.types.d])
    out = np.full((len(a), m * n), np.nan)
    for lane in range(32):
        for value in range(found.shape[2]):
            out[:, atom.c_layout(lane, value)] = found[:, lane, value].astype(np.float64)
    return out.reshape(-1, n, m)


def distinct_rows(rng: np.random.Generator, rows: int, columns: int, low: int, high: int) -> Array:
    """Small integers; no row is zero, and few equal another where bits are many."""
    while True:
        matrix = rng.integers(low, high, (rows, columns)).astype(np.float64)
        if high == 2 and matrix.any(axis=1).all():
            return matrix
        if len(np.unique(matrix, axis=0)) == rows and matrix.any(axis=1).all():
            return matrix


def probes(rows: int, k: int, kind: str) -> list[Array]:
    """Batches of column-major (rows, k) operands in which every coordinate stands out once.

    One-hot matrices, one for each coordinate, of many bits some drawn at random; for f64, slow to
    emulate, one nonzero column at a time with a different number in each row.
    """
    if kind in ("s4", "u4", "b1"):
        chosen = np.random.default_rng(rows).permutation(rows * k)[:256]
        return [np.eye(rows * k, dtype=np.int8)[chosen]]
    if kind != "f64":
        return [np.eye(rows * k)]
    return [np.kron(np.eye(k), np.arange(1.0, rows + 1))]


# The emulator has no quad-pair products (m8n8k4 f16): test_mma_atoms.py has their formulas. Sums
# that saturate have the layouts of those that do not.
WARP_WIDE = [atom for atom in atoms.mma_sync() if atom.threads == 32 and atom.kind != "satfinite"]


def product(atom: MmaAtom, a: Array, b: Array) -> Array:
    """(batch, n, m) sums of (batch, k, m) and (batch, k, n); of single bits those that differ."""
    both = np.matmul(np.swapaxes(b, 1, 2), a)
    if atom.kind != "xor":
        return both
    return a.sum(1)[:, None, :] + b.sum(1)[:, :, None] - 2 * both


@pytest.mark.some(25)
@pytest.mark.parametrize("atom", WARP_WIDE, ids=lambda atom: atom.name)
def test_every_position_of_an_mma(atom: MmaAtom) -> None:
    m, n, k = atom.shape_mnk
    rng = np.random.default_rng(7)
    low, high = -2, 3
    if atom.types.a == "b1":
        low, high = 0, 2
    elif {"u8", "u4"} & set(atom.types):
        low, high = 0, 5
    a = distinct_rows(rng, k, m, low, high)  # a[k, m]
    b = distinct_rows(rng, k, n, low, high)  # b[k, n]
    c = rng.permutation(m * n).astype(np.float64).reshape(n, m)

    for probe in probes(m, k, atom.types.a):
        batch = len(probe)
        d = run(atom, probe, np.tile(b.ravel(), (batch, 1)), np.tile(c.ravel(), (batch, 1)))
        assert np.array_equal(d, c + product(atom, probe.reshape(batch, k, m), b[None]))
    for probe in probes(n, k, atom.types.b):
        batch = len(probe)
        d = run(atom, np.tile(a.ravel(), (batch, 1)), probe, np.tile(c.ravel(), (batch, 1)))
        assert np.array_equal(d, c + product(atom, a[None], probe.reshape(batch, k, n)))


@pytest.mark.parametrize("types", ["s8", "u8", "s8_u8", "s4", "u4_s4"])
def test_sums_that_saturate(types: str) -> None:
    shape = "m16n8k32"
    clamped = atoms.mma_atom(f"mma_{shape}_s32_{types}_satfinite")
    wrapped = atoms.mma_atom(f"mma_{shape}_s32_{types}")
    m, n, k = clamped.shape_mnk
    a, b = np.ones((1, m * k)), np.ones((1, n * k))
    c = np.full((1, m * n), 2.0**31 - 1)
    assert (run(clamped, a, b, c) == 2**31 - 1).all()
    assert (run(wrapped, a, b, c) == -(2**31) + k - 1).all()


MATRIX_KERNEL = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry probe(.param .u64 image, .param .u64 rows, .param .u64 data)
{{
.reg .b64 %rd<8>;
.reg .b32 %r<16>;
.reg .pred %p0;
.shared .align 16 .b8 tile[512];
mov.u32 %r0, %tid.x;
mov.u32 %r1, tile;
ld.param.u64 %rd0, [image];
mul.wide.u32 %rd1, %r0, 16;
add.u64 %rd0, %rd0, %rd1;
shl.b32 %r2, %r0, 4;
add.u32 %r2, %r1, %r2;
ld.global.v4.b32 {{%r8, %r9, %r10, %r11}}, [%rd0];
st.shared.v4.b32 [%r2], {{%r8, %r9, %r10, %r11}};
ld.param.u64 %rd2, [rows];
mul.wide.u32 %rd3, %r0, 4;
add.u64 %rd2, %rd2, %rd3;
ld.global.b32 %r3, [%rd2];
add.u32 %r3, %r1, %r3;
ld.param.u64 %rd4, [data];
mul.wide.u32 %rd5, %r0, {bytes};
add.u64 %rd4, %rd4, %rd5;
bar.sync 0;
{body}
bar.sync 0;
ld.shared.v4.b32 {{%r8, %r9, %r10, %r11}}, [%r2];
st.global.v4.b32 [%rd0], {{%r8, %r9, %r10, %r11}};
ret;
}}
"""


@pytest.mark.parametrize(
    "atom", [a for a in atoms.copy() if a.kind in ("ldmatrix", "stmatrix")], ids=lambda a: a.name
)
def test_every_position_of_a_matrix_copy(atom: CopyAtom) -> None:
    """Rows of 16 bytes lie scattered in shared memory; lane addresses follow the row layout."""
    load = atom.kind == "ldmatrix"
    rows = atom.src_layout if load else atom.dst_layout
    fragment = atom.dst_layout if load else atom.src_layout
    slots = np.random.default_rng(3).permutation(32)[: 8 * atom.matrices]
    address = np.zeros(32, np.uint32)
    for lane in range(32):
        row = rows(lane, 0)
        address[lane] = 16 * slots[row % 8 + 8 * (row // 64)]
    elements = np.arange(1000, 1000 + 64 * atom.matrices, dtype=np.uint16)
    image = np.zeros((32, 8), np.uint16)
    stored = image.copy()
    for element, value in enumerate(elements):
        stored[slots[element % 8 + 8 * (element // 64)], element // 8 % 8] = value
    held = np.zeros((32, 2 * atom.matrices), np.uint16)
    expected = np.array(
        [[elements[fragment(t, v)] for v in range(2 * atom.matrices)] for t in range(32)]
    )
    registers = [f"%r{4 + i}" for i in range(atom.registers)]
    vector = "{" + ", ".join(registers) + "}"
    moves = [
        f"st.global.b32 [%rd4+{4 * i}], {r};" if load else f"ld.global.b32 {r}, [%rd4+{4 * i}];"
        for i, r in enumerate(registers)
    ]
    instruction = f"{atom.ptx} {vector}, [%r3];" if load else f"{atom.ptx} [%r3], {vector};"
    body = [instruction, *moves] if load else [*moves, instruction]
    ptx = MATRIX_KERNEL.format(bytes=4 * atom.registers, body="\n".join(body))
    if load:
        image = stored.copy()
    else:
        held = expected.copy()
    launch(ptx, "probe", 1, 32, [image, address, held])
    assert np.array_equal(held, expected)
    assert np.array_equal(image, stored)


def test_every_position_of_movmatrix() -> None:
    atom = atoms.copy_atom("movmatrix_trans")
    elements = np.arange(64, dtype=np.uint16)
    before = np.array([[elements[atom.src_layout(t, v)] for v in range(2)] for t in range(32)])
    after = np.array([[elements[atom.dst_layout(t, v)] for v in range(2)] for t in range(32)])
    body = f"ld.global.b32 %r4, [%rd4];\n{atom.ptx} %r5, %r4;\nst.global.b32 [%rd4], %r5;"
    data = before.copy()
    image, address = np.zeros((32, 8), np.uint16), np.zeros(32, np.uint32)
    launch(MATRIX_KERNEL.format(bytes=4, body=body), "probe", 1, 32, [image, address, data])
    assert np.array_equal(data, after)


@pytest.mark.parametrize(
    "atom", [a for a in atoms.copy() if a.kind == "cp.async"], ids=lambda a: a.name
)
@pytest.mark.parametrize("kept", ["none", "half", "all"])
def test_asynchronous_copies_fill_with_zeros(atom: CopyAtom, kept: str) -> None:
    size = {"none": 0, "half": atom.bytes // 2, "all": atom.bytes}[kept]
    body = [
        f"mov.u32 %r4, {size};",
        f"{atom.ptx} [%r3], [%rd4], {atom.bytes}, %r4;",
        "cp.async.wait_all;",
    ]
    data = np.arange(1, 1 + 32 * atom.bytes, dtype=np.uint32).astype(np.uint8).reshape(32, -1)
    image = np.full((32, 16), 255, np.uint8)
    address = (16 * np.arange(32)).astype(np.uint32)
    expected = image.copy()
    expected[:, : atom.bytes] = 0
    for value in range(size):
        expected[:, atom.dst_layout(0, value)] = data[:, atom.src_layout(0, value)]
    ptx = MATRIX_KERNEL.format(bytes=atom.bytes, body="\n".join(body))
    launch(ptx, "probe", 1, 32, [image, address, data])
    assert np.array_equal(image, expected)


@pytest.mark.parametrize(
    "atom",
    [a for a in atoms.copy() if a.kind in ("ld", "st") and 32 <= a.bits <= 128],
    ids=lambda a: a.name,
)
def test_plain_copies_move_bytes_in_order(atom: CopyAtom) -> None:
    """One side of the kernel uses the atom, the other side words of 32 bits."""
    shared = "smem" in (atom.src_space, atom.dst_space)
    words = atom.registers
    registers = [f"%r{4 + i}" for i in range(words)]
    data = "{" + ", ".join(registers) + "}" if words > 1 else registers[0]
    base = "%r3" if shared else "%rd4"
    wide = f"{atom.ptx} {data}, [{base}];" if atom.kind == "ld" else f"{atom.ptx} [{base}], {data};"
    other, at = ("%rd4", "global") if shared else ("%r3", "shared")
    narrow = [
        f"st.{at}.b32 [{other}+{4 * i}], {r};"
        if atom.kind == "ld"
        else f"ld.{at}.b32 {r}, [{other}+{4 * i}];"
        for i, r in enumerate(registers)
    ]
    body = [wide, *narrow] if atom.kind == "ld" else [*narrow, wide]
    image = np.arange(512, dtype=np.uint32).astype(np.uint8).reshape(32, 16)
    held = (255 - np.arange(32 * atom.bytes, dtype=np.uint32) % 251).astype(np.uint8)
    held = held.reshape(32, atom.bytes)
    address = (16 * np.arange(32)).astype(np.uint32)
    before_image, before_held = image.copy(), held.copy()
    ptx = MATRIX_KERNEL.format(bytes=atom.bytes, body="\n".join(body))
    launch(ptx, "probe", 1, 32, [image, address, held])
    order = [atom.src_layout(0, v) for v in range(atom.bytes)]
    if shared is (atom.kind == "ld"):
        assert np.array_equal(held, before_image[:, order])
    else:
        assert np.array_equal(image[:, : atom.bytes], before_held[:, order])

"""Descriptors, k steps and fragments of wgmma against the emulated instruction, which reads the 64
bits and the registers by the manual alone: a product of small integers has to come out exactly."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cutedialect.atoms.matrix_descriptor import matrix_descriptor, operand_addends
from cutedialect.atoms.smem_layouts import MODES, SmemLayoutAtom
from cutedialect.atoms.wgmma_atoms import WgmmaAtom, wgmma_atom
from cutedialect.backend.emulator import launch
from cutedialect.layout import Layout, Swizzle

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "tf32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "s8": np.int8,
    "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s32": np.int32,
}


class Operand:
    """A tile of (rows, depth) with its place in shared memory."""

    def __init__(self, layout: Layout, swizzle: Swizzle | None, kind: str, rows: int) -> None:
        self.layout, self.swizzle, self.rows = layout, swizzle, rows
        self.dtype = np.dtype(DTYPES[kind])
        self.bits = 8 * self.dtype.itemsize
        self.shape = layout[0].size(), layout[1].size()
        self.bytes = -(-layout.cosize() * self.dtype.itemsize // 1024) * 1024
        self.addends = operand_addends(layout, swizzle, self.bits, rows, 256 // self.bits)
        self.descriptor = matrix_descriptor(layout, swizzle, self.bits, rows)

    def image(self, values: Array) -> Array:
        """Shared memory that holds the tile."""
        out = np.zeros(self.bytes, np.uint8)
        size = self.dtype.itemsize
        for row in range(self.shape[0]):
            for k in range(self.shape[1]):
                byte = self.layout(row, k) * size
                byte = self.swizzle(byte) if self.swizzle else byte
                out[byte : byte + size] = np.array([values[row, k]], self.dtype).view(np.uint8)
        return out


def kernel(atom: WgmmaAtom, bytes_: int, products: list[tuple[str, str]], tail: str) -> str:
    """Fill shared memory from `p0`, multiply, and store D to `p1`; A in registers from `p2`."""
    kind = "f32" if atom.types.d == "f32" else "b32"
    d = ", ".join(f"%d{i}" for i in range(atom.registers_d))
    lines = [
        ".version 8.4",
        ".target sm_90a",
        ".address_size 64",
        f".shared .align 1024 .b8 smem[{bytes_}];",
        ".visible .entry probe(.param .u64 p0, .param .u64 p1, .param .u64 p2)",
        ".reqntid 128",
        "{",
        f".reg .{kind} %d<{atom.registers_d}>;",
        ".reg .b32 %r<8>, %a<4>, %tid, %at, %word;",
        ".reg .b64 %rd<8>, %from, %to;",
        ".reg .pred %more;",
        "mov.u32 %tid, %tid.x;",
        "ld.param.u64 %from, [p0];",
        "mul.wide.u32 %rd0, %tid, 4;",
        "add.u64 %from, %from, %rd0;",
        "mov.u32 %at, smem;",
        "shl.b32 %r0, %tid, 2;",
        "add.u32 %r1, %at, %r0;",
        f"add.u32 %r2, %at, {bytes_};",
        "FILL:",
        "ld.global.b32 %word, [%from];",
        "st.shared.b32 [%r1], %word;",
        "add.u64 %from, %from, 512;",
        "add.u32 %r1, %r1, 512;",
        "setp.lt.u32 %more, %r1, %r2;",
        "@%more bra FILL;",
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        "ld.param.u64 %to, [p2];",
        "mul.wide.u32 %rd0, %tid, 16;",
        "add.u64 %to, %to, %rd0;",
        *(f"ld.global.b32 %a{i}, [%to+{4 * i}];" for i in range(4)),
        # The start-address field of an operand is its address / 16.
        "shr.u32 %r3, %at, 4;",
        "cvt.u64.u32 %rd1, %r3;",
        *(
            f"mov.{kind} %d{i}, {'0f00000000' if kind == 'f32' else 0};"
            for i in range(atom.registers_d)
        ),
        "wgmma.fence.sync.aligned;",
    ]
    for a, b in products:
        if a != "registers":
            lines.append(f"add.s64 %rd2, %rd1, {a};")
        lines.append(f"add.s64 %rd3, %rd1, {b};")
        place = "{%a0, %a1, %a2, %a3}" if a == "registers" else "%rd2"
        lines.append(f"{atom.ptx} {{{d}}}, {place}, %rd3, 1{tail};")
    lines += [
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
        "ld.param.u64 %to, [p1];",
        f"mul.wide.u32 %rd0, %tid, {4 * atom.registers_d};",
        "add.u64 %to, %to, %rd0;",
        *(f"st.global.{kind} [%to+{4 * i}], %d{i};" for i in range(atom.registers_d)),
        "ret;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def integers(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> Array:
    return rng.integers(0 if kind == "u8" else -2, 3, shape).astype(np.float64)


def gathered(atom: WgmmaAtom, d: Array) -> Array:
    """Registers of 128 threads as (64, N)."""
    _, n, _ = atom.shape_mnk
    found = d.view(DTYPES[atom.types.d])
    out = np.full(64 * n, np.nan)
    for thread in range(128):
        for value in range(found.shape[1]):
            out[atom.c_layout(thread, value)] = found[thread, value]
    return out.reshape(n, 64).T


def multiplied(atom: WgmmaAtom, a: Operand, b: Operand, row_block: int) -> tuple[Array, Array]:
    """Rows of one block of A times all of B, by the emulator and by NumPy."""
    rng = np.random.default_rng(5)
    a_values = integers(rng, a.shape, atom.types.a)
    b_values = integers(rng, b.shape, atom.types.b)
    products = [
        (str(a.descriptor.at(0) + x), str(b.descriptor.at(a.bytes) + y))
        for x, y in zip(a.addends[row_block], b.addends[0], strict=True)
    ]
    majors = atom.immediates(a_major=a.descriptor.major, b_major=b.descriptor.major)
    text = kernel(atom, a.bytes + b.bytes, products, "".join(f", {i}" for i in majors))
    d = np.zeros((128, atom.registers_d), np.uint32)
    image = np.concatenate([a.image(a_values), b.image(b_values)])
    launch(text, "probe", 1, 128, [image, d, np.zeros(512, np.uint32)])
    expected = a_values[64 * row_block : 64 * row_block + 64] @ b_values.T
    return gathered(atom, d), expected


@pytest.mark.some(12)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "a_major", "b_major"),
    [
        ("wgmma_m64n64k16_f32_f16_f16", "K", "K"),
        ("wgmma_m64n128k16_f32_bf16_bf16", "K", "MN"),
        ("wgmma_m64n64k16_f16_f16_f16", "MN", "K"),
        ("wgmma_m64n192k16_f32_f16_f16", "MN", "MN"),
        ("wgmma_m64n32k8_f32_tf32_tf32", "K", "K"),
        ("wgmma_m64n96k32_f32_e4m3_e5m2", "K", "K"),
        ("wgmma_m64n48k32_s32_s8_u8", "K", "K"),
    ],
)
def test_both_operands_in_shared_memory(mode: str, name: str, a_major: str, b_major: str) -> None:
    atom = wgmma_atom(name)
    _, n, k = atom.shape_mnk
    bits = 256 // k
    # Two k steps at least; four fill a row of 128 bytes, so eight make two blocks of them.
    steps = 2 if mode != "128B" else 4 if "MN" in (a_major, b_major) else 8
    depth = steps * k
    first, second = SmemLayoutAtom(mode, a_major, bits), SmemLayoutAtom(mode, b_major, bits)
    a = Operand(first.tile((128, depth)), first.swizzle, atom.types.a, 64)
    b = Operand(second.tile((n, depth)), second.swizzle, atom.types.b, n)
    got, expected = multiplied(atom, a, b, row_block=1)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("a_text", "b_text", "n"),
    [
        # Rows of A in padded groups; B an MN-major block of which the instruction reads a part.
        ("((8,8),64):((64,1024),1)", "(64,64):(1,64)", 64),
        ("(64,32):(1,64)", "((64,2),32):((1,2048),64)", 128),
        ("((8,8),(64,2)):((64,1024),(1,512))", "(8,(64,2)):(64,(1,512))", 8),
    ],
)
def test_layouts_of_other_strides(a_text: str, b_text: str, n: int) -> None:
    atom = wgmma_atom(f"wgmma_m64n{n}k16_f32_bf16_bf16")
    swizzle = Swizzle(3, 4, 3)
    a = Operand(Layout.parse(a_text), swizzle, "bf16", 64)
    b = Operand(Layout.parse(b_text), swizzle, "bf16", n)
    got, expected = multiplied(atom, a, b, row_block=0)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    "name",
    [
        "wgmma_m64n16k16_f32_f16_f16",
        "wgmma_m64n16k16_f16_f16_f16",
        "wgmma_m64n16k16_f32_bf16_bf16",
        "wgmma_m64n16k8_f32_tf32_tf32",
        "wgmma_m64n16k32_f32_e5m2_e4m3",
        "wgmma_m64n16k32_s32_u8_s8",
    ],
)
def test_a_in_registers(name: str) -> None:
    atom = wgmma_atom(name)
    _, n, k = atom.shape_mnk
    rng = np.random.default_rng(9)
    a_values = integers(rng, (64, k), atom.types.a)
    b_values = integers(rng, (n, k), atom.types.b)
    shape = SmemLayoutAtom("32B", "K", 256 // k)
    b = Operand(shape.tile((n, k)), shape.swizzle, atom.types.b, n)
    fragments = np.zeros((128, atom.values[0]), DTYPES[atom.types.a])
    flat = a_values.T.ravel()
    for thread in range(128):
        for value in range(atom.values[0]):
            fragments[thread, value] = flat[atom.a_layout(thread, value)]
    tail = "".join(f", {i}" for i in atom.immediates(a_space="rmem"))
    text = kernel(atom, b.bytes, [("registers", str(b.descriptor.at(0)))], tail)
    d = np.zeros((128, atom.registers_d), np.uint32)
    launch(text, "probe", 1, 128, [b.image(b_values), d, fragments.view(np.uint32)])
    assert np.array_equal(gathered(atom, d), a_values @ b_values.T)

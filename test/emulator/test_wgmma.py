"""wgmma against NumPy: operands are placed in shared memory element by element by the canonical
layouts of the PTX manual (CuTe strides, then the swizzle's XOR of address bits), the accumulator is
read back by its register formula, and small integers must come out exact.
"""

from __future__ import annotations

import functools
import itertools
import math
import tempfile
import zlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.emulator import launch

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
    "s32": np.int32,
}  # fmt: skip
SWIZZLE_CODE = {0: 0, 128: 1, 64: 2, 32: 3}


@dataclass
class Place:
    """Where an operand lies: ``lbo`` and ``sbo`` in bytes, ``start`` from the (1024-byte aligned)
    beginning of the buffer, ``base`` the base offset field, ``whole`` the span for which it is set.
    """

    span: int = 128
    mn: bool = False
    lbo: int = 0
    sbo: int = 1024
    start: int = 0
    base: int = 0

    @property
    def descriptor(self) -> int:
        """All but the address of the buffer."""
        return (
            (self.start >> 4) | (self.lbo >> 4) << 16 | (self.sbo >> 4) << 32
            | self.base << 49 | SWIZZLE_CODE[self.span] << 62
        )  # fmt: skip

    def address(self, row: int, k: int, size: int) -> int:
        """Byte of element (row, k) of ``size`` bytes."""
        t = 16 // size
        if self.mn:
            width = max(self.span, 16) // 16
            linear = row % t * size + k % 8 * (16 * width)
            if self.span:
                linear += row // t % width * 16 + row // t // width * self.lbo + k // 8 * self.sbo
            else:
                linear += row // t * self.sbo + k // 8 * self.lbo
        elif self.span:
            linear = row % 8 * self.span + row // 8 * self.sbo + k // t * 16 + k % t * size
        else:
            linear = row % 8 * 16 + row // 8 * self.sbo + k // t * self.lbo + k % t * size
        at = self.start + linear
        phase = (at >> 7) - self.base
        return at ^ (phase & {0: 0, 32: 1, 64: 3, 128: 7}[self.span]) << 4

    def put(self, image: np.ndarray, matrix: np.ndarray) -> None:
        size = matrix.itemsize
        raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, size)
        for row, k in np.ndindex(matrix.shape):
            at = self.address(row, k, size)
            image[at : at + size] = raw[row, k]


def words(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint32)


def fragment_of_a(matrix: np.ndarray) -> np.ndarray:
    """``[4, 128]``: register r of a thread holds row 16w + g + 8 (r % 2), elements from
    e (q + 4 (r / 2)) on."""
    each = 4 // matrix.itemsize
    out = np.zeros((4, 128), np.uint32)
    for thread in range(128):
        warp, g, q = thread // 32, thread % 32 // 4, thread % 4
        for r in range(4):
            start = each * q + 4 * each * (r // 2)
            out[r, thread] = words(matrix[16 * warp + g + 8 * (r % 2), start : start + each])[0]
    return out


def accumulator_of(registers: np.ndarray, n: int, dtype: type) -> np.ndarray:
    """The 64 x n matrix of ``registers [count, 128]``."""
    out = np.zeros((64, n), dtype)
    packed = 2 if dtype == np.float16 else 1
    values = registers.view(dtype).reshape(len(registers), 128, packed)
    for i in range(n // 2):
        for thread in range(128):
            warp, g, q = thread // 32, thread % 32 // 4, thread % 4
            row, column = 16 * warp + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * q + i % 2
            out[row, column] = values[i // packed, thread, i % packed]
    return out


def text(opcode: str, count: int, tail: str, from_registers: bool, body: str = "{mma}") -> str:
    """A kernel of one warpgroup: fills shared memory, loads the accumulators (and A) from memory,
    runs ``body`` and stores the accumulators."""
    d = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    a = "{%a0, %a1, %a2, %a3}" if from_registers else "%da"
    mma = f"wgmma.mma_async.sync.aligned.{opcode} {d}, {a}, %db, {tail};"
    loads = "\n".join(f"ld.global.b32 %d{i}, [%rd2+{512 * i}];" for i in range(count))
    stores = "\n".join(f"st.global.b32 [%rd2+{512 * i}], %d{i};" for i in range(count))
    fragment = "\n".join(f"ld.global.b32 %a{i}, [%rd3+{512 * i}];" for i in range(4))
    return f""".version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 buffer[];
.visible .entry k(.param .u64 p0, .param .u32 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4,
                  .param .u64 p5, .param .u32 p6)
{{
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .b32 %d<{count}>; .reg .b32 %a<4>;
.reg .b64 %da; .reg .b64 %db; .reg .pred %scale;
ld.param.u64 %rd0, [p0]; ld.param.u32 %r0, [p1]; ld.param.u64 %rd2, [p2]; ld.param.u64 %rd3, [p3];
ld.param.u64 %da, [p4]; ld.param.u64 %db, [p5]; ld.param.u32 %r6, [p6];
setp.ne.u32 %scale, %r6, 0;
mov.u32 %r1, %tid.x; mov.u32 %r2, buffer; shl.b32 %r3, %r1, 2;
FILL:
setp.ge.u32 %p0, %r3, %r0;
@%p0 bra FILLED;
cvt.u64.u32 %rd4, %r3; add.s64 %rd4, %rd0, %rd4; ld.global.b32 %r4, [%rd4];
add.u32 %r5, %r2, %r3; st.shared.b32 [%r5], %r4;
add.u32 %r3, %r3, 512;
bra FILL;
FILLED:
fence.proxy.async.shared::cta;
bar.sync 0;
shr.u32 %r2, %r2, 4; cvt.u64.u32 %rd5, %r2;
add.s64 %da, %da, %rd5; add.s64 %db, %db, %rd5;
mul.wide.u32 %rd6, %r1, 4; add.s64 %rd2, %rd2, %rd6; add.s64 %rd3, %rd3, %rd6;
{loads}
{fragment}
{
        body.replace("{mma}", mma)
        if body != "{mma}"
        else f'''wgmma.fence.sync.aligned;
{mma}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;'''
    }
{stores}
ret;
}}
"""


def run(
    opcode: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, at_a: Place | None, at_b: Place,
    tail: str, scale: int = 1, body: str = "{mma}", *, exact: bool = True,
) -> np.ndarray:  # fmt: skip
    """D of one instruction; ``at_a`` None takes A from registers. ``c`` has D's dtype. A GPU, where
    there is one that knows wgmma, must give the same bits if the result is ``exact``."""
    n = c.shape[1]
    image = np.random.default_rng(7).integers(0, 256, 1 << 16).astype(np.uint8)
    at_b.put(image, b)
    fragment = np.zeros((4, 128), np.uint32)
    if at_a is None:
        fragment = fragment_of_a(a)
    else:
        at_a.put(image, a)
    count = n // 4 if c.dtype == np.float16 else n // 2
    registers = registers_of(c, count)
    ptx = text(opcode, count, tail, at_a is None, body)
    numbers = [
        np.uint64(at_a.descriptor if at_a else 0), np.uint64(at_b.descriptor), np.uint32(scale)
    ]  # fmt: skip
    hardware = registers.copy()
    launch(
        ptx, "k", 1, 128, [image, np.uint32(len(image)), registers, fragment, *numbers],
        dynamic_smem=len(image),
    )  # fmt: skip
    if exact and gpu() is not None:
        held = [gpu().asarray(array) for array in (image, hardware, fragment)]
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(ptx)
            file.flush()
            kernel = gpu().RawModule(path=file.name).get_function("k")
        kernel.max_dynamic_shared_size_bytes = len(image)
        arguments = (held[0], np.uint32(len(image)), held[1], held[2], *numbers)
        kernel((1,), (128,), arguments, shared_mem=len(image))
        np.testing.assert_array_equal(held[1].get(), registers)
    return accumulator_of(registers, n, c.dtype.type)


@functools.cache
def gpu() -> Any:
    """CuPy where there is a GPU with wgmma, else None."""
    try:
        import cupy

        return cupy if cupy.cuda.Device().compute_capability == "90" else None
    except Exception:
        return None


def registers_of(c: np.ndarray, count: int) -> np.ndarray:
    n = c.shape[1]
    packed = 2 if c.dtype == np.float16 else 1
    out = np.zeros((count, 128, packed), c.dtype)
    for i in range(n // 2):
        for thread in range(128):
            warp, g, q = thread // 32, thread % 32 // 4, thread % 4
            row, column = 16 * warp + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * q + i % 2
            out[i // packed, thread, i % packed] = c[row, column]
    return out.view(np.uint32).reshape(count, 128)


def integers(rng: np.random.Generator, shape: tuple[int, int], type: str) -> np.ndarray:
    low, high = {"s8": (-128, 128), "u8": (0, 256)}.get(type, (-4, 5))
    return rng.integers(low, high, shape).astype(DTYPES[type])


def packed_place(n: int, span: int, mn: bool, start: int) -> tuple[Place, int]:
    """A dense operand of ``n`` rows and 32 bytes of K in its canonical layout, and its end."""
    if mn:
        width = max(span // 2, 8)
        blocks = -(-n // width)
        if span:
            return Place(span, True, lbo=16 * span, sbo=8 * span, start=start), (
                start + blocks * 16 * span)  # fmt: skip
        return Place(0, True, lbo=blocks * 128, sbo=128, start=start), start + blocks * 256
    if span:
        return Place(span, False, lbo=16, sbo=8 * span, start=start), start + n * span
    return Place(0, False, lbo=n * 16, sbo=128, start=start), start + 32 * n


def check(
    rng: np.random.Generator, n: int, d: str, a: str, b: str, *, span: int = 128,
    mn: tuple[bool, bool] = (False, False), registers: bool = False, scale: int = 1,
    signs: tuple[int, int] = (1, 1), extra: str = "",
) -> None:  # fmt: skip
    k = 32 // np.dtype(DTYPES[a]).itemsize
    left, right = integers(rng, (64, k), a), integers(rng, (n, k), b)
    c = integers(rng, (64, n), "s8").astype(DTYPES[d])
    at_a, end = packed_place(64, span, mn[0], 0)
    at_b, _ = packed_place(n, span, mn[1], -(-end // 1024) * 1024)
    tail = "%scale"
    if a not in ("s8", "u8"):
        tail += f", {signs[0]}, {signs[1]}"
    if a in ("f16", "bf16"):
        tail += f", {int(mn[1])}" if registers else f", {int(mn[0])}, {int(mn[1])}"
    found = run(
        f"m64n{n}k{k}{extra}.{d}.{a}.{b}", left, right, c, None if registers else at_a, at_b, tail,
        scale,
    )  # fmt: skip
    exact = left.astype(np.int64) @ right.astype(np.int64).T * signs[0] * signs[1]
    exact = exact + (c.astype(np.int64) if scale else 0)
    np.testing.assert_array_equal(found.astype(np.float64), exact)


@pytest.mark.parametrize("n", [8, 16, 24, 40, 64, 96, 136, 192, 248, 256])
def test_widths(rng, n):
    check(rng, n, "f32", "bf16", "bf16")


@pytest.mark.some(16)
@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize("mn", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_majors_and_swizzles(rng, type, mn, span):
    check(rng, 80, "f32", type, type, span=span, mn=mn)


@pytest.mark.parametrize(
    ("d", "a", "b"),
    [("f16", "f16", "f16"), ("f32", "tf32", "tf32"), ("f32", "e4m3", "e4m3"),
     ("f32", "e5m2", "e4m3"), ("f16", "e4m3", "e5m2"), ("f16", "e5m2", "e5m2"),
     ("s32", "s8", "s8"), ("s32", "s8", "u8"), ("s32", "u8", "s8"), ("s32", "u8", "u8")],
)  # fmt: skip
@pytest.mark.parametrize("registers", [False, True])
def test_types(rng, d, a, b, registers):
    check(rng, 32, d, a, b, registers=registers, span=64)


@pytest.mark.parametrize("mn", [False, True])
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_a_in_registers(rng, type, mn):
    check(rng, 24, "f32", type, type, registers=True, mn=(False, mn))


@pytest.mark.parametrize("signs", [(1, -1), (-1, 1), (-1, -1)])
@pytest.mark.parametrize("types", ["f32.f16.f16", "f32.tf32.tf32", "f16.e4m3.e5m2"])
def test_negation(rng, signs, types):
    check(rng, 16, *types.split("."), signs=signs)


@pytest.mark.parametrize("types", ["f32.bf16.bf16", "f16.f16.f16", "s32.s8.u8"])
def test_a_false_scale_d_ignores_the_accumulator(rng, types):
    check(rng, 16, *types.split("."), scale=0)


def test_scale_d_may_be_a_constant(rng):
    a, b = integers(rng, (64, 16), "f16"), integers(rng, (8, 16), "f16")
    c = integers(rng, (64, 8), "s8").astype(np.float32)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    places = Place(), Place(start=8192)
    for scale, expected in ((0, product), (1, product + c)):
        found = run("m64n8k16.f32.f16.f16", a, b, c, *places, f"{scale}, 1, 1, 0, 0")
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("where", [".satfinite.s32.s8.s8", ".s32.s8.s8.satfinite", ".s32.s8.s8"])
def test_integers_wrap_or_saturate(rng, where):
    a, b = integers(rng, (64, 32), "s8"), integers(rng, (16, 32), "s8")
    edge = np.iinfo(np.int32)
    c = rng.choice([edge.min + 9, edge.max - 9], (64, 16)).astype(np.int32)
    exact = a.astype(np.int64) @ b.astype(np.int64).T + c
    found = run("m64n16k32" + where, a, b, c, Place(), Place(start=8192), "%scale")
    wrapped = exact.astype(np.int32)
    expected = np.clip(exact, edge.min, edge.max) if "satfinite" in where else wrapped
    assert (wrapped != np.clip(exact, edge.min, edge.max)).any()
    np.testing.assert_array_equal(found, expected)


def test_single_bits_count_common_ones(rng):
    a, b = rng.integers(0, 2, (64, 256)), rng.integers(0, 2, (8, 256))
    left = np.packbits(a.astype(np.uint8), axis=1, bitorder="little").view(np.int8)
    right = np.packbits(b.astype(np.uint8), axis=1, bitorder="little").view(np.int8)
    c = integers(rng, (64, 8), "s8").astype(np.int32)
    for at_a in (Place(), None):
        opcode = "m64n8k256.s32.b1.b1.and.popc"
        found = run(opcode, left, right, c, at_a, Place(start=8192), "%scale")
        np.testing.assert_array_equal(found, a @ b.T + c)


@pytest.mark.parametrize("step", [0, 32, 64, 96])
def test_k_advances_inside_a_swizzle_atom(rng, step):
    a, b = integers(rng, (64, 16), "bf16"), integers(rng, (40, 16), "bf16")
    c = np.zeros((64, 40), np.float32)
    found = run(
        "m64n40k16.f32.bf16.bf16", a, b, c, Place(start=step), Place(start=8192 + step),
        "%scale, 1, 1, 0, 0",
    )  # fmt: skip
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize(
    "place",
    [Place(128, start=8192 + 256, base=2), Place(128, start=8192 + 128 * 5),
     Place(64, sbo=512, start=8192 + 128, base=1), Place(32, sbo=256, start=8192 + 128, base=1),
     Place(128, True, lbo=4096, sbo=1024, start=8192 + 384, base=3),
     Place(64, True, lbo=2048, sbo=512, start=8192 + 384, base=3),
     Place(32, True, lbo=512, sbo=2048, start=8192 + 128),
     Place(0, sbo=640, lbo=128, start=8192 + 48), Place(0, True, lbo=4096, sbo=256, start=8192),
     Place(128, sbo=2048, start=8192), Place(128, True, lbo=2048, sbo=16384, start=8192 + 64)],
)  # fmt: skip
def test_unaligned_starts_base_offsets_and_strides(rng, place):
    a, b = integers(rng, (64, 16), "f16"), integers(rng, (40, 16), "f16")
    c = np.zeros((64, 40), np.float32)
    tail = f"%scale, 1, 1, 0, {int(place.mn)}"
    found = run("m64n40k16.f32.f16.f16", a, b, c, Place(), place, tail)
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32).T)


def test_tf32_drops_low_bits(rng):
    a, b = integers(rng, (64, 8), "tf32"), integers(rng, (16, 8), "tf32")
    noise = rng.integers(0, 1 << 13, (64, 8)).astype(np.uint32)
    noisy = (a.view(np.uint32) | np.where(a == 0, 0, noise).astype(np.uint32)).view(np.float32)
    c = np.zeros((64, 16), np.float32)
    found = run("m64n16k8.f32.tf32.tf32", noisy, b, c, None, Place(), "%scale, 1, 1")
    np.testing.assert_array_equal(found, a @ b.T)


def wild(rng: np.random.Generator, shape: tuple[int, int], type: str, case: str) -> np.ndarray:
    """Random numbers of a type: ``near`` 1, or ``wide``ly spread, ``tiny`` (subnormals among them)
    or ``huge`` with a tenth of zeros."""
    if case == "near":
        return rng.standard_normal(shape).astype(DTYPES[type])
    low, high = {"f16": (-24, 15), "e4m3": (-9, 8), "e5m2": (-16, 15)}.get(type, (-132, 127))
    if case == "wide" and low < -24:
        low, high = -60, 60
    ends = {"wide": (low, high), "tiny": (low, low + 8), "huge": (high - 6, high + 1)}[case]
    numbers = np.ldexp(rng.uniform(1, 2, shape), rng.integers(*ends, shape))
    with np.errstate(over="ignore"):
        return (numbers * rng.choice([-1.0, 1.0] * 5 + [0.0], shape)).astype(DTYPES[type])


def hardware_sum(a: np.ndarray, b: np.ndarray, c: float, fraction: int, least: tuple[int, int],
                 dtype: type) -> float:  # fmt: skip
    """One element of D by the rule that an H200 follows, in exact arithmetic: terms are cut toward
    zero at ``fraction`` bits below the largest exponent, where a product has the sum of its
    factors' exponents."""

    def exponent(x: float, least: int) -> int:
        return max(int(np.frexp(x)[1]) - 1, least)

    terms = [Fraction(float(c))]
    exponents = [exponent(c, -149)] if c else []
    for x, y in zip(a.astype(np.float64), b.astype(np.float64), strict=True):
        terms.append(Fraction(x) * Fraction(y))
        if x and y:
            exponents.append(exponent(x, least[0]) + exponent(y, least[1]))
    grid = Fraction(2) ** (max(exponents, default=0) - fraction)
    total = sum(math.trunc(term / grid) for term in terms) * grid
    if dtype is np.float16:
        return float(np.float16(float(total))) + 0.0
    kept = min(fraction + 1, 24)
    step = Fraction(2) ** max(exponent(float(total), -149) + 1 - kept, -149)
    return float(np.float32(float(math.trunc(total / step) * step))) + 0.0


LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}
# CRC-32 of all results of the test below, as an H200 gave them.
RECORDED = {
    "f32.f16.f16": 0xf31883b0, "f32.bf16.bf16": 0x9ad71633, "f32.tf32.tf32": 0x7ade51a7,
    "f32.e4m3.e4m3": 0xf518e5eb,
    "f32.e5m2.e4m3": 0x44478d4e, "f16.f16.f16": 0x99f113f7, "f16.e4m3.e5m2": 0x7d93e227,
}  # fmt: skip


@pytest.mark.some(4)
@pytest.mark.parametrize("types", RECORDED)
def test_sums_are_cut_as_on_an_h200(types):
    d, a, b = types.split(".")
    k = 32 // np.dtype(DTYPES[a]).itemsize
    fraction = 13 if a in ("e4m3", "e5m2") else 25
    checksum = 0
    for case, scale in itertools.product(("near", "wide", "tiny", "huge"), (0, 1)):
        rng = np.random.default_rng(11)
        left, right = wild(rng, (64, k), a, case), wild(rng, (16, k), b, case)
        if a == "tf32":
            left, right = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (left, right))
        c = wild(rng, (64, 16), "f16" if d == "f16" else "tf32", case).astype(DTYPES[d])
        tail = "%scale, -1, 1" + (", 0" if a in ("f16", "bf16") else "")
        found = run(f"m64n16k{k}.{types}", left, right, c, None, Place(), tail, scale)
        checksum = zlib.crc32(found.tobytes(), checksum)
        rows, columns = rng.integers(0, 64, 6), rng.integers(0, 16, 6)
        with np.errstate(all="ignore"):
            for m, n in zip(rows.tolist(), columns.tolist(), strict=True):
                if (
                    np.isfinite(left[m].astype(float)).all()
                    and np.isfinite(right[n].astype(float)).all()
                ):
                    start = float(c[m, n]) if scale else 0.0
                    least = LEAST[a], LEAST[b]
                    expected = hardware_sum(
                        -left[m], right[n], start, fraction, least, type(c[0, 0])
                    )
                    assert found[m, n] == expected, (case, scale, m, n)
    assert checksum == RECORDED[types], hex(checksum)


@pytest.mark.parametrize("d", [np.float32, np.float16])
def test_nan_is_the_hardware_one(rng, d):
    a, b = integers(rng, (64, 16), "f16"), integers(rng, (8, 16), "f16")
    a[3, 5] = -np.nan
    found = run(
        f"m64n8k16.f{32 if d is np.float32 else 16}.f16.f16", a, b, np.zeros((64, 8), d), Place(),
        Place(start=8192), "%scale, 1, 1, 0, 0",
    )  # fmt: skip
    bits = found.view(f"u{found.itemsize}")
    assert (bits[3] == (0x7FFFFFFF if d is np.float32 else 0x7FFF)).all()
    assert np.isfinite(found[np.arange(64) != 3]).all()


def test_a_chain_in_one_group(rng):
    a, b = integers(rng, (64, 16), "bf16"), integers(rng, (16, 16), "bf16")
    c = integers(rng, (64, 16), "s8").astype(np.float32)
    body = """wgmma.fence.sync.aligned;
{mma}
{mma}
wgmma.commit_group.sync.aligned;
{mma}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 1;
wgmma.wait_group.sync.aligned 0;
wgmma.fence.sync.aligned;
{mma}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""
    places = Place(), Place(start=8192)
    tail = "%scale, 1, 1, 0, 0"
    found = run("m64n16k16.f32.bf16.bf16", a, b, c, *places, tail, body=body)
    np.testing.assert_array_equal(found, 4 * (a.astype(np.float32) @ b.astype(np.float32).T) + c)

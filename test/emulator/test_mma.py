"""Matrix instructions, lane-exact: operands are placed by the formulas of the PTX manual, written
out here per lane and register, and the product is compared with NumPy.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest


def words_of(values: list[float], type: str) -> int:
    """Elements, low bits first, as one 32- or 64-bit register."""
    if type == "f64":
        return int(np.array(values).view(np.uint64)[0])
    if type in ("s4", "u4"):
        return sum((int(v) & 15) << 4 * i for i, v in enumerate(values))
    if type == "b1":
        return sum(int(v) << i for i, v in enumerate(values))
    dtype = {
        "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8,
        "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    }[type]  # fmt: skip
    return int(np.array(values).astype(dtype).view(np.uint32)[0])


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
        "e4m3": 8, "e5m2": 8}  # fmt: skip


def registers(matrix: np.ndarray, type: str, alternate: bool) -> np.ndarray:
    """``[registers, 32]``: register r of a lane holds row g (+ 8 for odd r of a 16-row matrix) and
    e consecutive k from e * q on, the next block of k every 1 or 2 registers."""
    rows, k = matrix.shape
    e = max(1, 32 // BITS[type])
    count = rows * k // (32 * e)
    out = np.zeros((count, 32), np.uint64)
    for lane in range(32):
        g, q = lane // 4, lane % 4
        for r in range(count):
            row = g + 8 * (r % 2) if alternate else g
            start = e * q + 4 * e * (r // 2 if alternate else r)
            out[r, lane] = words_of(list(matrix[row, start : start + e]), type)
    return out


def run_mma(run_kernel, name, a, b, c, types, *, warps=1):
    d_type, a_type, b_type, _ = types
    m, n = c.shape
    ra = registers(a, a_type, m == 16)
    rb = registers(b, b_type, False)
    wide = a_type == "f64"
    storage = np.uint64 if wide else np.uint32
    values = m * n // 32
    count = values // 2 if d_type == "f16" else values
    flat = np.zeros((values, 32), c.dtype)
    for lane in range(32):
        g, q = lane // 4, lane % 4
        for i in range(values):
            flat[i, lane] = c[g + 8 * (i // 2), 2 * q + i % 2]
    if d_type == "f16":
        halves = flat.view(np.uint16).reshape(count, 2, 32).astype(np.uint32)
        rc = halves[:, 0] | halves[:, 1] << 16
    else:
        rc = flat.view(storage)
    source = np.concatenate([ra.astype(storage), rb.astype(storage), rc.astype(storage)])
    total = len(source)
    out = np.zeros((count, 32), storage)
    size, kind, prefix = (8, "b64", "%rd2") if wide else (4, "b32", "%r1")
    lines = [
        f"mul.wide.u32 %rd9, %r1, {size}; add.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;"
    ]
    lines += [f"ld.global.{kind} {prefix}{i:02}, [%rd10+{i * 32 * size}];" for i in range(total)]
    ranges = np.cumsum([0, len(ra), len(rb), len(rc)])
    names = [
        "{" + ", ".join(f"{prefix}{i:02}" for i in range(lo, hi)) + "}"
        for lo, hi in itertools.pairwise(ranges)
    ]
    results = [f"{prefix}{i:02}" for i in range(60, 60 + count)]
    lines.append(f"{name} {{{', '.join(results)}}}, {', '.join(names)};")
    lines += [f"st.global.{kind} [%rd11+{i * 32 * size}], {r};" for i, r in enumerate(results)]
    run_kernel("\n".join(lines), [source, out])
    dtype = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}[d_type]
    found = np.zeros((m, n), dtype)
    for lane in range(32):
        g, q = lane // 4, lane % 4
        for i in range(values):
            if d_type == "f16":
                bits = int(out[i // 2, lane]) >> 16 * (i % 2) & 0xFFFF
                value = np.array([bits], np.uint16).view(np.float16)[0]
            else:
                value = out[i, lane : lane + 1].view(dtype)[0]
            found[g + 8 * (i // 2), 2 * q + i % 2] = value
    return found


FLOAT_CASES = [
    ("m16n8k8", "f16", "f16", "f16"), ("m16n8k8", "f32", "f16", "f16"),
    ("m16n8k16", "f16", "f16", "f16"), ("m16n8k16", "f32", "f16", "f16"),
    ("m16n8k8", "f32", "bf16", "bf16"), ("m16n8k16", "f32", "bf16", "bf16"),
    ("m16n8k4", "f32", "tf32", "tf32"), ("m16n8k8", "f32", "tf32", "tf32"),
    ("m16n8k32", "f32", "e4m3", "e5m2"), ("m16n8k32", "f16", "e5m2", "e5m2"),
    ("m16n8k16", "f32", "e4m3", "e4m3"),
    ("m8n8k4", "f64", "f64", "f64"), ("m16n8k8", "f64", "f64", "f64"),
]  # fmt: skip


def extents(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


@pytest.mark.parametrize(("shape", "d", "a", "b"), FLOAT_CASES)
def test_float_mma_on_small_integers(run_kernel, rng, shape, d, a, b):
    m, n, k = extents(shape)
    left = rng.integers(-3, 4, (m, k)).astype(float)
    right = rng.integers(-3, 4, (n, k)).astype(float)
    start = rng.integers(-8, 9, (m, n)).astype(
        {"f16": np.float16, "f32": np.float32, "f64": np.float64}[d]
    )
    name = f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d}"
    found = run_mma(run_kernel, name, left, right, start, (d, a, b, d))
    assert (found.astype(float) == left @ right.T + start).all()


INTEGER_CASES = [
    ("m8n8k16", "s8", "u8"), ("m16n8k16", "u8", "s8"), ("m16n8k32", "s8", "s8"),
    ("m8n8k32", "s4", "s4"), ("m16n8k32", "u4", "s4"), ("m16n8k64", "s4", "u4"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "a", "b"), INTEGER_CASES)
@pytest.mark.parametrize("saturate", [False, True])
def test_integer_mma_wraps_or_saturates(run_kernel, rng, shape, a, b, saturate):
    m, n, k = extents(shape)

    def limits(type: str) -> tuple[int, int]:
        bits = BITS[type]
        return (-(1 << bits - 1), 1 << bits - 1) if type[0] == "s" else (0, 1 << bits)

    left, right = rng.integers(*limits(a), (m, k)), rng.integers(*limits(b), (n, k))
    start = rng.integers(-100, 100, (m, n)).astype(np.int32)
    start[0, :4] = [2**31 - 1, -(2**31), 2**31 - 2, -(2**31) + 1]
    suffix = ".satfinite" if saturate else ""
    name = f"mma.sync.aligned.{shape}.row.col{suffix}.s32.{a}.{b}.s32"
    found = run_mma(run_kernel, name, left, right, start, ("s32", a, b, "s32"))
    exact = left @ right.T + start.astype(np.int64)
    want = np.clip(exact, -(2**31), 2**31 - 1) if saturate else exact.astype(np.int32)
    assert (found == want).all()


@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k256"])
@pytest.mark.parametrize("op", ["xor", "and"])
def test_binary_mma(run_kernel, rng, shape, op):
    m, n, k = extents(shape)
    left, right = rng.integers(0, 2, (m, k)), rng.integers(0, 2, (n, k))
    start = rng.integers(-100, 100, (m, n)).astype(np.int32)
    name = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{op}.popc"
    found = run_mma(run_kernel, name, left, right, start, ("s32", "b1", "b1", "s32"))
    function = np.logical_xor if op == "xor" else np.logical_and
    assert (found == start + function(left[:, None], right[None]).sum(axis=2)).all()


def test_f64_mma_is_a_chain_of_fused_steps(run_kernel, rng):
    from fractions import Fraction

    left, right = rng.standard_normal((8, 4)), rng.standard_normal((8, 4))
    start = rng.standard_normal((8, 8))
    name = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
    found = run_mma(run_kernel, name, left, right, start, ("f64",) * 4)
    for i in range(8):
        for j in range(8):
            total = start[i, j]
            for k in range(4):
                total = float(Fraction(left[i, k]) * Fraction(right[j, k]) + Fraction(float(total)))
            assert found[i, j] == total


def test_tf32_ignores_the_low_13_bits(run_kernel):
    left, right = np.zeros((16, 4)), np.zeros((8, 4))
    left[0, 0] = np.array([0x3F801FFF], np.uint32).view(np.float32)[0]
    right[0, 0] = 1.0
    start = np.zeros((16, 8), np.float32)
    name = "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32"
    found = run_mma(run_kernel, name, left, right, start, ("f32", "tf32", "tf32", "f32"))
    assert found[0, 0] == 1.0


@pytest.mark.parametrize(("a_layout", "b_layout"), [("row", "col"), ("col", "row"), ("row", "row")])
@pytest.mark.parametrize(("d", "c"), [("f16", "f16"), ("f32", "f32"), ("f32", "f16")])
def test_volta_quad_pairs(run_kernel, rng, a_layout, b_layout, d, c):
    """Four 8x8x4 products a warp; thread t of pair p is lane 4p + t % 4 + 16 (t / 4)."""
    left, right = rng.integers(-3, 4, (4, 8, 4)), rng.integers(-3, 4, (4, 8, 4))
    start = rng.integers(-8, 9, (4, 8, 8))

    def place(values: np.ndarray, by_row: bool) -> np.ndarray:
        out = np.zeros((2, 32, 2), np.float16)
        for p, t, v in np.ndindex(4, 8, 4):
            row, k = (t, v) if by_row else (v + 4 * (t // 4), t % 4)
            out[v // 2, 4 * p + t % 4 + 16 * (t // 4), v % 2] = values[p, row, k]
        return out.view(np.uint32)[..., 0]

    def accumulator(lane: int, i: int, type: str) -> tuple[int, int]:
        if type == "f16":
            return lane % 4 + 4 * (lane // 16), i
        row = lane % 2 + (i & 2) + 4 * (lane // 16)
        return row, (i & 4) + (lane & 2) + (i & 1)

    source = np.zeros((8, 32), np.float32)
    halves = np.zeros((4, 32, 2), np.float16)
    for lane, i in np.ndindex(32, 8):
        value = start[lane // 4 % 4][accumulator(lane, i, c)]
        source[i, lane] = halves[i // 2, lane, i % 2] = value
    rc = source.view(np.uint32) if c == "f32" else halves.view(np.uint32)[..., 0]
    inputs = np.concatenate([place(left, a_layout == "row"), place(right, b_layout == "col"), rc])
    out = np.zeros((8, 32), np.uint32)
    count_c, count_d = len(rc), 4 if d == "f16" else 8
    loads = "".join(f"ld.global.b32 %r{10 + i}, [%rd10+{128 * i}];" for i in range(len(inputs)))
    stores = "".join(f"st.global.b32 [%rd11+{128 * i}], %r{40 + i};" for i in range(count_d))

    def names(first: int, size: int) -> str:
        return "{" + ", ".join(f"%r{first + i}" for i in range(size)) + "}"

    run_kernel(
        "mul.wide.u32 %rd9, %r1, 4; add.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;" + loads
        + f"mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d}.f16.f16.{c} {names(40, count_d)},"
        f"{names(10, 2)}, {names(12, 2)}, {names(14, count_c)};" + stores,
        [inputs, out],
    )  # fmt: skip
    expected = np.einsum("pmk,pnk->pmn", left, right) + start
    for lane, i in np.ndindex(32, 8):
        if d == "f16":
            raw = out[i // 2, lane : lane + 1].view(np.float16)[i % 2]
        else:
            raw = out[i, lane : lane + 1].view(np.float32)[0]
        assert raw == expected[lane // 4 % 4][accumulator(lane, i, d)]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_and_stmatrix(run_kernel, rng, count, trans):
    """Matrices at a pitch of 48 bytes; every lane's halves are checked, then stored back."""
    source = rng.integers(0, 1 << 16, (32, 8)).astype(np.uint16)
    loaded = np.zeros((count, 32), np.uint32)
    stored = np.zeros((32, 8), np.uint16)
    regs = ", ".join(f"%r{20 + i}" for i in range(count))
    suffix = ".trans" if trans else ""
    run_kernel(
        f"""
        .shared .align 16 .b8 sm[3072];
        mul.wide.u32 %rd9, %r1, 16; add.s64 %rd10, %rd0, %rd9;
        ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd10];
        mov.u32 %r2, sm; mad.lo.u32 %r3, %r1, 48, %r2;
        st.shared.v4.b32 [%r3], {{%r10, %r11, %r12, %r13}};
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 {{{regs}}}, [%r3];
        mul.wide.u32 %rd9, %r1, 4; add.s64 %rd11, %rd1, %rd9;
        """
        + "".join(f"st.global.b32 [%rd11+{128 * i}], %r{20 + i};" for i in range(count))
        + f"""
        stmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 [%r3+1536], {{{regs}}};
        bar.sync 0;
        setp.lt.u32 %p1, %r1, {8 * count};
        @%p1 ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r3+1536];
        mul.wide.u32 %rd9, %r1, 16; add.s64 %rd12, %rd2, %rd9;
        @%p1 st.global.v4.b32 [%rd12], {{%r10, %r11, %r12, %r13}};
        """,
        [source, loaded, stored],
    )
    for j in range(count):
        matrix = source[8 * j : 8 * j + 8]
        matrix = matrix.T if trans else matrix
        for lane in range(32):
            g, q = lane // 4, lane % 4
            assert loaded[j, lane] == int(matrix[g, 2 * q]) | int(matrix[g, 2 * q + 1]) << 16
    assert (stored[: 8 * count] == source[: 8 * count]).all()


def test_movmatrix(run_kernel, rng):
    source = rng.integers(0, 1 << 16, (8, 8)).astype(np.uint16)
    out = np.zeros((8, 8), np.uint16)
    run_kernel(
        """mul.wide.u32 %rd9, %r1, 4; add.s64 %rd10, %rd0, %rd9; add.s64 %rd11, %rd1, %rd9;
        ld.global.b32 %r10, [%rd10];
        movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;
        st.global.b32 [%rd11], %r11;""",
        [source, out],
    )
    assert (out == source.T).all()


@pytest.mark.parametrize("shape", ["m16n16k16", "m32n8k16", "m8n32k16"])
@pytest.mark.parametrize("layouts", ["row.col", "col.row", "row.row"])
@pytest.mark.parametrize("d", ["f16", "f32"])
def test_wmma(run_kernel, rng, shape, layouts, d):
    m, n, k = extents(shape)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    a_layout, b_layout = layouts.split(".")
    stored_a = np.ascontiguousarray(a if a_layout == "row" else a.T).astype(np.float16)
    stored_b = np.ascontiguousarray(b if b_layout == "row" else b.T).astype(np.float16)
    dtype = np.float16 if d == "f16" else np.float32
    c = rng.integers(-9, 9, (m, n)).astype(dtype)
    out = np.zeros((n, m), dtype)
    count = 4 if d == "f16" else 8

    def frag(first: int, size: int) -> str:
        return "{" + ", ".join(f"%r{first + i}" for i in range(size)) + "}"

    run_kernel(
        f"""
        mov.u32 %r5, {k if a_layout == "row" else m};
        wmma.load.a.sync.aligned.{a_layout}.{shape}.global.f16 {frag(10, 8)}, [%rd0], %r5;
        wmma.load.b.sync.aligned.{b_layout}.{shape}.global.f16 {frag(20, 8)}, [%rd1];
        wmma.load.c.sync.aligned.row.{shape}.global.{d} {frag(30, count)}, [%rd2];
        wmma.mma.sync.aligned.{layouts}.{shape}.{d}.{d}
            {frag(40, count)}, {frag(10, 8)}, {frag(20, 8)}, {frag(30, count)};
        wmma.store.d.sync.aligned.col.{shape}.global.{d} [%rd3], {frag(40, count)};
        """,
        [stored_a, stored_b, c, out],
    )
    assert (a @ b + c == out.T).all()

"""tcgen05.mma against NumPy: operands are placed in shared memory element by element by the
canonical layouts of the PTX manual, D is read back cell by cell from tensor memory, and small
integers must come out exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

# Type to (code in the instruction descriptor, bits, NumPy type of values).
TYPES: dict[str, tuple[int, int, Any]] = {
    "f16": (0, 16, np.float16), "bf16": (1, 16, ml_dtypes.bfloat16), "tf32": (2, 32, np.float32),
    "e4m3": (0, 8, ml_dtypes.float8_e4m3fn), "e5m2": (1, 8, ml_dtypes.float8_e5m2),
    "e2m3": (3, 6, ml_dtypes.float6_e2m3fn), "e3m2": (4, 6, ml_dtypes.float6_e3m2fn),
    "e2m1": (5, 4, ml_dtypes.float4_e2m1fn), "u8": (0, 8, np.uint8), "s8": (1, 8, np.int8),
}  # fmt: skip
D_CODE = {"f16": 0, "f32": 1, "s32": 2}
SWIZZLE_CODE = {0: 0, 32: 6, 64: 4, 128: 2, "128/32": 1}
K_OF = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}


@dataclass
class Place:
    """Where an operand lies; ``lbo`` and ``sbo`` in bytes, ``start`` from the (1024-byte aligned)
    beginning of the buffer."""

    span: Any = 128
    mn: bool = False
    lbo: int = 16
    sbo: int = 1024
    start: int = 0

    @property
    def descriptor(self) -> int:
        return (
            (self.start >> 4) | (self.lbo >> 4) << 16 | (self.sbo >> 4) << 32 | 1 << 46
            | SWIZZLE_CODE[self.span] << 61
        )  # fmt: skip

    def address(self, row: int, k: int, size: int) -> int:
        """Byte of element (row, k) of ``size`` bytes, or of chunk-of-K byte k when size is 1."""
        t = 16 // size
        if self.mn and self.span == "128/32":
            # ((T,8,m),(4,k)) : ((1,T,LBO),(8T,SBO)), S<2,5,2> on bytes
            linear = row % t * size + row // t % 8 * 16 + row // t // 8 * self.lbo
            linear += k % 4 * 128 + k // 4 * self.sbo
            at = self.start + linear
            return at ^ (at >> 7 & 3) << 5
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
        return at ^ (at >> 7 & {0: 0, 32: 1, 64: 3, 128: 7}[self.span]) << 4

    def put(self, image: np.ndarray, rows: np.ndarray, size: int) -> None:
        """``rows [extent, 32]`` bytes along K."""
        elements = rows.reshape(len(rows), 32 // size, size)
        for row in range(len(rows)):
            for k in range(32 // size):
                at = self.address(row, k, size)
                image[at : at + size] = elements[row, k]


def bytes_of(matrix: np.ndarray, name: str, dense: bool) -> np.ndarray:
    """Rows as they lie in shared memory along K: 32 bytes each, padded where the manual pads."""
    _, bits, _ = TYPES[name]
    if bits >= 8:
        return np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), -1)
    codes = np.ascontiguousarray(matrix).view(np.uint8)
    out = np.full((len(matrix), 32), 0xAA, np.uint8)
    for row in range(len(matrix)):
        if dense:
            out[row] = codes[row, ::2] | codes[row, 1::2] << 4
            continue
        for group in range(2):
            whole = 0
            for i in range(16):
                whole |= int(codes[row, 16 * group + i]) << bits * i
            raw = whole.to_bytes(2 * bits, "little")
            out[row, 16 * group : 16 * group + 2 * bits] = np.frombuffer(raw, np.uint8)
    return out


def integers(rng: Any, shape: tuple[int, int], name: str) -> np.ndarray:
    """Small integers that the type has."""
    if name == "e2m1":
        return rng.choice([-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6], shape).astype(TYPES[name][2])
    if name in ("u8", "s8"):
        low, high = (0, 256) if name == "u8" else (-128, 128)
        return rng.integers(low, high, shape).astype(TYPES[name][2])
    return rng.integers(-3, 4, shape).astype(np.float32).astype(TYPES[name][2])


@dataclass
class Case:
    """One multiplication of ``kind`` with the accumulator ``d``."""

    kind: str
    a: str
    b: str
    d: str
    m: int = 128
    n: int = 64
    a_at: Place = field(default_factory=Place)
    b_at: Place = field(default_factory=lambda: Place(start=32768))
    a_tmem: bool = False
    column: int = 0
    lane: int = 0
    negate: tuple[int, int] = (0, 0)
    saturate: int = 0
    ws: bool = False
    tail: str = "%p1"
    scale: str = ""
    extra: str = ""
    ids: tuple[int, int] = (0, 0)
    scale_bit: int = 1

    @property
    def idesc(self) -> int:
        majors = self.a_at.mn << 15 | self.b_at.mn << 16
        code_a, code_b = TYPES[self.a][0], TYPES[self.b][0]
        if self.kind.startswith("mxf4"):
            code_a = code_b = 1
        bits = code_a << 7 | code_b << 10 | self.negate[0] << 13 | self.negate[1] << 14 | majors
        bits |= (self.n >> 3) << 17 | (self.m >> 4) << 24 | self.saturate << 3
        if self.kind.startswith("mx"):
            return bits | self.ids[1] << 4 | self.ids[0] << 29 | self.scale_bit << 23
        return bits | D_CODE[self.d] << 4


HEAD = """.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 buffer[];
"""


def kernel(case: Case, columns: int, body: str = "") -> str:
    """Four warps: fill shared memory and tensor memory, multiply, store tensor memory."""
    a = "[%at]" if case.a_tmem else "%da"
    ws = ".ws" if case.ws else ""
    mma = (
        f"tcgen05.mma{ws}.cta_group::1.kind::{case.kind}{case.scale} [%d], {a}, %db, %idesc, "
        f"{case.extra}{case.tail};"
    )
    regs = "{" + ", ".join(f"%v{i}" for i in range(32)) + "}"
    fill, drain = [], []
    for first in range(0, columns, 32):
        fill += [f"ld.global.b32 %v{i}, [%tin+{4 * (first + i)}];" for i in range(32)]
        fill.append(f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%w+{first}], {regs};")
    for first in range(0, columns, 32):
        drain.append(f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {regs}, [%w+{first}];")
        drain.append("tcgen05.wait::ld.sync.aligned;")
        drain += [f"st.global.b32 [%tout+{4 * (first + i)}], %v{i};" for i in range(32)]
    newline = "\n"
    return (
        HEAD
        + f"""
.visible .entry k(.param .u64 image, .param .u64 tin, .param .u64 tout, .param .u32 bytes,
    .param .u32 idesc, .param .u64 da, .param .u64 db, .param .u32 first)
{{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .b32 %v<32>;
.reg .b32 %a, %d, %at, %w, %idesc, %sa, %sb; .reg .b64 %da, %db, %tin, %tout;
.shared .align 8 .b64 bar; .shared .align 4 .b32 slot;
mov.u32 %r0, %tid.x;
shr.u32 %r1, %r0, 5;
ld.param.u64 %rd0, [image]; ld.param.u64 %tin, [tin]; ld.param.u64 %tout, [tout];
ld.param.u32 %r2, [bytes]; ld.param.u32 %idesc, [idesc];
ld.param.u64 %da, [da]; ld.param.u64 %db, [db]; ld.param.u32 %r12, [first];
mul.wide.u32 %rd1, %r0, {4 * columns};
add.s64 %tin, %tin, %rd1; add.s64 %tout, %tout, %rd1;
mov.u32 %r3, buffer;
shr.u32 %r4, %r3, 4; cvt.u64.u32 %rd2, %r4;
add.s64 %da, %da, %rd2; add.s64 %db, %db, %rd2;
shl.b32 %r5, %r0, 2;
FILL:
setp.ge.u32 %p0, %r5, %r2;
@%p0 bra FILLED;
add.u32 %r6, %r3, %r5; cvt.u64.u32 %rd3, %r5; add.s64 %rd4, %rd0, %rd3;
ld.global.b32 %r7, [%rd4]; st.shared.b32 [%r6], %r7;
add.u32 %r5, %r5, 512;
bra FILL;
FILLED:
fence.proxy.async.shared::cta;
setp.ne.u32 %p0, %r1, 0;
@%p0 bra ALLOCATED;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
setp.ne.u32 %p3, %r0, 0;
@!%p3 mbarrier.init.shared.b64 [bar], 1;
@!%p3 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.shared.b32 %a, [slot];
shl.b32 %r8, %r1, 21; add.u32 %w, %a, %r8;
{newline.join(fill)}
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
add.u32 %d, %a, {case.column + (case.lane << 16)};
add.u32 %at, %a, {96 + (case.lane << 16)};
add.u32 %sa, %a, 200; add.u32 %sb, %a, 220;
@%p3 bra ISSUED;
setp.ne.u32 %p1, %r12, 0;
{mma}
{body}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
ISSUED:
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
@!%p2 bra WAIT;
tcgen05.fence::after_thread_sync;
{newline.join(drain)}
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
@%p0 bra DONE;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, {columns};
DONE:
ret;
}}
"""
    )


def run(case: Case, image: np.ndarray, tin: np.ndarray, accumulate: bool = True, body: str = "",
        seed: int = 0) -> tuple[np.ndarray, Any]:  # fmt: skip
    out = np.zeros_like(tin)
    report = launch(
        kernel(case, tin.shape[1], body=body), "k", 1, 128,
        [image, tin, out, np.uint32(len(image)), np.uint32(case.idesc),
         np.uint64(case.a_at.descriptor), np.uint64(case.b_at.descriptor), np.uint32(accumulate)],
        dynamic_smem=len(image), seed=seed,
    )  # fmt: skip
    return out, report


def lanes_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column of D(m, n), as CUTLASS publishes them (tmem_frg_1sm, tmem_frg_ws)."""
    m, n = np.arange(case.m)[:, None], np.arange(case.n)[None, :]
    if case.ws and case.m < 128:
        each = case.n * case.m // 128
        return m + case.m * (n // each), n % each + 0 * m
    if case.m == 64:
        return m % 16 + 32 * (m // 16) + case.lane + 0 * n, n + 0 * m
    return m + 0 * n, n + 0 * m


def numbers(words: np.ndarray, d: str) -> np.ndarray:
    if d == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    return words.view(np.float32 if d == "f32" else np.int32).astype(np.float64)


def words(values: np.ndarray, d: str) -> np.ndarray:
    if d == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return values.astype(np.float32 if d == "f32" else np.int32).view(np.uint32)


def check(case: Case, seed: int = 1, accumulate: bool = True) -> None:
    rng = np.random.default_rng(seed)
    k = K_OF[case.kind]
    a, b = integers(rng, (case.m, k), case.a), integers(rng, (case.n, k), case.b)
    image = np.zeros(65536, np.uint8)
    dense = case.kind.startswith("mxf4")
    size_a, size_b = max(1, TYPES[case.a][1] // 8), max(1, TYPES[case.b][1] // 8)
    lane, column = lanes_of(case)
    before = rng.integers(-50, 50, (case.m, case.n)).astype(np.float64)
    tin = rng.integers(0, 1 << 32, (128, 128)).astype(np.uint32)
    tin[lane, column + case.column] = words(before, case.d)
    if case.a_tmem:
        raw = np.ascontiguousarray(a).view(np.uint8).reshape(case.m, -1)
        if case.a == "e2m1" and not dense:
            raw = raw << 2
        if dense:
            raw = raw[:, ::2] | raw[:, 1::2] << 4
        tin[lane[:, :1], 96 + np.arange(8)] = np.ascontiguousarray(raw).view(np.uint32)
    else:
        case.a_at.put(image, bytes_of(a, case.a, dense), size_a)
    case.b_at.put(image, bytes_of(b, case.b, dense), size_b)
    out, report = run(case, image, tin.copy(), accumulate)
    signs = (-1) ** (case.negate[0] + case.negate[1])
    expected = signs * a.astype(np.float64) @ b.astype(np.float64).T
    if accumulate:
        expected = expected + before
    got = numbers(np.ascontiguousarray(out[lane, column + case.column]), case.d)
    np.testing.assert_array_equal(got, expected)
    untouched = np.ones((128, 128), bool)
    untouched[lane, column + case.column] = False
    np.testing.assert_array_equal(out[untouched], tin[untouched])
    assert report.notes == []


@pytest.mark.parametrize("d", ["f16", "f32"])
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("accumulate", [False, True])
def test_f16(m: int, d: str, accumulate: bool) -> None:
    check(Case("f16", "f16", "f16", d, m, 48 if m == 128 else 40, column=32), accumulate=accumulate)


FLOATS = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
SWIZZLES = {0: (4096, 128), 32: (16, 256), 64: (16, 512), 128: (16, 1024)}


@pytest.mark.some(11)
@pytest.mark.parametrize("span", list(SWIZZLES))
@pytest.mark.parametrize(
    ("kind", "a", "b", "d"),
    [("f16", "bf16", "bf16", "f32"), ("tf32", "tf32", "tf32", "f32"), ("i8", "u8", "s8", "s32"),
     ("f8f6f4", "e4m3", "e2m1", "f32"), ("f8f6f4", "e3m2", "e2m3", "f16"),
     ("f8f6f4", "e2m1", "e5m2", "f32")],
)  # fmt: skip
def test_kinds_and_swizzles(kind: str, a: str, b: str, d: str, span: int) -> None:
    lbo, sbo = SWIZZLES[span]
    lead = 2048 if span == 0 else lbo
    check(Case(kind, a, b, d, 128, 64, Place(span, False, lead, sbo),
               Place(span, False, lead, sbo, 32768)))  # fmt: skip


@pytest.mark.some(6)
@pytest.mark.parametrize("span", list(SWIZZLES))
@pytest.mark.parametrize(
    ("kind", "type", "d"), [("f16", "f16", "f32"), ("i8", "s8", "s32"), ("f8f6f4", "e5m2", "f32")]
)
def test_mn_major(kind: str, type: str, d: str, span: int) -> None:
    """Blocks of one span along MN lie ``lbo`` apart, groups of 8 k ``sbo``."""
    width = max(span, 16) * 8
    groups = K_OF[kind] // 8
    lbo, sbo = (width * groups, width) if span else (width, width * groups)
    check(Case(kind, type, type, d, 128, 64, Place(span, True, lbo, sbo),
               Place(span, True, lbo, sbo, 32768)))  # fmt: skip


def test_mn_major_tf32_has_32_byte_atoms() -> None:
    place = Place("128/32", True, 1024, 512)
    check(
        Case("tf32", "tf32", "tf32", "f32", 128, 64, place, Place("128/32", True, 1024, 512, 32768))
    )
    with pytest.raises(EmulatorError) as error:
        check(Case("tf32", "tf32", "tf32", "f32", 128, 64, Place(128, True, 1024, 512)))
    assert error.value.code == "CD-D9"


@pytest.mark.some(5)
@pytest.mark.parametrize("lane", [0, 16])
@pytest.mark.parametrize(("kind", "a", "b", "d"), [
    ("f16", "f16", "f16", "f32"), ("tf32", "tf32", "tf32", "f32"), ("i8", "s8", "u8", "s32"),
    ("f8f6f4", "e2m1", "e4m3", "f32"), ("f8f6f4", "e2m3", "e3m2", "f32"),
])  # fmt: skip
def test_a_in_tensor_memory(kind: str, a: str, b: str, d: str, lane: int) -> None:
    check(Case(kind, a, b, d, 64, 32, a_tmem=True, lane=lane))
    if lane == 0:
        check(Case(kind, a, b, d, 128, 32, a_tmem=True))


@pytest.mark.parametrize(("m", "n"), [(32, 64), (32, 128), (64, 64), (64, 128), (128, 64)])
def test_weight_stationary(m: int, n: int) -> None:
    check(Case("f16", "f16", "f16", "f32", m, n, ws=True))


def test_negation_and_saturation() -> None:
    check(Case("f16", "f16", "f16", "f32", negate=(1, 0)))
    check(Case("f8f6f4", "e4m3", "e4m3", "f32", negate=(0, 1)))
    check(Case("tf32", "tf32", "tf32", "f32", negate=(1, 1)))
    case = Case("i8", "s8", "s8", "s32", 128, 16)
    image = np.zeros(65536, np.uint8)
    case.a_at.put(image, np.full((128, 32), 100, np.uint8), 1)
    case.b_at.put(image, np.full((16, 32), 100, np.uint8), 1)
    tin = np.full((128, 128), (1 << 31) - 1000, np.uint32)
    total = (1 << 31) - 1000 + 320_000
    assert (run(case, image, tin)[0][:, :16].view(np.int32) == total - (1 << 32)).all()
    case.saturate = 1
    assert (run(case, image, tin)[0][:, :16].view(np.int32) == (1 << 31) - 1).all()


def test_lanes_may_be_disabled() -> None:
    case = Case("f16", "f16", "f16", "f32", 128, 32, extra="{%r15, %r16, %r17, %r18}, ")
    masks = [0xF0F0F0F0, 0, 0xFFFFFFFF, 1]
    image = np.zeros(65536, np.uint8)
    tin = np.arange(128 * 128, dtype=np.uint32).reshape(128, 128)
    text = kernel(case, 128)
    moves = " ".join(f"mov.b32 %r{15 + i}, {mask};" for i, mask in enumerate(masks))
    text = text.replace("setp.ne.u32 %p1", moves + " setp.ne.u32 %p1")
    out = np.zeros((128, 128), np.uint32)
    launch(text, "k", 1, 128,
           [image, tin, out, np.uint32(65536), np.uint32(case.idesc),
            np.uint64(case.a_at.descriptor), np.uint64(case.b_at.descriptor), np.uint32(0)],
           dynamic_smem=65536)  # fmt: skip
    off = np.array([masks[lane // 32] >> lane % 32 & 1 for lane in range(128)], bool)
    assert (out[off] == tin[off]).all()
    assert (out[~off, :32] == 0).all()


def test_the_accumulator_is_scaled_before() -> None:
    case = Case("f16", "f16", "f16", "f32", 128, 32, tail="%p1, 3")
    tin = np.zeros((128, 128), np.uint32)
    tin[:, :32] = np.full((128, 32), 40, np.float32).view(np.uint32)
    out, _ = run(case, np.zeros(65536, np.uint8), tin)
    assert (out[:, :32].view(np.float32) == 5).all()


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("kind", "scale", "factors", "ids", "bit"),
    [("mxf8f6f4", ".block_scale", 1, (0, 3), 1), ("mxf8f6f4", ".block_scale.block32", 1, (2, 1), 1),
     ("mxf4", ".block_scale.scale_vec::2X", 2, (0, 2), 1),
     ("mxf4nvf4", ".block_scale.block32", 2, (2, 0), 1),
     ("mxf4nvf4", ".block_scale.block16", 4, (0, 0), 0),
     ("mxf4nvf4", ".block_scale.scale_vec::4X", 4, (0, 0), 1)],
)  # fmt: skip
def test_block_scaling(kind: str, scale: str, factors: int, ids: tuple[int, int], bit: int) -> None:
    """Row r of the factors: lane r % 32 of all quarters, column r / 32, bytes from the id on."""
    rng = np.random.default_rng(3)
    type, k, n = ("e4m3" if kind == "mxf8f6f4" else "e2m1"), K_OF[kind], 160
    case = Case(kind, type, type, "f32", 128, n, scale=scale, extra="[%sa], [%sb], ", ids=ids,
                scale_bit=bit)  # fmt: skip
    a, b = integers(rng, (128, k), type), integers(rng, (n, k), type)
    image = np.zeros(65536, np.uint8)
    case.a_at.put(image, bytes_of(a, type, k == 64), 1)
    case.b_at.put(image, bytes_of(b, type, k == 64), 1)
    values: Any = ml_dtypes.float8_e8m0fnu if bit else ml_dtypes.float8_e4m3fn
    exponents = [rng.integers(-2, 3, (extent, factors)) for extent in (128, n)]
    codes = [np.exp2(e).astype(values).view(np.uint8) for e in exponents]
    tin = np.zeros((128, 256), np.uint32)
    raw = tin.view(np.uint8).reshape(128, 256, 4)
    for column, which, code in zip((200, 220), ids, codes, strict=True):
        for row, factor in np.ndindex(code.shape):
            for quarter in range(4):
                raw[32 * quarter + row % 32, column + row // 32, which + factor] = code[row, factor]
    out, report = run(case, image, tin, accumulate=False)
    left, right = (
        x.astype(np.float64) * np.repeat(np.exp2(e), k // factors, axis=1)
        for x, e in zip((a, b), exponents, strict=True)
    )
    np.testing.assert_array_equal(out[:, :n].view(np.float32), left @ right.T)
    assert report.notes == []
    raw[40, 201] ^= 1
    with pytest.raises(EmulatorError, match="every quarter of the lanes") as error:
        run(case, image, tin, accumulate=False)
    assert error.value.code == "CD-D9"


def test_instructions_of_one_thread_follow_each_other() -> None:
    """Four steps along K of a 128-byte swizzled tile, without waits in between."""
    rng = np.random.default_rng(5)
    case = Case("f16", "f16", "f16", "f32", 128, 64)
    a, b = integers(rng, (128, 64), "f16"), integers(rng, (64, 64), "f16")
    image = np.zeros(65536, np.uint8)
    for k in range(4):
        step = slice(16 * k, 16 * k + 16)
        Place(start=32 * k).put(image, bytes_of(a[:, step], "f16", False), 2)
        Place(start=32768 + 32 * k).put(image, bytes_of(b[:, step], "f16", False), 2)
    more = "\n".join(
        "add.s64 %da, %da, 2; add.s64 %db, %db, 2; setp.eq.u32 %p1, 0, 0; "
        "tcgen05.mma.cta_group::1.kind::f16 [%d], %da, %db, %idesc, %p1;"
        for _ in range(3)
    )
    tin = np.zeros((128, 128), np.uint32)
    for seed in (0, 1, 2):
        out, _ = run(case, image, tin, accumulate=False, body=more, seed=seed)
        expected = a.astype(np.float64) @ b.astype(np.float64).T
        np.testing.assert_array_equal(out[:, :64].view(np.float32), expected)


OWN = """.shared .align 8 .b64 own; mbarrier.init.shared.b64 [own], 1;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [own];
OWN: mbarrier.try_wait.parity.shared.b64 %p2, [own], 0; @!%p2 bra OWN;
"""


@pytest.mark.parametrize("place", ["%at", "%d16"])
def test_only_multiplies_into_one_accumulator_need_no_wait(place: str) -> None:
    """PTX ISA 9.7.16.6.2.1: another one may begin before this one has read A, or written D."""
    case = Case("f16", "f16", "f16", "f32", 128, 32, a_tmem=True)
    image = np.zeros(65536, np.uint8)
    b = integers(np.random.default_rng(6), (32, 16), "f16")
    case.b_at.put(image, bytes_of(b, "f16", False), 2)
    again = f"""setp.ne.u32 %p1, 0, 0; add.u32 %d16, %d, 16;
    tcgen05.mma.cta_group::1.kind::f16 [{place}], %da, %db, %idesc, %p1;"""
    tin = np.zeros((128, 128), np.uint32)
    for seed in (0, 1):
        run(case, image, tin, accumulate=False, body=".reg .b32 %d16;" + OWN + again, seed=seed)
    with pytest.raises(EmulatorError, match=r"tcgen05\.commit to an mbarrier") as error:
        run(case, image, tin, accumulate=False, body=".reg .b32 %d16;" + again)
    assert error.value.code == "CD-D5"


@pytest.mark.parametrize(("bits", "text"), [
    (lambda d: d | 1 << 2, "sparsity"), (lambda d: d & ~(63 << 17), "m128n0"),
    (lambda d: d & ~(31 << 24), "m0n64"), (lambda d: d | 2 << 4, "type of D"),
    (lambda d: d | 3 << 7, "type of A"), (lambda d: d | 1 << 7, "same type"),
])  # fmt: skip
def test_malformed_instruction_descriptors(bits: Any, text: str) -> None:
    case = Case("f16", "f16", "f16", "f32")
    wrong = bits(case.idesc)

    class Wrong(Case):
        idesc = wrong  # type: ignore[assignment]

    with pytest.raises(EmulatorError, match=text) as error:
        run(Wrong("f16", "f16", "f16", "f32"), np.zeros(65536, np.uint8),
            np.zeros((128, 128), np.uint32))  # fmt: skip
    assert error.value.code == "CD-D9"


def test_matrix_descriptors_need_their_constant() -> None:
    case = Case("f16", "f16", "f16", "f32")
    text = kernel(case, 128).replace("setp.ne.u32 %p1", "xor.b64 %da, %da, 0x400000000000; "
                                     "setp.ne.u32 %p1")  # fmt: skip
    with pytest.raises(EmulatorError, match="0b001 in 46-48") as error:
        launch(text, "k", 1, 128,
               [np.zeros(65536, np.uint8), np.zeros((128, 128), np.uint32),
                np.zeros((128, 128), np.uint32), np.uint32(65536), np.uint32(case.idesc),
                np.uint64(case.a_at.descriptor), np.uint64(case.b_at.descriptor), np.uint32(0)],
               dynamic_smem=65536)  # fmt: skip
    assert error.value.code == "CD-F2"
    assert error.value.instruction is not None
    assert "tcgen05.mma" in error.value.instruction

"""mma.sync with a .kind, lane-exact: elements of 4, 6 and 8 bits are placed by the formulas of the
PTX manual, and each thread's word of scales counts for the rows and columns that the manual says.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "ue4m3": ml_dtypes.float8_e4m3fn,
}
SCALED = "{shape}.row.col.kind::{kind}.block_scale.scale_vec::{vector}.f32.{a}.{b}.f32.{scale}"


def words(matrix, type, pairs, alternate):
    """[registers, 32] words of a matrix [rows, k]: a lane has row g (+ 8 for every other register
    of 16 rows), and as many neighbors along k as a register holds.
    """
    codes = matrix.astype(TYPES[type]).view(np.uint8)
    if type == "e2m1" and not pairs:
        codes = codes << 2  # of a byte, bits 2 to 5
    if pairs:
        codes = codes[:, ::2] | codes[:, 1::2] << 4
    rows, width = codes.shape
    count = rows * width // 128
    out = np.zeros((count, 32), np.uint32)
    for lane in range(32):
        g, q = lane // 4, lane % 4
        for r in range(count):
            row = g + 8 * (r % 2) if alternate else g
            first = 4 * q + 16 * (r // 2 if alternate else r)
            out[r, lane] = codes[row, first : first + 4].copy().view(np.uint32)[0]
    return out


def run(form, a, b, scales, selectors, target="sm_120a"):
    """D of one warp; `scales` are the words [2, 32] of the lanes, `selectors` what follows each."""
    data = np.concatenate([a, b, scales]).astype(np.uint32)
    names = [f"%r{i}" for i in range(len(data))]
    out = np.zeros((4, 32), np.float32)
    lists = names[: len(a)], names[len(a) : len(a) + len(b)]
    zero = ", ".join(["%f0"] * 4)
    ending = ""
    if selectors:
        pairs = zip(names[-2:], selectors, strict=True)
        ending = "".join(f", {name}, {{{byte}, {thread}}}" for name, (byte, thread) in pairs)
    operands = ", ".join(f"{{{', '.join(each)}}}" for each in lists)
    loads = "\n".join(f"ld.global.b32 {n}, [%rd1+{128 * i}];" for i, n in enumerate(names))
    stores = "\n".join(f"st.global.f32 [%rd2+{128 * i}], %f{i + 1};" for i in range(4))
    text = f"""
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 found)
{{
.reg .b32 %r<16>, %lane; .reg .f32 %f<8>; .reg .b64 %rd<4>;
mov.u32 %lane, %tid.x;
mul.wide.u32 %rd0, %lane, 4;
ld.param.u64 %rd1, [source];
ld.param.u64 %rd2, [found];
add.u64 %rd1, %rd1, %rd0;
add.u64 %rd2, %rd2, %rd0;
mov.f32 %f0, 0f00000000;
{loads}
mma.sync.aligned.{form} {{%f1, %f2, %f3, %f4}}, {operands}, {{{zero}}}{ending};
{stores}
ret;
}}
"""
    launch(text, "k", 1, 32, [data, out])
    found = np.zeros((16, 8), np.float32)
    for lane in range(32):
        for i in range(4):
            found[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2] = out[i, lane]
    return found


def numbers(rng, shape):
    """Numbers that all types have."""
    return rng.choice([-2.0, -1.0, 0.0, 1.0, 1.5, 2.0, 3.0], shape)


@pytest.mark.some(5)
@pytest.mark.parametrize("a", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
@pytest.mark.parametrize("b", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_elements_in_bytes(rng, a, b):
    left, right = numbers(rng, (16, 32)), numbers(rng, (8, 32))
    form = f"m16n8k32.row.col.kind::f8f6f4.f32.{a}.{b}.f32"
    placed = words(left, a, False, True), words(right, b, False, False)
    found = run(form, *placed, np.zeros((2, 32), np.uint32), ())
    assert np.array_equal(found, left @ right.T)


# Kind, vector size, type of scales, types of elements, elements along K, and scales of a row.
KINDS = [
    ("mxf8f6f4", "1X", "ue8m0", "e4m3", "e5m2", 32, 1),
    ("mxf8f6f4", "1X", "ue8m0", "e3m2", "e2m3", 32, 1),
    ("mxf8f6f4", "1X", "ue8m0", "e2m1", "e4m3", 32, 1),
    ("mxf4", "2X", "ue8m0", "e2m1", "e2m1", 64, 2),
    ("mxf4nvf4", "2X", "ue8m0", "e2m1", "e2m1", 64, 2),
    ("mxf4nvf4", "4X", "ue4m3", "e2m1", "e2m1", 64, 4),
]


def scaled(rng, kind, place, more=()):
    """D, and what it has to be, where the words of all threads that are not asked hold other
    scales; `place` is the byte, and the threads of A and of B.
    """
    kind, vector, scale, a, b, k, count = kind
    byte, thread_a, thread_b = place
    left, right = numbers(rng, (16, k)), numbers(rng, (8, k))
    factors = [np.exp2(rng.integers(-2, 3, (rows, count))) for rows in (16, 8)]
    held = np.exp2(rng.integers(-2, 3, (2, 32, 4))).astype(TYPES[scale])
    for row in range(16):
        lane = 4 * (row % 8) + 2 * thread_a + row // 8
        held[0, lane, byte : byte + count] = factors[0][row].astype(TYPES[scale])
    for column in range(8):
        held[1, 4 * column + thread_b, byte : byte + count] = factors[1][column].astype(held.dtype)
    pairs = k == 64
    placed = words(left, a, pairs, True), words(right, b, pairs, False)
    form = SCALED.format(shape=f"m16n8k{k}", kind=kind, vector=vector, a=a, b=b, scale=scale)
    selectors = ((byte, thread_a), (byte, thread_b))
    found = run(form, *placed, held.view(np.uint32)[..., 0], selectors)
    wide = [
        matrix * each.repeat(k // count, 1)
        for matrix, each in zip((left, right), factors, strict=True)
    ]
    return found, wide[0] @ wide[1].T


@pytest.mark.some(8)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
@pytest.mark.parametrize("thread_a", [0, 1])
@pytest.mark.parametrize("thread_b", [0, 1, 2, 3])
def test_scales_of_threads(rng, kind, thread_a, thread_b):
    for byte in range(0, 4, kind[-1]):
        found, wanted = scaled(rng, kind, (byte, thread_a, thread_b))
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("form", "selectors", "message"),
    [
        ("m16n8k32.row.col.kind::mxf8f6f4.f32.e4m3.e4m3.f32", (), "take .block_scale"),
        (
            "m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue4m3",
            ((0, 0), (0, 0)),
            "expected .scale_vec::2X or ::4X",
        ),
        (
            "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
            ((1, 0), (0, 0)),
            "expected 2 factors within a word",
        ),
        (
            "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
            ((0, 2), (0, 0)),
            "a thread up to 1, got byte 0 and thread 2",
        ),
        (
            "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3",
            ((0, 0), (0, 0)),
            "expected .ue8m0, got .ue4m3",
        ),
    ],
)
def test_what_there_is_not(form, selectors, message):
    a, b = np.zeros((4, 32), np.uint32), np.zeros((2, 32), np.uint32)
    with pytest.raises(EmulatorError, match=message):
        run(form, a, b, np.zeros((2, 32), np.uint32), selectors)


def test_a_target_without_them():
    a, b = np.zeros((4, 32), np.uint32), np.zeros((2, 32), np.uint32)
    form = "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    with pytest.raises(EmulatorError, match="sm_100a"):
        run(form, a, b, np.zeros((2, 32), np.uint32), ((0, 0), (0, 0)), "sm_100a")

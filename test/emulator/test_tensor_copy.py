"""Tensor copies against a reference that places elements one by one: boxes of 1 to 5 dimensions,
swizzles, element strides, fills, coordinates out of bounds; stores, reductions, and the rules.
"""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, UnsupportedInstruction

SMEM = 16384
SPAN = {"none": 0, "32B": 32, "64B": 64, "128B": 128, "128B_32B": 128}
NAMES = {
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64,
    "s64": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32ftz": np.float32,
}  # fmt: skip


def tensor_map(array: np.ndarray, box: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """A map of the whole array; ``box`` innermost first."""
    name = next(n for n, t in NAMES.items() if np.dtype(t) == array.dtype)
    return {
        "array": array, "dtype": name, "dims": array.shape[::-1],
        "strides": array.strides[-2::-1], "box": box, "element_strides": (1,) * array.ndim,
        "swizzle": "none", "interleave": "none", "oob_fill": "zero", **more,
    }  # fmt: skip


def spots(described: dict[str, Any], start: tuple[int, ...], base: int):
    """``(coordinates, byte of shared memory)`` of each element of a box; ``base`` is the absolute
    address of the box."""
    size = described["array"].itemsize
    steps = (1, *described["element_strides"][1:])
    counts = [-(-b // s) for b, s in zip(described["box"], steps, strict=True)]
    span = SPAN[described["swizzle"]]
    pitch = span or counts[0] * size
    for index in itertools.product(*map(range, counts[::-1])):
        index = index[::-1]
        row = 0
        for i in range(len(counts) - 1, 0, -1):
            row = row * counts[i] + index[i]
        at = base + row * pitch + index[0] * size
        if described["swizzle"] == "128B_32B":
            at ^= (at >> 7 & 3) << 5
        elif span == 128:
            at ^= (at >> 7 & 7) << 4
        elif span == 64:
            at ^= (at >> 7 & 3) << 4
        elif span == 32:
            at ^= (at >> 7 & 1) << 4
        yield tuple(c + i * s for c, i, s in zip(start, index, steps, strict=True)), at - base


def inside(described: dict[str, Any], where: tuple[int, ...]) -> bool:
    return all(0 <= c < n for c, n in zip(where, described["dims"], strict=True))


def box_bytes(described: dict[str, Any]) -> int:
    steps = (1, *described["element_strides"][1:])
    count = 1
    for b, s in zip(described["box"], steps, strict=True):
        count *= -(-b // s)
    return count * described["array"].itemsize


def load(run_maps, described, start, offset: int = 0, bytes: int | None = None, **options):
    """Shared memory after a load of one box, bytes before it being 0xEE."""
    out = np.zeros(SMEM, np.uint8)
    rank = len(start)
    registers = ", ".join(f"%r{40 + i}" for i in range(rank))
    moves = "".join(f"mov.u32 %r{40 + i}, {c};" for i, c in enumerate(start))
    body = f"""
    .shared .align 1024 .b8 sm[{SMEM}]; .shared .align 8 .b64 bar;
    mov.u32 %r2, bar; mov.u32 %r3, sm; mov.u32 %r4, %r0; {moves}
    FILL: shl.b32 %r5, %r4, 2; add.u32 %r5, %r5, %r3; st.shared.b32 [%r5], 0xEEEEEEEE;
    add.u32 %r4, %r4, 32; setp.lt.u32 %p2, %r4, {SMEM // 4}; @%p2 bra FILL;
    @%p31 mbarrier.init.shared.b64 [%r2], 1;
    fence.proxy.async;
    bar.sync 0;
    @!%p31 bra WAIT;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {bytes or box_bytes(described)};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r3+{offset}], [%rd100, {{{registers}}}], [%r2];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
    @!%p3 bra WAIT;
    mov.u32 %r4, %r0;
    COPY: shl.b32 %r5, %r4, 2; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd0;
    add.u32 %r5, %r5, %r3; ld.shared.b32 %r6, [%r5]; st.global.b32 [%rd5], %r6;
    add.u32 %r4, %r4, 32; setp.lt.u32 %p2, %r4, {SMEM // 4}; @%p2 bra COPY;"""
    run_maps(body.replace("_bytes\n        ", "_bytes "), [described], [out], **options)
    return out


def expected_load(described, start, offset: int = 0, fill: int = 0) -> np.ndarray:
    out = np.full(SMEM, 0xEE, np.uint8)
    array = described["array"]
    size = array.itemsize
    for where, at in spots(described, start, 1024 + offset):
        raw = np.array([fill], np.uint64).view(np.uint8)[:size]
        if inside(described, where):
            raw = array[where[::-1]].reshape(1).view(np.uint8)
        out[offset + at : offset + at + size] = raw
    return out


def numbers(rng, shape, dtype) -> np.ndarray:
    raw = rng.integers(1, 100, shape)
    return raw.astype(dtype)


LOADS = [
    # (element type, shape, box, start, offset, more)
    ("u8", (256,), (64,), (32,), 0, {}),
    ("f32", (40,), (16,), (32,), 128, {}),
    ("f16", (48, 128), (64, 8), (64, 40), 0, {"swizzle": "128B"}),
    ("f16", (48, 128), (64, 8), (64, 44), 0, {"swizzle": "128B"}),
    ("f16", (48, 128), (64, 8), (-32, -3), 1024, {"swizzle": "128B"}),
    ("f16", (48, 128), (64, 8), (96, 3), 2048 + 128, {"swizzle": "128B"}),
    ("tf32", (48, 64), (32, 8), (32, 3), 0, {"swizzle": "128B_32B"}),
    ("f32", (48, 64), (16, 9), (-8, 44), 1024 + 128, {"swizzle": "128B_32B"}),
    ("bf16", (33, 64), (32, 20), (0, 16), 512, {"swizzle": "64B"}),
    ("f32", (33, 64), (8, 20), (8, 16), 256, {"swizzle": "32B"}),
    ("u8", (40, 128), (48, 12), (16, 4), 0, {"swizzle": "64B"}),
    ("u8", (40, 128), (16, 24), (16, 4), 0, {"swizzle": "128B"}),
    ("u8", (40, 128), (48, 24), (96, -4), 0, {"swizzle": "none"}),
    ("u16", (6, 10, 64), (24, 4, 3), (8, 8, 4), 0, {"swizzle": "64B"}),
    ("u32", (4, 5, 6, 32), (12, 3, 2, 3), (24, 4, -1, 2), 0, {}),
    ("u64", (3, 3, 4, 5, 8), (4, 2, 3, 2, 2), (4, 4, 2, 2, 2), 0, {"swizzle": "32B"}),
    ("s32", (32, 64), (32, 16), (4, 3), 0, {"element_strides": (2, 3), "swizzle": "128B"}),
    ("s32", (32, 64), (32, 16), (4, -7), 0, {"element_strides": (1, 3)}),
    ("s64", (16, 16, 16), (8, 7, 9), (0, 12, -2), 0, {"element_strides": (1, 2, 4)}),
    ("f64", (32, 16), (16, 4), (0, 100), 0, {"swizzle": "128B"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "box", "start", "offset", "more"), LOADS)
def test_boxes_land_where_the_swizzle_says(run_maps, rng, name, shape, box, start, offset, more):
    array = numbers(rng, shape, NAMES[name])
    described = tensor_map(array, box, **more)
    found = load(run_maps, described, start, offset)
    expected = expected_load(described, start, offset)
    assert (found != 0xEE).any()
    assert (found == expected).all(), np.flatnonzero(found != expected)[:8]


def test_strided_tensors_and_views(run_maps, rng):
    """Dimension order and strides are free: a transposed slice of a larger array."""
    base = numbers(rng, (8, 12, 32), np.float16)
    described = tensor_map(
        base, (16, 4, 2), dims=(32, 8, 6), strides=(12 * 64, 2 * 64), swizzle="32B"
    )
    view = base[:, ::2].transpose(1, 0, 2)
    found = load(run_maps, described, (16, 3, 5))
    assert (found == expected_load({**described, "array": view}, (16, 3, 5))).all()


def around(base, rows):
    """Dimensions of which the second's last rows and the third's one step make a whole turn."""
    row = base.strides[0]
    return tensor_map(
        base,
        (16, rows, 1, 1),
        dims=(base.shape[1], 1 << 30, 1 << 31, 1 << 31),
        strides=(row, (1 << 34) - row, 16),
        element_strides=(1, 1, 1, 1),
    )


@pytest.mark.parametrize(("first", "end"), [(0, 12), (3, 7), (5, 5), (11, 12)])
def test_addresses_are_sums_modulo_two_to_the_64(run_maps, rng, first, end):
    """Rows first to end of a tensor, from the second one of these on: what is behind the end is out
    of bounds."""
    base = numbers(rng, (12, 32), np.float16)
    described = around(base, 6)
    start = (16, (1 << 30) - (end - first) + 1, 1 << 30, end * base.strides[0] // 16)
    found = load(run_maps, described, start)
    part = base[first:end]
    alone = tensor_map(part if len(part) else base[:0].reshape(0, 32), (16, 6))
    assert (found == expected_load(alone, (16, 1))).all()


def test_a_part_that_is_in_no_array(run_maps, rng):
    base = numbers(rng, (12, 32), np.float16)
    start = (16, (1 << 30) - 4, 1 << 30, 14 * base.strides[0] // 16)
    with pytest.raises(EmulatorError, match=r"CD-I1.*does not lie in one array"):
        load(run_maps, around(base, 6), start)


@pytest.mark.parametrize(
    ("name", "bits"),
    [("f16", 0x7FF7), ("bf16", 0x7FF7), ("f32", 0x7FF77FF7), ("f64", 0x7FF77FF77FF77FF7)],
)
def test_nan_fill(run_maps, rng, name, bits):
    array = numbers(rng, (8, 16), NAMES[name])
    described = tensor_map(array, (16, 4), oob_fill="nan")
    found = load(run_maps, described, (8, 6))
    assert (found == expected_load(described, (8, 6), fill=bits)).all()


def test_the_fill_is_not_rounded_to_tf32(run_maps, rng):
    array = numbers(rng, (8, 16), np.float32)
    described = tensor_map(array, (16, 4), dtype="tf32", oob_fill="nan")
    found = load(run_maps, described, (8, 6))
    assert (found == expected_load(described, (8, 6), fill=0x7FF77FF7)).all()


def test_tf32_loads_round_and_f32ftz_loads_do_not_flush(run_maps):
    bits = np.array([0x3F800FFF, 0x3F801000, 0x3F803000, 0x7F801234, 0xFF800000, 1, 0x807FFFFF,
                     0x3F801001] * 2, np.uint32)  # fmt: skip
    array = bits.view(np.float32)
    found = load(run_maps, tensor_map(array, (16,), dtype="tf32"), (0,))[:32].view(np.uint32)
    assert [hex(x) for x in found] == [hex(x) for x in (
        0x3F800000, 0x3F800000, 0x3F804000, 0x7FFFE000, 0xFF800000, 0, 0x80800000, 0x3F802000,
    )]  # fmt: skip
    found = load(run_maps, tensor_map(array, (16,), dtype="f32ftz"), (0,))[:64].view(np.uint32)
    assert found.tolist() == bits.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_every_seed_gives_the_same_bytes(run_maps, rng, seed):
    array = numbers(rng, (48, 128), np.float16)
    described = tensor_map(array, (64, 8), swizzle="128B")
    found = load(run_maps, described, (64, 40), seed=seed)
    assert (found == expected_load(described, (64, 40))).all()


def test_expecting_the_padded_bytes_of_a_narrow_box_hangs(run_maps, rng):
    """complete_tx counts the box, not the span that its rows take."""
    described = tensor_map(numbers(rng, (40, 128), np.uint8), (48, 12), swizzle="64B")
    with pytest.raises(EmulatorError) as caught:
        load(run_maps, described, (16, 4), bytes=64 * 12)
    assert caught.value.code == "CD-B1"
    assert "576 of 768 bytes" in str(caught.value)


# Stores.


def store(run_maps, maps, start, offset: int = 0, wait: str = "wait_group 0", head: str = "",
          operation: str = "cp.async", tail: str = "", **options):  # fmt: skip
    """Shared memory word i holds 0x01010101 * (i % 251), then one box is stored."""
    rank = len(start)
    registers = ", ".join(f"%r{40 + i}" for i in range(rank))
    moves = "".join(f"mov.u32 %r{40 + i}, {c};" for i, c in enumerate(start))
    verb, _, kind = operation.partition(".async")
    body = f"""
    .shared .align 1024 .b8 sm[{SMEM}];
    mov.u32 %r3, sm; mov.u32 %r4, %r0; {moves}
    FILL: shl.b32 %r5, %r4, 2; add.u32 %r5, %r5, %r3;
    rem.u32 %r6, %r4, 251; mul.lo.u32 %r6, %r6, 0x01010101; st.shared.b32 [%r5], %r6;
    add.u32 %r4, %r4, 32; setp.lt.u32 %p2, %r4, {SMEM // 4}; @%p2 bra FILL;
    {head or "fence.proxy.async.shared::cta; bar.sync 0;"}
    @!%p31 bra END;
    {verb}.async.bulk.tensor.{rank}d.global.shared::cta{kind}.bulk_group [%rd100, {{{registers}}}],
     [%r3+{offset}];
    cp.async.bulk.commit_group;
    cp.async.bulk.{wait};
    {tail}
    END:"""
    run_maps(body, maps, [], **options)


def pattern() -> np.ndarray:
    words = np.arange(SMEM // 4) % 251 * 0x01010101
    return words.astype(np.uint32).view(np.uint8)


STORES = [
    ("u32", (16, 64), (16, 8), (16, 4), {}),
    ("f16", (48, 128), (64, 8), (64, 44), {"swizzle": "128B"}),
    ("f16", (48, 128), (64, 8), (96, 44), {"swizzle": "128B"}),
    ("u8", (40, 128), (48, 12), (16, 4), {"swizzle": "64B"}),
    ("u64", (3, 3, 4, 5, 8), (4, 2, 3, 2, 2), (4, 4, 2, 2, 2), {"swizzle": "32B"}),
    ("s32", (32, 64), (32, 16), (4, 20), {"element_strides": (1, 3)}),
    ("f64", (32, 16), (16, 4), (0, 100), {"swizzle": "128B"}),
]


@pytest.mark.parametrize(("name", "shape", "box", "start", "more"), STORES)
def test_stores_are_the_reverse_and_clip(run_maps, name, shape, box, start, more):
    array = np.zeros(shape, NAMES[name])
    described = tensor_map(array, box, **more)
    store(run_maps, [described], start, 2048)
    expected, source = np.zeros_like(array), pattern()
    raw = expected.view(np.uint8).reshape(*shape, array.itemsize)
    for where, at in spots(described, start, 1024 + 2048):
        if inside(described, where):
            raw[where[::-1]] = source[2048 + at : 2048 + at + array.itemsize]
    assert array.tobytes() == expected.tobytes()


def test_stores_clip_the_innermost_dimension_at_sixteen_bytes(run_maps):
    """Up to fifteen bytes behind a row's last element are written."""
    base = np.zeros((4, 64), np.uint8)
    described = tensor_map(base, (48, 4), dims=(37, 3), strides=(64,))
    store(run_maps, [described], (0, 0))
    source = pattern()[: 48 * 4].reshape(4, 48)
    assert (base[:3, :48] == source[:3]).all()
    assert not base[:3, 48:].any()
    assert not base[3].any()


def test_reductions_clip_there_as_well(run_maps):
    base = np.full((3, 8), 1000, np.uint32)
    described = tensor_map(base, (8, 3), dims=(5, 2), strides=(32,))
    store(run_maps, [described], (0, 0), operation="cp.reduce.async.add")
    source = pattern()[:96].view(np.uint32).reshape(3, 8)
    expected = np.full((3, 8), 1000, np.uint32)
    expected[:2] += source[:2]
    assert base.tolist() == expected.tolist()


REDUCTIONS = [
    ("add", "f16", lambda a, b: a + b), ("add", "bf16", lambda a, b: a + b),
    ("add", "f32", lambda a, b: a + b), ("add", "s32", lambda a, b: a + b),
    ("add", "u64", lambda a, b: a + b), ("min", "s32", np.minimum), ("max", "u32", np.maximum),
    ("max", "s64", np.maximum), ("min", "f16", np.minimum), ("and", "u32", np.bitwise_and),
    ("or", "u64", np.bitwise_or), ("xor", "s32", np.bitwise_xor),
    ("inc", "u32", lambda a, b: np.where(a >= b, 0, a + 1)),
    ("dec", "u32", lambda a, b: np.where((a == 0) | (a > b), b, a - 1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "function"), REDUCTIONS)
def test_reductions(run_maps, rng, name, dtype, function):
    kind = np.dtype(NAMES[dtype])
    array = np.where(rng.random((8, 32)) < 0.5, 0, rng.integers(0, 90, (8, 32))).astype(kind)
    before = array.copy()
    width = 16 // kind.itemsize * 2
    described = tensor_map(array, (width, 3))
    store(run_maps, [described], (32 - width // 2, 4), operation=f"cp.reduce.async.{name}")
    source = pattern()[: 3 * 32].view(kind).reshape(3, width)[:, : width // 2]
    part = np.s_[4:7, 32 - width // 2 :]
    expected = before.copy()
    with np.errstate(all="ignore"):
        expected[part] = function(before[part], source).astype(kind)
    assert array.tobytes() == expected.tobytes()
    assert array.tobytes() != before.tobytes()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("add", "s64"), ("and", "s64"), ("min", "f32"), ("max", "f32"), ("add", "u8"),
     ("add", "u16")],
)  # fmt: skip
def test_reductions_that_are_illegal_instructions(run_maps, name, dtype):
    array = np.zeros((8, 32), NAMES[dtype])
    with pytest.raises(EmulatorError) as caught:
        store(run_maps, [tensor_map(array, (16, 2))], (0, 0), operation=f"cp.reduce.async.{name}")
    assert caught.value.code == "CD-E6"


# Rules of the copies.


def error_of(call) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        call()
    return caught.value


def test_innermost_coordinates_name_multiples_of_16_bytes(run_maps, rng):
    array = numbers(rng, (16, 64), np.float16)
    described = tensor_map(array, (16, 4))
    load(run_maps, described, (8, 1))
    for bad in (4, -4):
        error = error_of(lambda bad=bad: load(run_maps, described, (bad, 1)))
        assert error.code == "CD-E6"
        assert "8 elements" in str(error)
    assert error_of(lambda: store(run_maps, [described], (4, 0))).code == "CD-E6"


def test_stores_take_no_negative_coordinates(run_maps):
    described = tensor_map(np.zeros((16, 64), np.float16), (16, 4))
    error = error_of(lambda: store(run_maps, [described], (0, -1)))
    assert error.code == "CD-E6"
    assert "(0, -1)" in str(error)
    error = error_of(lambda: store(run_maps, [described], (-8, 0), operation="cp.reduce.async.add"))
    assert error.code == "CD-E6"


def test_boxes_in_shared_memory_are_aligned_and_inside(run_maps, rng):
    described = tensor_map(numbers(rng, (16, 64), np.float16), (16, 4))
    assert error_of(lambda: load(run_maps, described, (0, 0), 64)).code == "CD-E3"
    assert error_of(lambda: load(run_maps, described, (0, 0), SMEM)).code == "CD-I1"
    assert error_of(lambda: store(run_maps, [described], (0, 0), 64)).code == "CD-E3"


def test_the_map_must_be_a_generic_address(run_maps, run_kernel, rng):
    """Without cvta.param the address is one of the .param space."""
    described = tensor_map(numbers(rng, (16, 64), np.float16), (16, 4))
    body = """.shared .align 128 .b8 sm[256]; mov.u32 %r3, sm; mov.b64 %rd5, m0;
    add.s64 %rd6, %rd100, 8;
    @%p31 cp.async.bulk.prefetch.tensor.2d.L2.global [PLACE, {%r0, %r0}];"""
    run_maps(body.replace("PLACE", "%rd100"), [described], [])
    for place, code in (("%rd5", "CD-I1"), ("%rd6", "CD-E2"), ("%rd0", "CD-E2")):
        error = error_of(
            lambda place=place: run_maps(
                body.replace("PLACE", place), [described], [np.zeros(128, np.uint8)]
            )
        )
        assert error.code == code


def test_a_map_of_another_rank_is_refused(run_maps, rng):
    described = tensor_map(numbers(rng, (4, 16, 64), np.float16), (16, 4, 1))
    assert error_of(lambda: load(run_maps, described, (0, 0))).code == "CD-E1"


def test_other_modes_are_unsupported(run_maps, rng):
    described = tensor_map(numbers(rng, (16, 64), np.float16), (16, 4))
    body = "@%p31 cp.async.bulk.prefetch.tensor.2d.L2.global.{} [%rd100, {{%r0, %r0}}];"
    with pytest.raises(UnsupportedInstruction):
        run_maps(body.format("im2col"), [described], [])
    assert error_of(lambda: run_maps(body.format("tile::gather4"), [described], [])).code == "CD-T1"


BAD_MAPS = [
    ({"box": (12, 4)}, "multiple of 16 bytes"),
    ({"box": (8, 257)}, "box[1] of 1 to 256"),
    ({"box": (72, 4), "swizzle": "128B"}, "at most 128 bytes"),
    ({"strides": (136,)}, "strides[0]"),
    ({"strides": ()}, "1 numbers in strides"),
    ({"element_strides": (1, 9)}, "element_strides[1]"),
    ({"swizzle": "96B"}, "swizzle none, 32B, 64B, 128B"),
    ({"interleave": "16B"}, "interleave"),
    ({"oob_fill": "one"}, "zero or nan"),
    ({"dtype": "i4"}, "element type"),
    ({"dtype": "u16", "oob_fill": "nan"}, "floating-point"),
    ({"dims": (64, 17)}, "within the array"),
    ({"dims": (0, 16)}, "dims[0]"),
    ({"dims": "ab"}, "integers in dims"),
]


@pytest.mark.parametrize(("change", "words"), BAD_MAPS)
def test_maps_that_the_driver_refuses(run_maps, rng, change, words):
    described = {**tensor_map(numbers(rng, (16, 64), np.float16), (8, 4)), **change}
    error = error_of(lambda: run_maps("", [described], [], gpu=False))
    assert error.code == "CD-E1"
    assert words in str(error)


def test_misaligned_arrays_and_parameters(run_maps, run_kernel):
    base = np.zeros((17, 64), np.float16)
    view = base.reshape(-1)[4 : 4 + 1024].reshape(16, 64)
    error = error_of(lambda: run_maps("", [tensor_map(view, (8, 4))], []))
    assert error.code == "CD-E1"
    assert "multiple of 16 bytes" in str(error)


def test_maps_as_objects_with_attributes(run_maps, rng):
    class Described:
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

    array = numbers(rng, (48, 128), np.float16)
    described = tensor_map(array, (64, 8), swizzle="128B")
    body = """.shared .align 128 .b8 sm[1024]; .shared .align 8 .b64 bar;
    @!%p31 bra END; mov.u32 %r2, bar; mov.u32 %r3, sm; mov.u32 %r4, 0;
    mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint
     [%r3], [%rd100, {%r4, %r4}], [%r2], %rd50;
    W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;
    ld.shared.b16 %h1, [%r3+2]; st.global.b16 [%rd0], %h1;
    END:"""
    body = "createpolicy.fractional.L2::evict_first.b64 %rd50, 1.0;" + body
    out = np.zeros(2, np.float16)
    run_maps(body, [Described(**described)], [out])
    assert out[0] == array[0, 1]


def test_maps_in_global_memory(run_maps, rng):
    """A list of maps is a buffer of 128 bytes each, as grouped problems use."""
    arrays = [numbers(rng, (8, 16 * (i + 1)), np.float16) for i in range(3)]
    maps = [tensor_map(a, (8, 2)) for a in arrays]
    out = np.zeros((3, 2, 8), np.float16)
    body = """.shared .align 128 .b8 sm[384]; .shared .align 8 .b64 bar;
    @!%p31 bra END; mov.u32 %r2, bar; mov.u32 %r3, sm; mov.u32 %r4, 8; mov.u32 %r5, 3;
    mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 96;
    LOAD add.s64 %rd5, %rd1, AT;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
     [%r3+AT], [%rd5, {%r4, %r5}], [%r2]; TSAL
    W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;
    mov.u32 %r6, 0;
    NEXT: shr.u32 %r7, %r6, 5; mul.lo.u32 %r7, %r7, 96; add.u32 %r7, %r7, %r6;
    add.u32 %r7, %r7, %r3; ld.shared.b32 %r8, [%r7]; cvt.u64.u32 %rd6, %r6;
    add.s64 %rd6, %rd6, %rd0; st.global.b32 [%rd6], %r8;
    add.u32 %r6, %r6, 4; setp.lt.u32 %p4, %r6, 96; @%p4 bra NEXT;
    END:"""
    start = body.index("LOAD")
    end = body.index("TSAL")
    one = body[start + 5 : end]
    copies = "".join(one.replace("AT", str(128 * i)) for i in range(3))
    body = body[:start] + copies + body[end + 4 :]
    run_maps(body, [], [out, maps])
    for i, array in enumerate(arrays):
        assert (out[i] == array[3:5, 8:16]).all()


def test_a_kernel_edits_a_map(run_maps, rng):
    """A copy of the map in shared memory gets another tensor, is published and used."""
    first, second = numbers(rng, (16, 64), np.float16), numbers(rng, (8, 32), np.float16)
    described = tensor_map(first, (8, 4))
    out, room = np.zeros((4, 8), np.float16), np.zeros(256, np.uint8)
    body = """.shared .align 128 .b8 sm[256]; .shared .align 8 .b64 bar;
    mov.u32 %r2, bar; mov.u32 %r3, sm; shl.b32 %r5, %r0, 2; add.u32 %r6, %r3, %r5;
    cvt.u64.u32 %rd5, %r5; add.s64 %rd6, %rd100, %rd5; ld.b32 %r7, [%rd6]; st.shared.b32 [%r6], %r7;
    bar.warp.sync 0xffffffff; @!%p31 bra EDITED;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %rd2;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 0, 32;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 1, 8;
    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r3], 0, 64;
    EDITED: bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
     [%rd1], [%r3], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
    @!%p31 bra END; mov.u32 %r4, 24; mov.u32 %r5, 6;
    mbarrier.init.shared.b64 [%r2], 1; fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
     [%r3+128], [%rd1, {%r4, %r5}], [%r2];
    W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;
    mov.u32 %r6, 0;
    NEXT: add.u32 %r7, %r6, %r3; ld.shared.b32 %r8, [%r7+128]; cvt.u64.u32 %rd6, %r6;
    add.s64 %rd6, %rd6, %rd0; st.global.b32 [%rd6], %r8;
    add.u32 %r6, %r6, 4; setp.lt.u32 %p4, %r6, 64; @%p4 bra NEXT;
    END:"""
    run_maps(body, [described], [out, room, second], gpu=False)
    assert (out[:2] == second[6:, 24:]).all()
    assert not out[2:].any()

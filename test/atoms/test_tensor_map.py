"""Tensor maps: each rule with a map that just keeps it and one that just breaks it, sizes, the
order of dimensions, and, where there is a CUDA driver, the verdict of `cuTensorMapEncodeTiled`."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from functools import cache

import pytest

from cutedialect.atoms.tensor_map import TensorMap, dim_order, slice_map_of, tensor_map_of
from cutedialect.layout import Swizzle

GOOD = TensorMap("f16", (4096, 512), (8192,), (64, 128), swizzle="128B")
THREE = TensorMap("f16", (64, 32, 16), (128, 4096), (8, 8, 8))
INTERLEAVED = replace(THREE, interleave="16B")
PACKED = replace(THREE, interleave="32B", swizzle="32B")


def of_rank(rank: int) -> TensorMap:
    return TensorMap("f32", (64,) * rank, (256,) * (rank - 1), (16,) * rank)


KEPT = {
    "a plain map": (GOOD, {}),
    "one dimension": (of_rank(1), {}),
    "five dimensions": (of_rank(5), {}),
    "the largest extent": (GOOD, {"dims": (1 << 32, 1)}),
    "the largest stride": (GOOD, {"strides": ((1 << 40) - 16,)}),
    "a stride of 0": (GOOD, {"strides": (0,)}),
    "the largest box": (GOOD, {"box": (64, 256)}),
    "the largest box of bytes": (GOOD, {"dtype": "u8", "box": (256, 256), "swizzle": "none"}),
    "the smallest box": (GOOD, {"box": (8, 1)}),
    "the largest element stride": (GOOD, {"element_strides": (1, 8)}),
    "swizzle 64B, full": (GOOD, {"box": (32, 8), "swizzle": "64B"}),
    "swizzle 32B, full": (GOOD, {"box": (16, 8), "swizzle": "32B"}),
    "NaN fill": (GOOD, {"oob_fill": "nan"}),
    "interleave 16B": (INTERLEAVED, {}),
    "interleave 32B": (PACKED, {}),
    "interleave with a short box": (INTERLEAVED, {"box": (4, 8, 8)}),
}

BROKEN = [
    (GOOD, {"dtype": "f8"}, r"element type of a tensor map \(u8, .*\), got 'f8'"),
    (GOOD, {"swizzle": "128"}, "swizzle none, 32B, 64B, 128B, 128B_32B, got '128'"),
    (GOOD, {"interleave": "64B"}, "interleave none, 16B, 32B, got '64B'"),
    (GOOD, {"oob_fill": "one"}, "out-of-bounds fill zero, nan, got 'one'"),
    (GOOD, {"l2_promotion": "512B"}, "L2 promotion none, 64B, 128B, 256B, got '512B'"),
    (of_rank(5), {"dims": (), "strides": (), "box": ()}, "1 to 5 dimensions, got 0"),
    (
        of_rank(5),
        {"dims": (64,) * 6, "strides": (256,) * 5, "box": (16,) * 6},
        "1 to 5 dimensions, got 6",
    ),
    (GOOD, {"interleave": "16B", "swizzle": "none"}, "at least 3 dimensions with interleave 16B"),
    (GOOD, {"strides": ()}, r"1 strides \(of dimensions 1 and up\) for 2 dimensions, got 0"),
    (GOOD, {"strides": (2, 8192)}, "1 strides .* got 2"),
    (GOOD, {"box": (64,)}, "2 box extents for 2 dimensions, got 1"),
    (GOOD, {"element_strides": (1,)}, "2 element strides for 2 dimensions, got 1"),
    (GOOD, {"dims": (4096, 0)}, r"dimension 1 of 1 to 2\^32 elements, got 0"),
    (GOOD, {"dims": ((1 << 32) + 1, 1)}, r"dimension 0 of 1 to 2\^32 elements, got 4294967297"),
    (GOOD, {"strides": (8200,)}, "multiple of 16 bytes, got 8200 bytes"),
    (GOOD, {"strides": (1 << 40,)}, r"below 2\^40 bytes and not negative, got 1099511627776"),
    (GOOD, {"strides": (-8192,)}, "not negative, got -8192"),
    (PACKED, {"strides": (128, 4112)}, "stride of dimension 2 that is a multiple of 32 bytes"),
    (GOOD, {"box": (64, 257)}, "box extent 1 of 1 to 256 elements, got 257"),
    (GOOD, {"box": (64, 0)}, "box extent 1 of 1 to 256 elements, got 0"),
    (GOOD, {"element_strides": (1, 9)}, "element stride 1 of 1 to 8, got 9"),
    (GOOD, {"element_strides": (1, 0)}, "element stride 1 of 1 to 8, got 0"),
    (GOOD, {"box": (12, 8)}, r"16 bytes \(8 elements of f16\), got 12 elements \(24 bytes\)"),
    (
        GOOD,
        {"box": (72, 8)},
        r"at most 128 bytes \(64 elements of f16\) with swizzle 128B, got 72 elements \(144 bytes",
    ),
    (GOOD, {"box": (40, 8), "swizzle": "64B"}, "at most 64 bytes .* swizzle 64B, got 40"),
    (GOOD, {"box": (24, 8), "swizzle": "32B"}, "at most 32 bytes .* swizzle 32B, got 24"),
    (PACKED, {"swizzle": "none"}, "swizzle 32B with interleave 32B, got swizzle none"),
    (
        GOOD,
        {"dtype": "s32", "box": (32, 8), "oob_fill": "nan"},
        "floating-point type for the fill with NaN, got s32; fill with zero",
    ),
]


@pytest.mark.parametrize("name", KEPT)
def test_maps_that_keep_the_rules(name: str) -> None:
    base, changes = KEPT[name]
    replace(base, **changes).check()


@pytest.mark.parametrize(("base", "changes", "reason"), BROKEN, ids=lambda x: str(x)[:60])
def test_every_rule_has_its_message(
    base: TensorMap, changes: dict[str, object], reason: str
) -> None:
    base.check()
    with pytest.raises(ValueError, match=reason):
        replace(base, **changes).check()  # type: ignore[arg-type]


def test_address() -> None:
    GOOD.check(0x7F00_0000_0010)
    PACKED.check(0x7F00_0000_0020)
    with pytest.raises(ValueError, match="multiple of 16 bytes, got 0x7f0000000008"):
        GOOD.check(0x7F00_0000_0008)
    with pytest.raises(ValueError, match="multiple of 32 bytes, got 0x7f0000000010"):
        PACKED.check(0x7F00_0000_0010)


def test_the_box_is_checked_before_the_tensor_is_known() -> None:
    unknown = replace(GOOD, dims=(0, 0), strides=())
    unknown.check_box()
    with pytest.raises(ValueError, match=r"1 strides \(of dimensions 1 and up"):
        unknown.check()
    with pytest.raises(ValueError, match="box extent 0 of at most 128 bytes"):
        replace(unknown, box=(128, 8)).check_box()


def test_sizes() -> None:
    assert (GOOD.rank, GOOD.element_bytes, GOOD.box_bytes, GOOD.smem_bytes) == (2, 2, 16384, 16384)
    assert (GOOD.alignment, GOOD.smem_alignment) == (16, 1024)
    assert (PACKED.alignment, PACKED.smem_alignment) == (32, 256)
    # A row narrower than the span: rows still lie a span apart, the barrier counts the box alone.
    narrow = replace(GOOD, box=(16, 8))
    assert (narrow.box_bytes, narrow.smem_bytes) == (256, 1024)
    assert replace(narrow, swizzle="none").smem_bytes == 256
    # Element strides: ceil, and none along dimension 0 without interleave.
    strided = TensorMap("f32", (64, 64, 64), (256, 16384), (32, 10, 7), (2, 3, 7))
    assert strided.loaded == (32, 4, 1)
    assert strided.box_bytes == 32 * 4 * 4
    assert replace(strided, interleave="16B").loaded == (16, 4, 1)
    assert GOOD.codes == (6, 0, 3, 2, 0)
    assert replace(GOOD, dtype="bf16", l2_promotion="256B", oob_fill="nan").codes == (9, 0, 3, 3, 1)
    assert TensorMap("e4m3", (64,), (), (64,)).codes[0] == 0


def test_coordinates() -> None:
    GOOD.check_coordinates((-64, -3))
    GOOD.check_coordinates((64, 3), store=True)
    with pytest.raises(ValueError, match=r"16 bytes \(8 elements of f16\), got 4"):
        GOOD.check_coordinates((4, 0))
    with pytest.raises(ValueError, match=r"16 bytes \(8 elements of f16\), got -12"):
        GOOD.check_coordinates((-12, 0))
    with pytest.raises(ValueError, match="a store of at least 0, got -1"):
        GOOD.check_coordinates((0, -1), store=True)
    with pytest.raises(ValueError, match="2 coordinates, got 3"):
        GOOD.check_coordinates((0, 0, 0))


def test_reductions() -> None:
    for dtype, operation in (("f32", "add"), ("bf16", "max"), ("u32", "inc"), ("s64", "min")):
        replace(GOOD, dtype=dtype).check_reduction(operation)
    for dtype, operation in (
        ("s64", "add"),
        ("s64", "and"),
        ("f32", "min"),
        ("f32", "max"),
        ("u8", "add"),
        ("u16", "or"),
        ("f16", "inc"),
    ):
        with pytest.raises(ValueError, match=f"tensor copy can {operation}: .*; got {dtype}"):
            replace(GOOD, dtype=dtype).check_reduction(operation)
    with pytest.raises(ValueError, match=r"reduction of add, .* got 'mul'"):
        GOOD.check_reduction("mul")


@pytest.mark.parametrize(
    ("strides", "order"),
    [
        ((1,), (0,)),
        ((256, 1), (1, 0)),
        ((1, 256), (0, 1)),
        (("?", 1), (1, 0)),
        ((1, "?"), (0, 1)),
        (("?", "?", 1), (2, 1, 0)),
        (("?", 1, "?"), (1, 2, 0)),
        ((1, "?", "?"), (0, 2, 1)),
        (("?", 1, 1), (2, 1, 0)),
    ],
)
def test_order_of_dimensions(strides: tuple[object, ...], order: tuple[int, ...]) -> None:
    assert dim_order(strides) == order


def test_no_contiguous_mode() -> None:
    with pytest.raises(ValueError, match=r"one contiguous mode \(stride 1\), got \(\?, 2\)"):
        dim_order(("?", 2))


def test_map_of_a_tensor() -> None:
    found = tensor_map_of(
        "bf16", (8, 512, 256), (131072, 1, 512), (1, 64, 32), Swizzle(3, 4, 3), oob_fill="nan"
    )
    assert found.dims == (512, 256, 8)
    assert found.strides == (1024, 262144)
    assert found.box == (64, 32, 1)
    assert (found.swizzle, found.oob_fill, found.element_strides) == ("128B", "nan", (1, 1, 1))
    found.check()
    # No element, and a mode of one element whose stride is anything.
    empty = tensor_map_of("f16", (0, 64), (64, 1), (8, 64))
    assert empty.dims == (64, 1)
    empty.check()
    single = tensor_map_of("f16", (1, 60), (60, 1), (8, 64))
    assert (single.dims, single.strides) == ((60, 1), (128,))
    single.check()
    with pytest.raises(ValueError, match="got 2, 2 and 1"):
        tensor_map_of("f16", (8, 64), (64, 1), (64,))


@pytest.mark.parametrize(
    ("shape", "strides", "mode"),
    [
        ((3, 50, 64), (3200, 64, 1), 1),
        ((50, 64), (128, 1), 0),
        ((1, 3, 40, 16), (8, 640, 16, 1), 2),
    ],
)
def test_map_of_slices(shape, strides, mode) -> None:
    """The address of each row of each slice is the tensor's, and rows behind its end are out."""
    box = tuple(8 if each == mode else 1 for each in range(len(shape) - 1)) + (16,)
    found = slice_map_of("f16", shape, strides, box, Swizzle(1, 4, 3), sliced=mode)
    found.check()
    assert found.box == (16, 8, 1, 1, 1)
    base = 1 << 47
    for first, end, row in [(0, 5, 0), (3, 40, 36), (39, 40, 0), (7, 9, 2)]:
        outer = 2 * strides[0] * 2 if shape[0] > 1 and mode else 0
        units = (end * strides[mode] * 2 + outer) // 16
        place = (8, (1 << 30) - (end - first) + row, 1 << 30, units % (1 << 31), units >> 31)
        found.check_coordinates(place, store=True)
        at = sum(x * s for x, s in zip(place, (2, *found.strides), strict=True))
        assert (base + at) % (1 << 64) == base + 16 + (first + row) * strides[mode] * 2 + outer
        assert (place[1] < found.dims[1]) == (row < end - first)
        assert all(x < n for x, n in zip(place[2:], found.dims[2:], strict=True))


def test_slices_that_have_no_map() -> None:
    def made(shape, strides):
        slice_map_of("f16", shape, strides, (1, 8, 16), sliced=1).check()

    made((4, 1, 16), (16, 3, 1))
    with pytest.raises(ValueError, match="stride of mode 0 that is a multiple of 16 bytes"):
        made((4, 50, 16), (15, 16, 1))
    with pytest.raises(ValueError, match=r"at most 2\^30 rows, got 1073741825"):
        made((4, (1 << 30) + 1, 16), (16, 64, 1))
    with pytest.raises(ValueError, match=r"less than 2\^34 bytes apart, got 17179869184"):
        made((4, 50, 16), (16, 1 << 33, 1))
    with pytest.raises(ValueError, match="stride of mode 1 that is a multiple of 16"):
        made((4, 50, 16), (16, 17, 1))


@cache
def driver() -> ctypes.CDLL | None:
    """The CUDA driver, initialized; None without one that knows tensor maps."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        library.cuTensorMapEncodeTiled.restype = ctypes.c_int
    except (OSError, AttributeError):
        return None
    return library if library.cuInit(0) == 0 else None


def encodes(library: ctypes.CDLL, given: TensorMap, address: int) -> bool:
    """Whether the driver takes the map."""

    def array(kind: type[ctypes.c_uint32 | ctypes.c_uint64], values: tuple[int, ...]) -> object:
        return (kind * max(1, len(values)))(*values)

    space = (ctypes.c_uint64 * 24)()
    aligned = (ctypes.addressof(space) + 63) & ~63
    dtype, interleave, swizzle, promotion, fill = given.codes
    status = library.cuTensorMapEncodeTiled(
        ctypes.c_void_p(aligned),
        ctypes.c_int(dtype),
        ctypes.c_uint32(given.rank),
        ctypes.c_void_p(address),
        array(ctypes.c_uint64, given.dims),
        array(ctypes.c_uint64, given.strides),
        array(ctypes.c_uint32, given.box),
        array(ctypes.c_uint32, given.element_strides),
        ctypes.c_int(interleave),
        ctypes.c_int(swizzle),
        ctypes.c_int(promotion),
        ctypes.c_int(fill),
    )
    return status == 0


def drawn(rng: random.Random) -> tuple[TensorMap, int]:
    """A map near the edges of the rules; about half of them keep them all."""
    rank = rng.choice((1, 2, 3, 4, 5))

    def mostly(usual: int, *rare: int) -> int:
        return usual if rng.random() < 0.93 else rng.choice(rare)

    interleave = rng.choice(("none", "none", "none", "16B", "32B"))
    swizzle = rng.choice(("none", "32B", "64B", "128B"))
    if interleave == "32B" and rng.random() < 0.8:
        swizzle = "32B"
    return (
        TensorMap(
            rng.choice(("u8", "u16", "s32", "u64", "f16", "f32", "f64", "bf16", "tf32")),
            tuple(mostly(rng.choice((1, 7, 64, 1 << 20)), 0, 1 << 32) for _ in range(rank)),
            tuple(
                mostly(rng.choice((0, 32, 512, 1 << 32)), 8, 16, 1 << 40) for _ in range(rank - 1)
            ),
            tuple(
                mostly(rng.choice((1, 2, 4, 8, 16, 32)), 0, 3, 64, 128, 256, 257)
                for _ in range(rank)
            ),
            tuple(mostly(rng.choice((1, 1, 1, 2, 8)), 0, 9) for _ in range(rank)),
            swizzle,
            interleave,
            rng.choice(("zero", "zero", "nan")),
            rng.choice(("none", "64B", "128B", "256B")),
        ),
        mostly(1 << 32, (1 << 32) + 8, (1 << 32) + 16),
    )


@pytest.mark.skipif(driver() is None, reason="no CUDA driver")
def test_the_driver_agrees() -> None:
    library = driver()
    assert library is not None
    rng = random.Random(3)
    verdicts = {True: 0, False: 0}
    wrong: list[str] = []
    for _ in range(4000):
        given, address = drawn(rng)
        try:
            given.check(address)
            reason = ""
        except ValueError as error:
            reason = str(error)
        taken = encodes(library, given, address)
        verdicts[taken] += 1
        if taken != (not reason):
            wrong.append(f"{given} at {address:#x}: driver {taken}, check {reason or 'passes'}")
    assert not wrong, f"{len(wrong)} of 4000:\n" + "\n".join(wrong[:20])
    assert min(verdicts.values()) > 200

"""Copies of four rows (`.tile::gather4`) against a reference that places bytes one by one: swizzles
across the rows, rows and columns outside of the tensor, rows in any order, several lanes at once,
and the rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError

SMEM = 8192
COPY = "cp.async.bulk.tensor.2d.{}.global.tile::gather4.mbarrier::complete_tx::bytes"
# Bits of a byte address that a swizzle changes, by those of the 128-byte line.
TURNED = {"none": 0, "32B": 0x10, "64B": 0x30, "128B": 0x70}
SPAN = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


def described(array: np.ndarray, columns: int, **more: Any) -> dict[str, Any]:
    """A map of a matrix for rows of so many columns."""
    names = {"<f2": "f16", "|u1": "u8", "<f4": "f32", "<i8": "s64"}
    return {
        "array": array, "dtype": names[array.dtype.str], "dims": array.shape[::-1],
        "strides": array.strides[:1], "box": (columns, 1), "element_strides": (1, 1),
        "swizzle": "none", "interleave": "none", "oob_fill": "zero", **more,
    }  # fmt: skip


def gathered(run_maps: Any, map_: Any, places: Any, size: int | None = None, **how: Any) -> Any:
    """Shared memory, which was 0xEE, after a copy by each lane: (offset, column, rows)."""
    out, table = np.zeros(SMEM, np.uint8), np.array([[o, c, *rows] for o, c, rows in places], "i4")
    count = len(table)
    total = 4 * map_["box"][0] * map_["array"].itemsize * count if size is None else size
    space, mode = how.pop("space", "shared::cluster"), how.pop("mode", None)
    head = COPY.format(space) if mode is None else mode
    body = f"""
    .shared .align 1024 .b8 sm[{SMEM}]; .shared .align 8 .b64 bar;
    mov.u32 %r2, bar; mov.u32 %r3, sm; mov.u32 %r4, %r0;
    FILL: shl.b32 %r5, %r4, 2; add.u32 %r5, %r5, %r3; st.shared.b32 [%r5], 0xEEEEEEEE;
    add.u32 %r4, %r4, 32; setp.lt.u32 %p2, %r4, {SMEM // 4}; @%p2 bra FILL;
    @%p31 mbarrier.init.shared.b64 [%r2], 1;
    fence.proxy.async;
    bar.sync 0;
    @%p31 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {total};
    setp.ge.u32 %p4, %r0, {count};
    @%p4 bra WAIT;
    mul.lo.u32 %r5, %r0, 24; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd1;
    ld.global.b32 %r6, [%rd5]; ld.global.b32 %r40, [%rd5+4]; ld.global.b32 %r41, [%rd5+8];
    ld.global.b32 %r42, [%rd5+12]; ld.global.b32 %r43, [%rd5+16]; ld.global.b32 %r44, [%rd5+20];
    add.u32 %r6, %r6, %r3;
    {head} [%r6], [%rd100, {{%r40, %r41, %r42, %r43, %r44}}], [%r2];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
    @!%p3 bra WAIT;
    mov.u32 %r4, %r0;
    COPY: shl.b32 %r5, %r4, 2; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd0;
    add.u32 %r5, %r5, %r3; ld.shared.b32 %r6, [%r5]; st.global.b32 [%rd5], %r6;
    add.u32 %r4, %r4, 32; setp.lt.u32 %p2, %r4, {SMEM // 4}; @%p2 bra COPY;"""
    options = {"target": "sm_100a", "gpu": False, **how}
    run_maps(body, [map_], [out, table], **options)
    return out


def expected(map_: Any, places: Any) -> np.ndarray:
    array, columns, swizzle = map_["array"], map_["box"][0], map_["swizzle"]
    size = array.itemsize
    out = np.full(SMEM, 0xEE, np.uint8)
    pitch = SPAN[swizzle] or columns * size
    for offset, column, rows in places:
        for place, row in enumerate(rows):
            for at in range(columns):
                value = array.dtype.type(0)
                if 0 <= row < array.shape[0] and 0 <= column + at < array.shape[1]:
                    value = array[row, column + at]
                for byte, number in enumerate(value.tobytes()):
                    address = 1024 + offset + place * pitch + at * size + byte
                    out[(address ^ (address >> 3 & TURNED[swizzle])) - 1024] = number
    return out


CASES = [
    # (element type, shape, columns, swizzle, places of lanes)
    ("f2", (11, 64), 64, "128B", [(0, 0, (3, 1, 4, 1))]),
    ("f2", (11, 128), 64, "128B", [(512, 64, (10, 0, 9, 5))]),
    ("f2", (11, 40), 32, "64B", [(256, 32, (2, 7, 1, 8))]),
    ("u1", (300, 48), 32, "32B", [(128, 16, (299, 0, 255, 256)), (0, 0, (5, 5, 5, 5))]),
    ("f4", (9, 32), 32, "128B", [(512 * i, 0, (i, 8 - i, 4, 0)) for i in range(7)]),
    ("i8", (6, 16), 8, "none", [(256, 8, (5, 4, 3, 2))]),
    ("f4", (6, 16), 16, "none", [(128, 0, (0, 5, 1, 4))]),
]


@pytest.mark.parametrize("space", ["shared::cluster", "shared::cta"])
@pytest.mark.parametrize(("kind", "shape", "columns", "swizzle", "places"), CASES)
def test_four_rows(run_maps, rng, kind, shape, columns, swizzle, places, space):
    array = rng.integers(1, 100, shape).astype(kind)
    map_ = described(array, columns, swizzle=swizzle)
    found = gathered(run_maps, map_, places, space=space)
    np.testing.assert_array_equal(found, expected(map_, places))


def test_rows_outside_are_filled(run_maps, rng):
    """Each row is a box of its own, which ends with the tensor."""
    array = rng.integers(1, 100, (7, 40)).astype("f2")
    map_ = described(array, 32, swizzle="64B")
    least, most = -(1 << 31), (1 << 31) - 1
    places = [(0, 0, (-1, 6, 7, 0)), (256, 32, (least, 3, most, 2)), (512, -8, (1, 8, -7, 5))]
    np.testing.assert_array_equal(gathered(run_maps, map_, places), expected(map_, places))
    filled = gathered(run_maps, {**map_, "oob_fill": "nan"}, [(0, 0, (-1, 7, 100, 0))])
    np.testing.assert_array_equal(filled[:192].view(np.uint16), 0x7FF7)


def test_nothing_outside_is_read(run_maps, rng):
    """The tensor is a part of an array, whose other rows are not looked at."""
    whole = rng.integers(1, 100, (16, 32)).astype("f2")
    map_ = described(whole, 32, swizzle="64B", dims=(32, 8))
    places = [(0, 0, (7, 8, 15, 9))]
    clipped = described(whole[:8], 32, swizzle="64B")
    np.testing.assert_array_equal(gathered(run_maps, map_, places), expected(clipped, places))


def code_of(call: Any) -> str:
    with pytest.raises(EmulatorError) as caught:
        call()
    return caught.value.code or ""


def test_the_rules(run_maps, rng):
    array = rng.integers(1, 100, (8, 64)).astype("f2")
    map_, rows = described(array, 64, swizzle="128B"), [(0, 0, (0, 1, 2, 3))]

    def code(**how: Any) -> str:
        changed = how.pop("map_", map_)
        return code_of(lambda: gathered(run_maps, changed, how.pop("places", rows), **how))

    # Boxes of one row, of a matrix.
    assert code(map_={**map_, "box": (64, 4)}) == "CD-E1"
    cube = rng.integers(1, 100, (2, 8, 64)).astype("f2")
    of_cube = {**described(array, 64), "array": cube, "dims": (64, 8, 2), "box": (64, 1, 1)}
    assert code(map_={**of_cube, "strides": (128, 1024), "element_strides": (1, 1, 1)}) == "CD-E1"
    # A column names a multiple of 16 bytes, a place in shared memory one of 128.
    assert code(places=[(0, 4, (0, 1, 2, 3))]) == "CD-E6"
    assert code(places=[(64, 0, (0, 1, 2, 3))]) == "CD-E3"
    assert code(places=[(SMEM - 256, 0, (0, 1, 2, 3))]) == "CD-I1"
    # All four rows count.
    assert code(size=384) == "CD-B1"
    assert code(target="sm_90a") == "CD-T1"
    assert code(target="sm_120a") == "CD-T1"
    for rank in ("1d", "3d"):
        head = COPY.format("shared::cluster").replace("2d", rank)
        assert code(mode=head) == "CD-PTX"

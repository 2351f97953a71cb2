"""Device arrays that a kernel reads as one argument and writes as another: the same look at every
call, also at those that repeat an earlier one.
"""

from __future__ import annotations

from typing import Any

import pytest

import cutedialect as cute
from cutedialect.backend.runtime.kernel import Kernel

SHAPE = (32, 32)
SIZE = 4 * 32 * 32


@cute.kernel
def doubled(X, Y):
    at = cute.tile_index(Y, (16, 32))
    cute.copy(cute.local_tile(X, (16, 32), at).load() * 2.0, cute.local_tile(Y, (16, 32), at))


@cute.kernel
def shifted(X, Y):
    i, j = cute.tile_index(Y, (16, 32))
    cute.copy(cute.local_tile(X, (16, 32), (i + 1, j)), cute.local_tile(Y, (16, 32), (i, j)))


def compiled(program):
    spec = cute.TensorSpec((None, None), cute.f32)
    return Kernel(cute.compile(program, spec, spec, arch="sm_80").program)


def test_in_place_is_launched_and_launched_again(device_array: Any, cuda: Any):
    kernel = compiled(doubled)
    apart, same = (0x10000, 0x20000), (0x10000, 0x10000)
    for pointers in (apart, apart, apart, same, same, (0x20000, 0x10000)):
        kernel.launch(*[device_array(pointer, SHAPE) for pointer in pointers])
    assert len(cuda.launches) == 6
    for overlapping in ((0x10000, 0x10000 + 128), (0x10000 + SIZE - 128, 0x10000)):
        for _ in range(3):
            with pytest.raises(ValueError, match=r"Y: .* or that of X as it is, .* overlaps X"):
                kernel.launch(*[device_array(pointer, SHAPE) for pointer in overlapping])
    assert len(cuda.launches) == 6
    kernel.launch(device_array(0x10000, SHAPE), device_array(0x10000 + SIZE, SHAPE))
    assert len(cuda.launches) == 7


def test_tiles_that_others_write_are_refused_at_every_call(device_array: Any, cuda: Any):
    kernel = compiled(shifted)
    for _ in range(3):
        kernel.launch(device_array(0x10000, SHAPE), device_array(0x20000, SHAPE))
        with pytest.raises(ValueError, match=r"overlaps X, of which tiles .* behind a"):
            kernel.launch(device_array(0x10000, SHAPE), device_array(0x10000, SHAPE))
    assert len(cuda.launches) == 3
    # One row of tiles: nothing is read that is written.
    small = device_array(0x10000, (16, 32))
    kernel.launch(small, small)
    assert len(cuda.launches) == 4


def test_nothing_is_bound_again_where_addresses_are_apart(
    device_array: Any, cuda: Any, monkeypatch: pytest.MonkeyPatch
):
    kernel = compiled(shifted)
    kernel.launch(device_array(0x10000, SHAPE), device_array(0x20000, SHAPE))
    monkeypatch.setattr(kernel._checker, "bind", lambda _: pytest.fail("checked again"))
    for pointer in (0x20000, 0x30000, 0x10000 + SIZE):
        kernel.launch(device_array(0x10000, SHAPE), device_array(pointer, SHAPE))
    assert len(cuda.launches) == 4

"""Threads that read what TMA brought fence before they let it be overwritten: TMA writes through
another proxy (PTX ISA 8.9).
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator


@cute.kernel
def add(x, y, out, *, tile=(64, 128)):
    i, j = cute.tile_index(out, tile)
    one, other = (cute.local_tile(each, tile, (i, j)).load() for each in (x, y))
    cute.copy(one + other, cute.local_tile(out, tile, (i, j)))


@cute.kernel
def add_all(x, out, *, tile=(64, 128)):
    """out = the sum of all tiles of a row of x, which come through two stages."""
    total, tiles = cute.zeros(tile), cute.local_tile(x, tile, (0, None))
    for j in cute.range(tiles.tiles):
        total += tiles[j].load()
    cute.copy(total, cute.local_tile(out, tile, (0, 0)))


ON_HOPPER = {"arch": "sm_90a", "backend": "emulator"}


def stage(kernel):
    return [line.split() for line in kernel.stages["cute-synchronize"].splitlines()]


@pytest.mark.some(2)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_loads_are_fenced_from_the_next_copy(stages):
    schedule = f"roles = specialized, stages = {stages}, warps = (4,1)"
    x = np.arange(200 * 264, dtype=np.float32).reshape(200, 264)
    out = np.zeros_like(x)
    add(x, x, out, arch="sm_90a", schedule=schedule, backend="emulator")
    assert np.array_equal(out, 2 * x)
    lines = stage(cute.compile(add, x, x, out, arch="sm_90a", schedule=schedule))
    releases = [at for at, line in enumerate(lines) if line[:1] == ["pipeline.consumer_release"]]
    assert len(releases) == 2
    assert all(lines[at - 1] == ["cute_nvgpu.fence_proxy_async"] for at in releases)


def test_the_emulator_asks_for_them(monkeypatch):
    original = emulator.launch
    x = np.arange(64 * 1024, dtype=np.float32).reshape(64, 1024)
    fence = "fence.proxy.async.shared::cta;"

    def launch(ptx, *arguments):
        assert fence in ptx
        return original(ptx.replace(fence, ""), *arguments)

    monkeypatch.setattr(emulator, "launch", launch)
    schedule = "roles = specialized, stages = 2, warps = (4,1), epilogue = direct, ctas = 1"
    with pytest.raises(emulator.EmulatorError) as caught:
        add_all(x, np.zeros((64, 128), np.float32), schedule=schedule, **ON_HOPPER)
    assert caught.value.code == "CD-A4"


def test_reads_of_multiplies_are_not():
    """They come through the proxy of the copies."""
    spec = cute.TensorSpec((256, 256), cute.f16)
    lines = stage(cute.gemm.compile(spec, spec, arch="sm_90a", schedule="roles = specialized"))
    releases = [at for at, line in enumerate(lines) if line[:1] == ["pipeline.consumer_release"]]
    assert releases
    assert not any(lines[at - 1] == ["cute_nvgpu.fence_proxy_async"] for at in releases)


def test_a_fence_behind_what_was_prepared_is_enough():
    """Values of 8 bits are transposed for the second multiply, and fenced once for both rings."""
    spec = cute.TensorSpec((1, 2, 256, 128), cute.e4m3)
    kernel = cute.compile(cute.attention, spec, spec, spec, arch="sm_90a")
    names = [line[0] for line in stage(kernel) if line]
    verbs = {"pipeline.producer_commit", "pipeline.advance", "pipeline.consumer_release"}
    fences = [at for at, name in enumerate(names) if name == "cute_nvgpu.fence_proxy_async"]
    assert fences
    for at in fences:
        behind = next(name for name in names[at + 1 :] if name not in verbs)
        assert behind != "cute_nvgpu.fence_proxy_async"

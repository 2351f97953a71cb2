"""Threads that read what TMA brought fence before they let it be overwritten: TMA writes through
another proxy (PTX ISA 8.9).
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def add(x, y, out, *, tile=(64, 128)):
    i, j = cute.tile_index(out, tile)
    one, other = (cute.local_tile(each, tile, (i, j)).load() for each in (x, y))
    cute.copy(one + other, cute.local_tile(out, tile, (i, j)))


def stage(kernel):
    return [line.split() for line in kernel.stages["cute-synchronize"].splitlines()]


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

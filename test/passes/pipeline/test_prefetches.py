"""What has one buffer, and is needed as soon as that is free, comes to L2 before."""

from __future__ import annotations

import re

import pytest

import cutedialect as cute

STEPS = re.compile(r"cute_nvgpu\.tma_prefetch|pipeline\.producer_acquire|scf\.while")


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        ("tile = (128,144)", ["tma_prefetch", "producer_acquire"]),
        # Two buffers of q.
        ("tile = (128,128)", ["producer_acquire"]),
        # The epilogue comes between two tiles.
        ("tile = (128,144), overlap_tiles = no", ["producer_acquire"]),
    ],
)
def test_the_next_tile_of_q_comes_to_l2_before_its_buffer_is_free(schedule, steps):
    x = cute.TensorSpec((1, 2, None, 128), "bf16")
    kernel = cute.compile(
        cute.attention, x, x, x, window=(1024, 0), arch="sm_90a", schedule=schedule
    )
    text = kernel.stages["cute-pipeline"].split("pipeline.role")[1]
    found = [step.group().split(".")[-1] for step in STEPS.finditer(text)]
    # The loop over tiles, what brings q, and what claims the next tile.
    assert found == ["while", *steps, "producer_acquire"]

"""The static model that is frozen on published kernels."""

import pytest

from benchmarks import published
from cutedialect.tools import sass


def test_the_kernel_that_is_held_out_is_foretold():
    """Two figures are fitted to two kernels; the third comes out within 2 %."""
    rate, share = published.frozen()
    assert 1.2e9 < rate < 1.85e9
    assert 0.5 < share <= 1
    block = published.kept("flash-attention-4-d128-full", 128)
    said, unit = block.tflops(rate, share)
    assert unit == "tensor"
    assert said == pytest.approx(published.FLASH_128, rel=0.02)


def test_few_columns_from_shared_memory_wait_for_it():
    """Of 64 columns both operands are 6 KB, 48 cycles, for 32 cycles of multiplies."""
    assert published.multiply_cycles(64, from_shared=2) == 48
    assert published.multiply_cycles(64, from_shared=1) == 32
    assert published.multiply_cycles(128, from_shared=2) == 64
    block = published.kept("flash-attention-4-d128-full", 128)
    assert block.tensor() == 2048
    assert published.Block(256, 64, (128, 128), block.roles).tensor() == 1280


@pytest.mark.skipif(sass.find() is None, reason="no nvdisasm")
def test_ours_is_one_line(capsys):
    assert published.main(["16k 16x128 full bf16"]) == 0
    *_, line = capsys.readouterr().out.splitlines()
    assert line.startswith("16k 16x128 full bf16: at most ")
    assert "of FlashAttention-4 full" in line

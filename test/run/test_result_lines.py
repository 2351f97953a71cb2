"""Results that TMA stores in whole lines of memory: tiles of any width, of which the last line may
begin inside of the one before, through two buffers that take turns.
"""

import re

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

RNG = np.random.default_rng(2203)


def _operands(m, n, k):
    a, b = (RNG.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    return a, b.T


def _kernel(tile, more="roles = specialized", **options):
    a, b = _operands(512, 512, 64)
    schedule = f"tile = ({','.join(map(str, tile))}), {more}"
    return cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule, **options)


@pytest.mark.parametrize(
    ("tile", "lines"),
    [
        # Three warpgroups, whose threads have registers for the accumulators and little else.
        ((192, 192, 64), 3),
        ((192, 176, 64), 3),
        ((128, 160, 64), 3),
        ((64, 80, 64), 2),
        ((64, 48, 64), 2),
        ((64, 32, 64), 1),
    ],
)
def test_a_tile_leaves_in_as_few_lines_as_it_has(tile, lines):
    ptx = _kernel(tile).ptx
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.\S*global\.shared", ptx)) == lines


def test_lines_that_are_added_to_memory_or_loaded_do_not_overlap():
    """What is stored twice has to be the same both times: no sum, and nothing of a tile that may be
    the one that is stored.
    """
    a, b = _operands(512, 512, 64)
    c = np.zeros((512, 512), ml_dtypes.bfloat16)
    schedule = "tile = (128,160,64), roles = specialized"
    kernel = cute.compile(cute.gemm, a, b, c=c, beta=1.0, arch="sm_90a", schedule=schedule)
    stores = re.findall(r"cp\.async\.bulk\.tensor\.\S*global\.shared", kernel.ptx)
    assert len(stores) == 5
    m, n = 3 * 128 - 8, 3 * 160 - 8
    a, b = _operands(m, n, 64)
    out = RNG.integers(-2, 3, (m, n)).astype(ml_dtypes.bfloat16)
    wanted = a.astype(np.float32) @ b.astype(np.float32) + out.astype(np.float32)
    cute.gemm(a, b, c=out, out=out, beta=1.0, schedule=schedule, arch="sm_90a", backend="emulator")
    np.testing.assert_array_equal(out, wanted.astype(out.dtype))


# The emulator's 4 multiprocessors walk over two tiles each, and one over three.
@pytest.mark.parametrize(
    ("tile", "more", "out"),
    [
        ((64, 160, 64), "roles = specialized", "bf16"),
        ((64, 112, 64), "roles = alternate", "f32"),
        pytest.param((192, 192, 64), "roles = specialized", "bf16", marks=pytest.mark.long),
        pytest.param((192, 176, 64), "roles = specialized", "bf16", marks=pytest.mark.long),
        pytest.param((128, 192, 64), "cluster = (2,1)", "bf16", marks=pytest.mark.long),
        pytest.param((64, 48, 64), "roles = specialized", "bf16", marks=pytest.mark.long),
        pytest.param((64, 208, 64), "roles = alternate", "f32", marks=pytest.mark.long),
    ],
)
def test_products_are_exact(tile, more, out):
    m, n = 3 * tile[0] - 8, 3 * tile[1] - 8
    a, b = _operands(m, n, int(RNG.integers(1, 16)) * 8)
    schedule = f"tile = ({','.join(map(str, tile))}), {more}"
    options = {"out_dtype": out, "arch": "sm_90a", "backend": "emulator"}
    made = cute.gemm(a, b, schedule=schedule, **options)
    wanted = np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(made.dtype)
    np.testing.assert_array_equal(made, wanted)


def test_an_odd_number_of_lines_waits_once_before_it_writes():
    """The last line and the first one of the next tile have one buffer."""
    body = _kernel((128, 192, 64)).ptx
    waits = [found.start() for found in re.finditer(r"wait_group\.read 0", body)]
    stores = [
        found.start() for found in re.finditer(r"cp\.async\.bulk\.tensor\.\S*global\.sh", body)
    ]
    assert len(stores) == 3
    before = [sum(wait < store for wait in waits) for store in stores]
    # One at the start and one in each step but the last; one more at the end of the kernel.
    assert before == [2, 3, 3]
    assert len(waits) == 4

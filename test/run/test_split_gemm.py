"""`precision="3xtf32"`: f32 products of operands that are split into two tf32 numbers each."""

import numpy as np
import pytest

import cutedialect as cute

F4 = np.float32
ONES = np.ones((8, 1), F4)
SMALL = {"sm_80": "tile = (64,64,32)", "sm_90a": "tile = (64,64,32), stages = 2"}


def normals(shape, seed, is_turned=False):
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((*shape[:-2], *shape[:-3:-1]) if is_turned else shape).astype(F4)
    return made.swapaxes(-1, -2) if is_turned else made


def run(a, b, arch="sm_90a", **options):
    options.setdefault("schedule", SMALL[arch])
    return cute.gemm(a, b, arch=arch, backend="emulator", precision="3xtf32", **options)


def bound(a, b, bits=-20):
    """So much of the sum of the magnitudes that an element is made of."""
    return 2.0**bits * (np.abs(a).astype("f8") @ np.abs(b).astype("f8"))


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", SMALL)
@pytest.mark.parametrize(
    ("sizes", "majors", "batch"),
    [
        ((72, 80, 200), "TN", ()),
        ((33, 70, 65), "NT", ()),
        ((40, 33, 31), "NN", (2,)),
        ((8, 16, 64), "TT", ()),
    ],
)
def test_the_error_is_within_the_bound(sizes, majors, batch, arch):
    """Lengths that no panel divides, rows that no copy of 16 bytes begins at, any majors."""
    m, n, k = sizes
    a = normals((*batch, m, k), 1, majors[0] == "N")
    b = normals((*batch, k, n), 2, majors[1] == "N")
    exact = a.astype("f8") @ b.astype("f8")
    error = np.abs(run(a, b, arch) - exact)
    assert np.all(error <= bound(a, b))
    rough = cute.gemm(a, b, arch=arch, backend="emulator", schedule=SMALL[arch])
    assert np.abs(rough - exact).max() > 50 * error.max()


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", SMALL)
def test_long_sums_of_one_sign_lose_no_more(arch):
    """Sums that tensor cores cut off at each of 1,000 steps would all be too small, by 2^-14."""
    a, b = np.abs(normals((8, 2048), 1)), np.abs(normals((2048, 8), 2))
    exact = a.astype("f8") @ b.astype("f8")
    assert np.all(np.abs(run(a, b, arch) - exact) <= bound(a, b))


def test_what_follows_the_product_and_transposed_products():
    a, b, c = normals((24, 72), 1), normals((72, 136), 2), normals((24, 136), 3)
    bias, aux = normals((1, 136), 4)[0], np.empty((24, 136), F4)
    wanted = 2.0 * (a.astype("f8") @ b.astype("f8")) - c + bias
    got = run(
        a, b, c=c, alpha=2.0, beta=-1.0, bias=bias, activation="relu", aux=aux,
        schedule="tile = (64,32,32), stages = 2, swap_ab = yes, split_k = 2",
    )  # fmt: skip
    assert np.all(np.abs(aux - wanted) <= 3 * bound(a, b))
    np.testing.assert_array_equal(got, np.maximum(aux, 0))


def test_without_depth_the_bias_remains():
    bias = np.arange(16, dtype=F4)
    got = run(np.zeros((8, 0), F4), np.zeros((0, 16), F4), bias=bias)
    np.testing.assert_array_equal(got, np.broadcast_to(bias, (8, 16)))


def test_large_and_infinite_numbers():
    a, b = np.zeros((8, 40), F4), np.ones((40, 8), F4)
    a[0, 3], a[1, 4], a[2, 5] = np.inf, -np.inf, np.nan
    a[3, 0], a[4, 0], a[5, 0] = 2.0**120 * 1.2345678, -(2.0**127), 2.0**-90 * 1.2345678
    b[0, 1] = 1.2345678
    got = run(a, b)
    np.testing.assert_array_equal(got[:2], np.repeat([[np.inf], [-np.inf]], 8, 1))
    assert np.isnan(got[2]).all()
    np.testing.assert_allclose(got[3:6], (a.astype("f8") @ b)[3:6], rtol=2.0**-21)


def test_the_default_schedule_multiplies_by_warpgroups_whatever_the_majors():
    for strides in ((None, 1), (1, None)):
        a, b = (cute.TensorSpec((512, 512), "f32", strides) for _ in range(2))
        kernel = cute.compile(cute.gemm, a, b, precision="3xtf32", arch="sm_90a")
        assert kernel.ptx.count("wgmma.mma_async") == 3 * 32 // 8
        assert kernel.resources.spills == 0


@pytest.mark.some(6)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (256, 4096, 512), (16, 4096, 4096)])
def test_the_default_schedule_assembles_without_spills(sizes, arch):
    m, n, k = sizes
    a, b = cute.TensorSpec((m, k), "f32"), cute.TensorSpec((k, n), "f32", (1, None))
    kernel = cute.compile(cute.gemm, a, b, precision="3xtf32", arch=arch)
    assert kernel.resources.spills == 0


@pytest.mark.parametrize(
    ("dtype", "options", "message"),
    [
        ("f4", {"precision": "ieee"}, "precision: expected .*got 'ieee'; tensor cores multiply no"),
        ("f4", {"precision": "bf16x9"}, "precision: expected None, 'tf32' or '3xtf32', got"),
        ("f2", {"precision": "3xtf32"}, "precision: expected None with operands of f16, got"),
        (
            "f4",
            {"precision": "3xtf32", "scale_a": np.ones((8, 1), F4)},
            "precision: .*with arrays of scales",
        ),
        (
            "f4",
            {"precision": "3xtf32", "schedule": "tile = (64,64,64)"},
            "schedule: expected depth 32 for precision='3xtf32', got",
        ),
    ],
)
def test_what_is_refused(dtype, options, message):
    a, b = np.zeros((8, 64), dtype), np.zeros((64, 8), dtype)
    with pytest.raises(ValueError, match=message):
        cute.gemm(a, b, arch="sm_90a", backend="emulator", **options)


def test_numbers_scale_operands():
    a, b = normals((8, 64), 1), normals((64, 8), 2)
    assert np.array_equal(
        run(a, b, "sm_80", scale_a=2.0, scale_b=0.5, alpha=4.0), 4 * run(a, b, "sm_80")
    )

"""Which plan attention takes on targets with tensor memory, and that none of them spills."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
LENGTHS = np.full(2, 900, np.int32)
OFFSETS = np.array([0, 100, 2048], np.int32)
# (head dimensions, rows, what else is given, the plan that is chosen)
FORMS = {
    "wide heads": ((128, 128), 2048, {}, "split"),
    "causal": ((128, 128), 2048, {"causal": True}, "split"),
    "a window": ((64, 64), 2048, {"causal": True, "window": (300, 0)}, "split"),
    "logarithms": ((64, 64), 2048, {"window": (30, 60), "return_lse": True}, "split"),
    "capped": ((96, 96), 2048, {"causal": True, "softcap": 9.0}, "split"),
    "latent": ((192, 128), 2048, {"causal": True}, "split"),
    "narrow": ((32, 32), 2048, {}, "split"),
    "padded": ((128, 128), 2048, {"lengths": LENGTHS, "causal": True}, "corrected"),
    "packed": ((64, 64), 2048, {"cu_seqlens": (OFFSETS, OFFSETS), "causal": True}, "corrected"),
    "widest": ((256, 256), 2048, {"causal": True}, "corrected"),
    "one wave": ((128, 128), 512, {}, "corrected"),
    "decode": ((128, 128), 1, {}, "uniform"),
}


def compiled(form, dtype):
    (d, dv), rows, options, _ = FORMS[form]
    batch = 1 if "cu_seqlens" in options else 2
    q = np.zeros((batch, 16, rows, d), dtype)
    k, v = (np.zeros((batch, 4, 2048, each), dtype) for each in (d, dv))
    return cute.compile(cute.attention, q, k, v, arch="sm_100a", backend="emulator", **options)


@pytest.mark.some(4)
@pytest.mark.parametrize("form", FORMS)
def test_the_plan_that_fits_is_chosen(form):
    text = compiled(form, BF16).stages["cute-tile"]
    assert re.findall(r"roles = (\w+)", text)[0] == FORMS[form][3]


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("form", FORMS)
def test_no_plan_spills(form, dtype):
    kernel = compiled(form, dtype)
    try:
        assert kernel.resources.spills == 0
    except cute.CompileError as error:
        if "ptxas" in str(error) and "found" in str(error):
            pytest.skip("no ptxas")
        raise


def test_what_is_given_is_kept():
    """A tile, warps or another plan are a choice of the caller's."""
    q = np.zeros((2, 16, 2048, 64), np.float16)
    for given in ("tile = (128,64)", "roles = specialized"):
        kernel = cute.compile(
            cute.attention, q, q, q, arch="sm_100a", backend="emulator", schedule=given
        )
        assert "roles = specialized" in kernel.stages["cute-tile"]

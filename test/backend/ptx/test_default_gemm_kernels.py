"""The kernels that `cute.gemm` picks by itself assemble without a spill, for every type, pair of
majors and alignment class.
"""

from __future__ import annotations

import itertools

import pytest

import cutedialect as cute
from cutedialect.backend.runtime.errors import PtxasNotFoundError

BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i8": 1, "u8": 1}
MAJORS = ("TN", "TT", "NN", "NT")
CASES = [
    (dtype, majors, align, large)
    for dtype, majors, align, large in itertools.product(
        BYTES, MAJORS, (16, 8, 4, 2, 1), (False, True)
    )
    if align >= BYTES[dtype]
]
OFTEN = {
    ("f16", "TN", 16),
    ("bf16", "NN", 16),
    ("f16", "NT", 2),
    ("f32", "TN", 16),
    ("i8", "TT", 1),
}


def _marked(case):
    dtype, majors, align, _ = case
    marks = () if (dtype, majors, align) in OFTEN else (pytest.mark.long,)
    return pytest.param(*case, marks=marks)


@pytest.mark.parametrize(("dtype", "majors", "align", "large"), [_marked(c) for c in CASES])
def test_no_spill(dtype, majors, align, large):
    extent = 8192 if large else None
    a = (None, 1) if majors[0] == "T" else (1, None)
    b = (1, None) if majors[1] == "N" else (None, 1)
    kernel = cute.compile(
        cute.gemm,
        cute.TensorSpec((extent, extent), dtype, a, align),
        cute.TensorSpec((extent, extent), dtype, b, align),
        arch="sm_90a" if large else "sm_80",
    )
    try:
        assert kernel.resources.spills == 0
    except PtxasNotFoundError as error:
        pytest.skip(str(error))

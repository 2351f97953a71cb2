"""The kernels that `cute.gemm` picks by itself assemble without a spill, for every type, pair of
majors, alignment class and kind of epilogue.
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


def operands(dtype, majors, align, extent):
    """a and b of square problems, with rows or columns that lie together."""
    a = (None, 1) if majors[0] == "T" else (1, None)
    b = (1, None) if majors[1] == "N" else (None, 1)
    shape = (extent, extent)
    return cute.TensorSpec(shape, dtype, a, align), cute.TensorSpec(shape, dtype, b, align)


def spills(*args, **options):
    kernel = cute.compile(cute.gemm, *args, **options)
    try:
        return kernel.resources.spills
    except PtxasNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.some(4)
@pytest.mark.parametrize(("dtype", "majors", "align", "large"), [_marked(c) for c in CASES])
def test_no_spill(dtype, majors, align, large):
    a, b = operands(dtype, majors, align, 8192 if large else None)
    assert spills(a, b, arch="sm_90a" if large else "sm_80") == 0


# Where every warp does everything the epilogue's own values lie beside all accumulators.
OPERANDS = {
    "sm_80": {"f16": 2, "f32": 4, "f64": 8, "i8": 1},
    "sm_86": {"bf16": 2},
    "sm_89": {"e4m3": 1},
}
RESULTS = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "i8": "f32", "e4m3": "bf16"}
RESULT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
EPILOGUES = (
    "addend",
    "addend columns",
    "addend f32",
    "scales",
    "scales addend",
    "bias relu",
    "gelu",
    "bias silu aux",
    "bias addend gelu aux",
    "bias addend gelu aux columns",
    "promoted addend",
)
BESIDE_OFTEN = {
    ("sm_80", "f16", "TN", 16, True, "bias addend gelu aux"),
    ("sm_80", "f16", "NN", 16, False, "addend"),
    ("sm_80", "f16", "NT", 2, False, "bias addend gelu aux columns"),
    ("sm_80", "f32", "TN", 16, False, "addend columns"),
    ("sm_80", "i8", "TN", 16, True, "scales addend"),
    ("sm_80", "f64", "TN", 8, False, "addend"),
    ("sm_86", "bf16", "TN", 16, True, "bias silu aux"),
    ("sm_89", "e4m3", "TN", 16, True, "bias addend gelu aux columns"),
    ("sm_89", "e4m3", "TN", 1, False, "promoted addend"),
}


def epilogues():
    """Large problems of less aligned operands get the tile of small ones."""
    for arch, dtypes in OPERANDS.items():
        for dtype, majors, align, large, kind in itertools.product(
            dtypes, MAJORS, (16, 8, 4, 2, 1), (False, True), EPILOGUES
        ):
            # No PTX instruction takes exponents of f64: its epilogues are sums here. Only sums of
            # products of 8-bit floats are promoted.
            known = kind in ("addend", "addend columns") if dtype == "f64" else True
            known &= dtype == "e4m3" or kind != "promoted addend"
            if align >= dtypes[dtype] and known and not (large and align < 16):
                case = arch, dtype, majors, align, large, kind
                marks = () if case in BESIDE_OFTEN else (pytest.mark.long,)
                yield pytest.param(*case, marks=marks)


@pytest.mark.some(4)
@pytest.mark.parametrize(("arch", "dtype", "majors", "align", "large", "kind"), list(epilogues()))
def test_no_spill_in_epilogues(arch, dtype, majors, align, large, kind):
    extent = 8192 if large else None
    words = kind.split()
    result = RESULTS[dtype]
    rows = (1, None) if "columns" in words else (None, 1)

    def matrix(name):
        return cute.TensorSpec((extent, extent), name, rows, max(align, RESULT_BYTES[name]))

    vector = cute.TensorSpec((extent,), "f32")
    options = {"out_dtype": result}
    if "addend" in words:
        # Other values of beta are the same kernel.
        options |= {"c": matrix("f32" if "f32" in words else result), "beta": 2.0, "alpha": 0.5}
    if "promoted" in words:
        options["fast_accum"] = False
    if "scales" in words:
        options |= {"scale_a": vector, "scale_b": vector}
    if "bias" in words:
        options["bias"] = cute.TensorSpec((extent,), result)
    if "aux" in words:
        options |= {"aux": matrix("f32"), "out": matrix(result)}
    for name in ("relu", "gelu", "silu"):
        if name in words:
            options["activation"] = name
    assert spills(*operands(dtype, majors, align, extent), arch=arch, **options) == 0

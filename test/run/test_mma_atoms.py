"""Every `mma.sync` atom that `cute.gemm` can be told to take, through `Schedule(atom=...)`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError, atoms

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
ARCHES = ("sm_75", "sm_80", "sm_89", "sm_90")
# One type on both sides, and sums of fp8 in f32, as cute.gemm has it.
TAKEN = [
    atom
    for atom in atoms.mma_sync()
    if atom.types[0] == atom.types[1]
    and atom.types[0] in TYPES
    and atom.thr_id.size() == 32
    and not (atom.types[0] in ("e4m3", "e5m2") and atom.types[2] == "f16")
]


def operands(dtype, majors, shape=(40, 24, 80)):
    """Integers of -2 to 2, which every type and sum holds exactly."""
    m, n, k = shape
    rng = np.random.default_rng(0)
    low = 0 if dtype == np.uint8 else -2
    a, b = (rng.integers(low, 3, extents).astype(dtype) for extents in ((m, k), (k, n)))
    a = a if majors[0] == "T" else np.asfortranarray(a)
    return a, np.asfortranarray(b) if majors[1] == "N" else b


def test_the_table_has_the_atoms_that_are_promised():
    names = {atom.name for atom in TAKEN}
    assert names >= {
        "mma_m16n8k16_f32_f16",
        "mma_m16n8k8_f32_f16",
        "mma_m16n8k16_f16_f16",
        "mma_m16n8k8_f16_f16",
        "mma_m16n8k16_f32_bf16",
        "mma_m16n8k8_f32_bf16",
        "mma_m16n8k8_f32_tf32",
        "mma_m16n8k32_s32_s8",
        "mma_m8n8k4_f64_f64",
    }


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("atom", "majors"),
    [
        pytest.param(atom, ("TN", "NT", "NN", "TT")[number % 4], id=atom.name)
        for number, atom in enumerate(TAKEN)
    ],
)
def test_gemm_takes_the_atom(atom, majors):
    arch = next(name for name in ARCHES if atom.is_legal_on(name))
    a, b = operands(TYPES[atom.types[0]], majors)
    depth = {8: 64, 16: 32, 32: 32, 64: 16}[8 * a.itemsize]
    options = {
        "arch": arch,
        "schedule": cute.Schedule(tile=(32, 32, depth), warps=(2, 2), stages=2, atom=atom.name),
        "acc_dtype": "f16" if atom.types[2] == "f16" else None,
        "backend": "emulator",
    }
    shape = "m{}n{}k{}".format(*atom.shape_mnk)
    lines = [
        line
        for line in cute.compile(cute.gemm, a, b, **options).ptx.split("\n")
        if "mma.sync" in line
    ]
    assert lines
    assert all(f".{shape}." in line for line in lines)
    got = cute.gemm(a, b, **options)
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(got.dtype)
    assert np.array_equal(got.astype(np.float64), want.astype(np.float64))


def test_an_atom_of_another_type_is_refused():
    a, b = operands(np.float16, "TN")
    with pytest.raises(CompileError, match="got mma_m16n8k8_f32_bf16 for bf16 x bf16"):
        cute.gemm(a, b, schedule="atom = mma_m16n8k8_f32_bf16", arch="sm_80", backend="emulator")


def test_a_target_whose_warps_do_not_multiply_as_one():
    a, b = operands(np.float16, "TN")
    with pytest.raises(
        CompileError, match="expected sm_75 or later to multiply f16 by f16, got sm_70"
    ):
        cute.gemm(a, b, arch="sm_70", backend="emulator")

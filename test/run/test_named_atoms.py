"""Atoms by name: `atom=` of one `cute.gemm` in a kernel, `negate=`, and the schedule's `atom`. Each
`mma.sync` of a whole warp and each kind of `wgmma` that the types of tensors reach runs in the
emulator.
"""

from __future__ import annotations

import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError, atoms
from cutedialect.atoms.wgmma_atoms import wgmma

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
SUMS = {"f16": cute.f16, "f32": cute.f32, "f64": cute.f64, "s32": cute.i32}
RESULTS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
ARCHES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a")
REACHED = [
    atom for atom in atoms.mma_sync() if atom.threads == 32 and set(atom.types[:2]) <= set(DTYPES)
]
WARPGROUP = [atom for atom in wgmma() if atom.shape_mnk[1] == 32]


@cache
def program(name, accumulator, tile, negate=None):
    bm, bn, bk = tile

    @cute.kernel
    def product(A, B, C):
        m, n = cute.tile_index(C, (bm, bn))
        gA, gB = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
        acc = cute.zeros((bm, bn), accumulator)
        for k in cute.range(gA.tiles):
            cute.gemm(gA[k], gB[k], acc, atom=name, negate=negate)
        cute.copy(acc, cute.local_tile(C, (bm, bn), (m, n)))

    return product


def operands(atom, m, n, k):
    rng = np.random.default_rng(len(atom.name))
    made = []
    for kind, shape in ((atom.types.a, (m, k)), (atom.types.b, (n, k))):
        low = 0 if kind == "u8" else -2
        made.append(rng.integers(low, 3, shape).astype(DTYPES[kind]))
    return made[0], made[1].T, np.zeros((m, n), RESULTS[atom.types.d])


def wide(x):
    return x.astype(np.float32).astype(np.float64)


def target_of(atom):
    return next(arch for arch in ARCHES if atom.is_legal_on(arch))


@pytest.mark.some(9)
@pytest.mark.parametrize("atom", REACHED, ids=lambda atom: atom.name)
def test_a_program_names_a_warp_wide_atom(atom):
    arch = target_of(atom)
    a, b, c = operands(atom, 30, 32, 3 * atom.shape_mnk[2] + 4)
    tile = (32, 32, 2 * atom.shape_mnk[2])
    run = program(atom.name, SUMS[atom.types.c], tile)
    kernel = cute.compile(run, a, b, c, arch=arch)  # pyright: ignore[reportArgumentType]
    lines = [line for line in kernel.ptx.split("\n") if "\tmma.sync" in line]
    assert lines
    assert all(line.split()[0] == atom.ptx for line in lines)
    run(a, b, c, arch=arch, backend="emulator")
    np.testing.assert_array_equal(wide(c), wide(a) @ wide(b))


@pytest.mark.some(10)
@pytest.mark.parametrize("atom", WARPGROUP, ids=lambda atom: atom.name)
def test_a_program_names_a_warpgroup_atom(atom):
    a, b, c = operands(atom, 60, 64, 2 * atom.shape_mnk[2])
    tile = (64, 64, 2 * atom.shape_mnk[2])
    run = program(atom.name, SUMS[atom.types.c], tile)
    kernel = cute.compile(run, a, b, c, arch="sm_90a")
    lines = [line for line in kernel.ptx.split("\n") if "\twgmma.mma_async" in line]
    assert lines
    assert all(line.split()[0] == atom.ptx for line in lines)
    run(a, b, c, arch="sm_90a", backend="emulator")
    np.testing.assert_array_equal(wide(c), wide(a) @ wide(b))


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_satfinite_clamps_what_wraps_without_it(arch):
    name = "mma_m8n8k16_s32_s8" if arch == "sm_75" else "wgmma_m64n32k32_s32_s8_s8"
    a, b = np.full((64, 128), -128, np.int8), np.full((32, 128), -128, np.int8).T

    @cute.kernel
    def full(A, B, C, *, atom):
        acc = cute.full((64, 32), 2**31 - 5, cute.i32)
        gA, gB = cute.local_tile(A, (64, 64), (0, None)), cute.local_tile(B, (64, 32), (None, 0))
        for k in cute.range(gA.tiles):
            cute.gemm(gA[k], gB[k], acc, atom=atom)
        m, n = cute.tile_index(C, (64, 32))
        cute.copy(acc, cute.local_tile(C, (64, 32), (m, n)))

    clamped, wrapped = np.zeros((64, 32), np.int32), np.zeros((64, 32), np.int32)
    for backend in ("emulator", "interpreter"):
        full(a, b, clamped, arch=arch, backend=backend, atom=f"{name}_satfinite")
        full(a, b, wrapped, arch=arch, backend=backend, atom=name)
        assert (clamped == 2**31 - 1).all()
        assert (wrapped == (2**31 - 5 + 128 * 128 * 128) - 2**32).all()


@pytest.mark.some(9)
@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("sm_75", "mma_m16n8k8_f32_f16"),
        ("sm_80", "mma_m16n8k16_f32_bf16"),
        ("sm_80", "mma_m16n8k8_f32_tf32"),
        ("sm_80", "mma_m8n8k4_f64_f64"),
        ("sm_89", "mma_m16n8k32_f32_e4m3"),
        ("sm_90a", "wgmma_m64n32k16_f32_f16_f16"),
        ("sm_90a", "wgmma_m64n64k32_f32_e4m3_e5m2"),
    ],
)
@pytest.mark.parametrize("negate", ["a", "b", "ab"])
def test_operands_of_the_other_sign(arch, name, negate):
    atom = atoms.mma_atom(name)
    a, b, c = operands(atom, 64, 64, 2 * atom.shape_mnk[2])
    run = program(name, SUMS[atom.types.c], (64, 64, 2 * atom.shape_mnk[2]), negate)
    kernel = cute.compile(run, a, b, c, arch=arch)
    if "wgmma" in name:
        signs = ", ".join("-1" if letter in negate else "1" for letter in "ab")
        lines = [line for line in kernel.ptx.split("\n") if "\twgmma.mma_async" in line]
        assert lines
        assert all(re.search(rf"}}, %rd\d+, %rd\d+, [p%\w]+, {signs}[,;]", each) for each in lines)
    sign = 1 if negate == "ab" else -1
    for backend in ("emulator", "interpreter"):
        c[:] = 0
        run(a, b, c, arch=arch, backend=backend)
        np.testing.assert_array_equal(wide(c), sign * (wide(a) @ wide(b)))


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_products_that_are_added_to_and_subtracted_from_one_sum(arch):
    """A product of complex numbers: tensor memory cannot subtract from what it holds."""

    @cute.kernel
    def product(A_re, A_im, B_re, B_im, C_re, C_im):
        m, n = cute.tile_index(C_re, (64, 64))
        a_re, a_im = (cute.local_tile(X, (64, 64), (m, None)) for X in (A_re, A_im))
        b_re, b_im = (cute.local_tile(X, (64, 64), (None, n)) for X in (B_re, B_im))
        re, im = cute.zeros((64, 64)), cute.zeros((64, 64))
        for k in cute.range(a_re.tiles):
            cute.gemm(a_re[k], b_re[k], re)
            cute.gemm(a_im[k], b_im[k], re, negate="a")
            cute.gemm(a_re[k], b_im[k], im)
            cute.gemm(a_im[k], b_re[k], im)
        cute.copy(re, cute.local_tile(C_re, (64, 64), (m, n)))
        cute.copy(im, cute.local_tile(C_im, (64, 64), (m, n)))

    rng = np.random.default_rng(2)
    parts = [rng.integers(-2, 3, (64, 128)).astype(np.float16) for _ in range(2)]
    parts += [rng.integers(-2, 3, (128, 64)).astype(np.float16) for _ in range(2)]
    c = [np.zeros((64, 64), np.float32) for _ in range(2)]
    product(*parts, *c, arch=arch, backend="emulator")
    a, b = (wide(parts[i]) + 1j * wide(parts[i + 1]) for i in (0, 2))
    assert np.array_equal(c[0] + 1j * c[1], a @ b)


def test_two_multiplies_of_a_kernel_take_atoms_of_their_own():
    @cute.kernel
    def two(A, B, C):
        m, n = cute.tile_index(C, (32, 32))
        gA, gB = cute.local_tile(A, (32, 32), (m, None)), cute.local_tile(B, (32, 32), (None, n))
        acc = cute.zeros((32, 32), cute.f32)
        for k in cute.range(gA.tiles):
            cute.gemm(gA[k], gB[k], acc, atom="mma_m16n8k8_f32_f16")
            cute.gemm(gA[k], gB[k], acc)
        cute.copy(acc, cute.local_tile(C, (32, 32), (m, n)))

    a, b = (np.random.default_rng(s).integers(-2, 3, (32, 64)).astype(np.float16) for s in (0, 1))
    c = np.zeros((32, 32), np.float32)
    ptx = cute.compile(two, a, b.T, c, arch="sm_80").ptx
    assert "m16n8k8.row" in ptx
    assert "m16n8k16.row" in ptx
    two(a, b.T, c, arch="sm_80", backend="emulator")
    np.testing.assert_array_equal(c, 2 * (wide(a) @ wide(b.T)))


def test_a_schedule_names_a_kind():
    a = np.full((16, 64), 3, np.int8)
    for name in (
        "mma_m16n8k32_s32_s8_satfinite",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32",
    ):
        schedule = cute.Schedule(atom=name)
        kernel = cute.compile(cute.gemm, a, a.T, arch="sm_80", schedule=schedule)
        assert atoms.mma_atom(name).ptx in kernel.ptx


def refused(name, arch, a, b, accumulator=cute.f32, negate=None):
    run = program(name, accumulator, (64, 64, 32), negate)
    specs = [cute.TensorSpec((None, None), dtype) for dtype in (a, b, accumulator)]
    with pytest.raises(CompileError) as caught:
        cute.compile(run, *specs, arch=arch)
    assert caught.value.location is not None
    assert __file__ in caught.value.location
    return caught.value.message


def test_a_volta_atom_gets_a_clear_answer():
    for arch in ("sm_70", "sm_75", "sm_80", "sm_90a"):
        message = refused("mma_m8n8k4_f32_f16", arch, cute.f16, cute.f16)
        assert "of which the four quarters of a warp compute one each (sm_70)" in message
    assert "on sm_75: mma_m16n8k8_f32_f16" in refused(
        "mma_m8n8k4_f32_f16", "sm_75", cute.f16, cute.f16
    )


@pytest.mark.parametrize(
    ("name", "arch", "types", "text"),
    [
        ("mma_m16n8k16_f32_f16", "sm_75", (cute.f16, cute.f16), "which needs sm_80+"),
        ("wgmma_m64n64k16_f32_f16_f16", "sm_80", (cute.f16, cute.f16), "which needs sm_90a"),
        ("mma_m16n8k32_s32_s8", "sm_80", (cute.f16, cute.f16), "for s8 x s8 into s32"),
        ("mma_m16n8k8_f32_fp16", "sm_80", (cute.f16, cute.f16), "did you mean mma_m16n8k8_f32_f16"),
    ],
)
def test_a_name_that_does_not_do(name, arch, types, text):
    assert text in refused(name, arch, *types)


def test_a_sign_that_cannot_change():
    message = refused("mma_m16n8k32_s32_s8", "sm_80", cute.i8, cute.i8, cute.i32, "a")
    assert message.startswith("expected negate with operands of floats, got i8 and i8; subtract")
    assert "expected 'a', 'b' or 'ab', got 'c'" in refused(
        None, "sm_80", cute.f16, cute.f16, negate="c"
    )


def test_a_sign_that_cannot_change_of_a_product_that_nobody_reads():
    """What is refused does not depend on what is left out."""

    @cute.kernel
    def run(A, B, Y):
        (i,) = cute.tile_index(Y, (64, None))[:1]
        acc = cute.zeros((64, 64), cute.i32)
        a, b = cute.local_tile(A, (64, 64), (i, 0)), cute.local_tile(B, (64, 64), (0, 0))
        cute.gemm(a, b, acc, negate="b")
        cute.copy(cute.zeros((64, 64)), cute.local_tile(Y, (64, 64), (i, 0)))

    specs = [cute.TensorSpec((None, None), dtype) for dtype in (cute.i8, cute.i8, cute.f32)]
    for arch in ("sm_90a", "sm_100a"):
        with pytest.raises(CompileError, match="got i8 and i8; subtract the sums") as caught:
            cute.compile(run, *specs, arch=arch)
        assert caught.value.location is not None


def test_outside_of_a_kernel_the_schedule_names_the_atom():
    a = np.zeros((16, 16), np.float16)
    with pytest.raises(TypeError, match="atom: expected it inside a kernel only; here take sched"):
        cute.gemm(a, a, atom="mma_m16n8k8_f32_f16")  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"negate: .* inside a kernel only; here take alpha=-1"):
        cute.gemm(a, a, negate="a")  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("roles", ["", "roles = specialized"])
@pytest.mark.parametrize(
    ("tile", "n", "divides"),
    [((64, 64, 32), 24, "wgmma_m64n64k16_f32_f16_f16"), ((32, 64, 32), 32, None)],
)
def test_an_atom_that_does_not_divide_the_tile_is_refused_with_one_that_does(
    tile, n, divides, roles
):
    args = [cute.TensorSpec((None, None), dtype) for dtype in ("f16", "f16", "f32")]
    options = {"arch": "sm_90a", "schedule": roles or None}
    name = f"wgmma_m64n{n}k16_f32_f16_f16"
    with pytest.raises(CompileError, match=f"multiples of .64, {n}, 16., got") as caught:
        cute.compile(program(name, cute.f32, tile), *args, **options)
    assert (divides is None) == ("divides it" not in str(caught.value))
    if divides is not None:
        assert f"; {divides} divides it" in str(caught.value)
        cute.compile(program(divides, cute.f32, tile), *args, **options)

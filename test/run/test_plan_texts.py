"""A role plan's name and its own text are one plan: the same PTX, or the same refusal."""

import re

import pytest

import cutedialect as cute
from cutedialect.choices import PLANS

HALVES = cute.TensorSpec((None, 64), cute.f16)
HEADS = cute.TensorSpec((1, 2, 256, 64), cute.f16)


@cute.kernel
def chained(A, B, C, Y, *, tile=(128, 64)):
    """Y = exp(A B^T) C: the second multiply takes what is computed from the first one's result."""
    rows, depth = tile
    m, _ = cute.tile_index(Y, (rows, None))
    a = cute.local_tile(A, (rows, 64), (m, 0))
    b, c = (cute.local_tile(X, (depth, 64), (None, 0)) for X in (B, C))
    y = cute.zeros((rows, 64))
    for j in cute.range(b.tiles):
        s = cute.zeros((rows, depth))
        cute.gemm(a, b[j].T, s)
        cute.gemm(cute.exp(s).to(A.dtype), c[j], y)
    cute.copy(y, cute.local_tile(Y, (rows, 64), (m, 0)))


PROGRAMS = {
    "gemm": (cute.gemm, [cute.TensorSpec((512, 512), cute.f16)] * 2),
    "chained": (chained, [*[HALVES] * 3, cute.TensorSpec((None, 64), cute.f32)]),
    "attention": (cute.attention, [HEADS] * 3),
}
# What the targets take of all: mma.sync has roles from sm_90 on, but no teams that take turns here,
# and one warp issues what tcgen05 multiplies.
TAKEN = {
    "sm_80": ["uniform"],
    "sm_89": ["uniform"],
    "sm_120a": ["uniform", "specialized", "pipelined", "shifting", "reduced", "corrected"],
    "sm_90a": [
        *("uniform", "specialized", "alternate", "pipelined", "shifting", "reduced", "corrected"),
    ],
    "sm_100a": ["uniform", "specialized", "reduced", "corrected", "split"],
}


def compiled(program, arch, roles):
    """The PTX without comments and files, or the refusal without the plan's text."""
    function, specs = PROGRAMS[program]
    try:
        kernel = cute.compile(function, *specs, arch=arch, schedule=f"roles = {roles}")
    except cute.CompileError as error:
        return re.sub(r"'(\w+|\(.*?\))'", "", str(error)), False
    return re.sub(r"//.*|\.file.*", "", kernel.ptx), True


@pytest.mark.some(2)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("arch", TAKEN)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_plan_compiles_by_its_name_as_by_its_text(program, arch, plan):
    named, is_taken = compiled(program, arch, plan)
    assert is_taken == (plan in TAKEN[arch])
    assert compiled(program, arch, f"({PLANS[plan]})") == (named, is_taken)


def test_the_text_of_the_default_plan_leaves_the_choice_of_the_tile():
    """Its name did; its text was taken for a plan that the default does not have."""
    named, is_taken = compiled("gemm", "sm_100a", "specialized")
    assert is_taken
    assert compiled("gemm", "sm_100a", f"({PLANS['specialized']})") == (named, True)


def test_a_text_that_was_refused_or_took_too_many_registers():
    """Everything was taken for roles that was not called by the name of the plan without any."""
    for plan in ("uniform", "alternate"):
        named, is_taken = compiled("gemm", "sm_90a", plan)
        assert is_taken
        assert compiled("gemm", "sm_90a", f"({PLANS[plan]})") == (named, True)

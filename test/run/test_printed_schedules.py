"""What a kernel says of its schedule is all of it: compiling with that gives the same PTX."""

import re

import pytest

import cutedialect as cute
from benchmarks.cases import CASES, EXTRAS

TABLES = [(arch, case) for arch in ("sm_80", "sm_90a", "sm_100a") for case in (*CASES, *EXTRAS)]


def text_of(kernel):
    """Without comments, lines of Python, and files."""
    return re.sub(r"//.*|\.loc.*|\.file.*", "", kernel.ptx)


@pytest.mark.some(3)
@pytest.mark.parametrize(("arch", "case"), TABLES)
def test_a_table_compiles_to_the_same_with_what_it_prints(arch, case):
    if arch == "sm_80" and case.dtype == "e4m3":
        pytest.skip("no multiplies of 8-bit floats")
    kernel = case.compiled(None, arch)
    if kernel is None:
        pytest.skip("one of a library")
    printed = cute.Schedule.parse(kernel.schedule)
    assert printed.stages is not None
    again = case.compiled(printed, arch)
    assert again.schedule == kernel.schedule
    assert text_of(again) == text_of(kernel)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_with_schedules_of_their_own_in_front(arch):
    """The schedule of the kernel that takes the call's is printed."""
    q = cute.TensorSpec((1, 2, 256, 64), "bf16")
    lse = cute.TensorSpec((1, 2, 256), "f32")

    def compiled(schedule):
        return cute.compile(
            cute.attention_backward, q, q, q, q, q, lse, causal=True, arch=arch, schedule=schedule
        )

    kernel = compiled(None)
    printed = cute.Schedule.parse(kernel.schedule)
    assert printed.tile is not None
    again = compiled(printed)
    assert again.schedule == kernel.schedule
    assert text_of(again) == text_of(kernel)

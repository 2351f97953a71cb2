"""Multiplies that begin when a part of their operand is computed."""

from __future__ import annotations

import re

import pytest

import cutedialect as cute

PACKED = "u4 -2 (2,4,2,(2,2)):(2,16,4,(1,8))"
SCHEDULE = "tile = (128,16,256), swap_ab = yes, stages = 3, overlap = yes, split_loops = yes"


def multiply_of(bits: int, group: int = 0, words: str = "") -> list[str]:
    """Lines of PTX from the wait for weights to the commit of their multiply."""
    m, n, k = 16, 512, 1024
    scale = cute.TensorSpec((k // group, n) if group else (n,), "f32")
    specs = (
        cute.TensorSpec((m, k), "bf16"),
        cute.TensorSpec((k * bits // 8, n), "u8" if bits == 4 else "i8", (1, None)),
    )
    options = {"packed_b": PACKED, "zero_b": 8} if bits == 4 else {}
    schedule = SCHEDULE.replace("256)", f"{group or 256})") + words
    kernel = cute.gemm.compile(*specs, scale_b=scale, arch="sm_90a", schedule=schedule, **options)
    lines = kernel.ptx.split("\n")
    end = next(at for at, line in enumerate(lines) if "wgmma.commit_group" in line)
    start = max(at for at, line in enumerate(lines[:end]) if "ld.shared" in line)
    return lines[start:end]


def kinds(lines: list[str]) -> str:
    """A letter for each conversion, fence and multiply, those in a row as one."""
    letters = {"fma.rn.bf16x2": "c", "wgmma.fence": "f", "wgmma.mma_async": "m"}
    found = "".join(
        letter for line in lines for word, letter in letters.items() if f"\t{word}" in line
    )
    return re.sub(r"(.)\1+", r"\1", found)


@pytest.mark.parametrize(("bits", "group", "parts"), [(4, 0, 8), (4, 128, 4), (8, 0, 8)])
def test_each_part_is_multiplied_behind_its_conversion(bits, group, parts):
    assert kinds(multiply_of(bits, group)) == "cfm" * parts


def test_a_part_has_what_it_multiplies_and_no_more():
    lines = multiply_of(4)
    known: set[str] = set()
    for line in lines:
        found = re.match(r"\t(\S+) (\{[^}]*\}|%r\d+)(.*)", line)
        if found is None:
            continue
        if found[1].startswith("wgmma.mma_async"):
            assert set(re.findall(r"%r\d+", found[3])) <= known
        else:
            known.add(found[2])
    conversions = sum("fma.rn.bf16x2" in line for line in lines)
    assert conversions == 4 * sum("wgmma.mma_async" in line for line in lines)


def test_operands_of_the_trip_before_are_multiplied_at_once():
    assert "fmf" not in kinds(multiply_of(4, words=", unroll = 2"))


def test_long_multiplies_for_scales_of_groups_begin_at_once():
    specs = cute.TensorSpec((256, 1024), "bf16"), cute.TensorSpec((512, 1024), "u8", (1, None))
    scale = cute.TensorSpec((8, 1024), "f32")
    schedule = "tile = (128,128,128), swap_ab = yes, stages = 3"
    kernel = cute.gemm.compile(
        *specs, scale_b=scale, arch="sm_90a", schedule=schedule, packed_b=PACKED, zero_b=8
    )
    lines = kernel.ptx.split("\n")
    assert kinds(lines) == "cfm"

"""The table of targets and the language of requirements."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cutedialect import atoms
from cutedialect.atoms import capability


def test_names_are_unique_and_ordered_by_architecture() -> None:
    names = atoms.targets()
    assert len(set(names)) == len(names)
    numbers = [atoms.target(name).number for name in names]
    assert numbers == sorted(numbers)
    assert {"sm_70", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"} <= set(names)


def test_unknown_target_names_the_near_ones() -> None:
    with pytest.raises(ValueError, match=r"got target 'sm_91a'; did you mean .*sm_90a"):
        atoms.target("sm_91a")
    with pytest.raises(ValueError, match="got target 'volta'"):
        atoms.legal("ret;", "volta")


@pytest.mark.parametrize(
    ("requirement", "name", "expected"),
    [
        ("sm_80+", "sm_75", False),
        ("sm_80+", "sm_80", True),
        ("sm_80+", "sm_120f", True),
        ("sm_90a", "sm_90", False),
        ("sm_90a", "sm_90a", True),
        ("sm_90a", "sm_100a", False),
        ("sm_100f", "sm_100", False),
        ("sm_100f", "sm_100a", True),
        ("sm_100f", "sm_103f", True),
        ("sm_100f", "sm_110a", False),
        ("sm_120f", "sm_121a", True),
        ("sm_90a sm_120f", "sm_120a", True),
    ],
)
def test_requirements(requirement: str, name: str, expected: bool) -> None:
    assert atoms.target(name).has(requirement) is expected
    assert (name in atoms.targets_with(requirement)) is expected


def test_limits() -> None:
    hopper = atoms.target("sm_90a")
    assert hopper.smem_per_cta == 232_448
    assert hopper.smem_per_sm - hopper.smem_per_cta == hopper.reserved_smem_per_cta == 1024
    assert (hopper.max_cluster, hopper.tmem_columns, hopper.max_warps_per_sm) == (8, 0, 64)
    assert atoms.target("sm_100a").tmem_columns == 512
    assert atoms.target("sm_120a").tmem_columns == 0
    assert atoms.target("sm_86").smem_per_cta < atoms.target("sm_80").smem_per_cta
    for name in atoms.targets():
        chip = atoms.target(name)
        assert chip.smem_per_cta <= chip.smem_per_sm
        assert chip.max_threads_per_sm % chip.warp_size == 0
        assert atoms.target(chip) is chip


def test_the_table_prints_every_atom() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "cutedialect.atoms"], capture_output=True, text=True, check=True
    )
    assert not result.stderr
    for name in (*(a.name for a in atoms.mma()), *(a.name for a in atoms.copy()), *atoms.targets()):
        assert f"| {name} |" in result.stdout


@pytest.mark.parametrize("name", capability.INSTRUCTIONS)
def test_what_kernels_do_without_is_what_legal_says(name: str) -> None:
    operands = {
        "cp.async.ca.shared.global": "[%r0], [%rd0], 4",
        capability.GATHER4: "[%r0], [%rd0, {%r0, %r1, %r2, %r3, %r4}], [%r5]",
        "max.NaN.f32": "%f0, %f1, %f2",
        "max.f16": "%rs0, %rs1, %rs2",
        "fma.rn.bf16": "%rs0, %rs1, %rs2, %rs3",
        "cvt.rn.bf16.f32": "%rs0, %f0",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.NaN.f32": "{%f0, %f1}, %f2, [%r0]",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0": (
            "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%f0, %f1, %f2, %f3}, "
            "%r0, {0, 0}, %r0, {0, 0}"
        ),
    }.get(name, "%r0, %f0, %f1")
    here = [each for each in atoms.targets() if atoms.legal(f"{name} {operands};", each)]
    assert here == [each for each in atoms.targets() if atoms.target(each).has_instruction(name)]
    assert here

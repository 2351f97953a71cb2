"""What the assemblers make of kernels for sm_100a and its relatives: no warning, no spill, and the
instructions of the tensor core that the kernels are written for. The ptxas of each CUDA that is
found takes its turn: put that of 12.9 first in PATH for its answer.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas

E4M3, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
TARGETS = ("sm_100a", "sm_100f", "sm_103a")
# (element of A and B, of the result), the multiply in machine code
MULTIPLIES = {
    "f16": (np.float16, "f16", "UTCHMMA"),
    "bf16": (BF16, "bf16", "UTCHMMA"),
    "tf32": (np.float32, "f32", "UTCHMMA"),
    "f8": (E4M3, "f16", "UTCQMMA"),
    "i8": (np.int8, "i32", "UTCIMMA"),
}
MOVES = ("UTMALDG", "LDTM", "UTCBAR")
SCHEDULES = {
    "one CTA": "cluster = (1,1)",
    "a pair": "cluster = (2,1)",
    "pairs that multicast": "cluster = (4,2)",
    "parts of the depth": "split_k = 2",
}
ATTENTION = {
    "full": (64, {}),
    "causal": (128, {"causal": True}),
    "a window": (64, {"causal": True, "window": (100, 0)}),
}


@cache
def gemm(kind, arch, schedule):
    dtype, out, _ = MULTIPLIES[kind]
    a, b = np.zeros((1024, 512), dtype), np.zeros((1024, 512), dtype).T
    depth = 128 // np.dtype(dtype).itemsize
    schedule = f"tile = (128,128,{depth}), {schedule}"
    options = {"arch": arch, "backend": "emulator", "schedule": schedule, "out_dtype": out}
    return cute.compile(cute.gemm, a, b, **options).ptx


@cache
def attention(name, arch):
    dim, masks = ATTENTION[name]
    q = np.zeros((2, 8, 1024, dim), BF16)
    return cute.compile(cute.attention, q, q, q, arch=arch, backend="emulator", **masks).ptx


def version(path):
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = re.findall(r"release (\d+)\.(\d+)", told)[0]
    return int(major), int(minor)


def assemblers():
    """The newest ptxas of each CUDA from 12.9 on, by its release."""
    found = sorted((version(path), path) for path in ptxas.candidates())
    of_major = {release[0]: (release, path) for release, path in found if release >= (12, 9)}
    return {f"{a}.{b}": path for (a, b), path in of_major.values()}


def assembled(text, arch, path, monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_PTXAS", str(path))
    assembly = ptxas.assemble(text, arch, strict=True)
    assert assembly.spill_stores == assembly.spill_loads == 0
    assert assembly.messages == ()
    return assembly


def shown(cubin, path, tmp_path):
    # That of a newer release reads what an older assembler has written.
    paths = [path, *(each for each in ptxas.candidates() if version(each) >= version(path))]
    found = [tool for each in paths if (tool := each.with_name("nvdisasm")).exists()]
    if not found:
        pytest.skip("needs nvdisasm beside ptxas")
    (tmp_path / "kernel.cubin").write_bytes(cubin)
    command = [found[0], "-c", tmp_path / "kernel.cubin"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


RELEASES = assemblers()


@pytest.mark.parametrize("release", ["12.9", "13"])
def test_an_assembler_of_each_release_is_asked(release):
    if not any(each.startswith(release) for each in RELEASES):
        pytest.skip(f"needs ptxas {release}")


@pytest.mark.some(2)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", MULTIPLIES)
def test_kinds_of_multiply(kind, release, monkeypatch, tmp_path):
    path, name = RELEASES[release], MULTIPLIES[kind][2]
    cubins = [
        assembled(gemm(kind, "sm_100a", schedule), "sm_100a", path, monkeypatch).cubin
        for schedule in ("cluster = (1,1)", "cluster = (2,1)")
    ]
    for cubin, suffix in zip(cubins, ("", ".2CTA"), strict=True):
        text = shown(cubin, path, tmp_path)
        assert name + suffix in text
        assert all(move in text for move in MOVES)


# What an instruction waits for, besides its operands: phases of mbarriers, groups, other warps, all
# that was written before; and what brings a register to the uniform ones, which waits for it.
_WAITS = re.compile(r"SYNCS\.PHASECHK|DEPBAR|\bBAR\.|MEMBAR|FENCE|WARPSYNC|CGABAR|NANOSLEEP|ERRBAR")


def instructions(text):
    """(label, names of instructions with their modifiers) of each block of machine code."""
    blocks, label = [], ""
    for line in text.splitlines():
        if named := re.match(r"\s*(\.L_\w+):", line):
            label = named[1]
            blocks.append((label, []))
        elif found := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            if not blocks:
                blocks.append((label, []))
            blocks[-1][1].append(found[1])
    return blocks


def innermost_loops(text):
    """The instructions of every loop that holds no other one: from a label to the jump back to it,
    less what is behind an unlikely jump.
    """
    blocks = instructions(text)
    at = {label: number for number, (label, _) in enumerate(blocks)}
    spans = set()
    for number, (_, names) in enumerate(blocks):
        for name in names:
            to = re.search(r"BRA.*`\((\.L_\w+)\)", name)
            if to and at[to[1]] <= number:
                spans.add((at[to[1]], number))
    inner = [
        (first, last)
        for first, last in spans
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in spans)
    ]
    return [[each for _, names in blocks[a : b + 1] for each in names] for a, b in sorted(inner)]


def waits(names):
    return [name for name in names if _WAITS.search(name)]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("cluster", ["(1,1)", "(2,1)", "(4,2)"])
@pytest.mark.parametrize("kind", MULTIPLIES)
@pytest.mark.some(1)
def test_main_loops_wait_for_stages_alone(kind, cluster, release, monkeypatch, tmp_path):
    """A trip that multiplies waits for the stage that it reads, once, then issues its multiplies
    and the commit with nothing between that waits; one that loads waits for the stage it fills.
    """
    path, unit = RELEASES[release], MULTIPLIES[kind][2]
    kernel = gemm(kind, "sm_100a", f"cluster = {cluster}")
    text = shown(assembled(kernel, "sm_100a", path, monkeypatch).cubin, path, tmp_path)
    loops = innermost_loops(text)
    (multiplying,) = [names for names in loops if any(unit in name for name in names)]
    assert len(waits(multiplying)) == 1
    assert "TRYWAIT" in waits(multiplying)[0]
    units = [at for at, name in enumerate(multiplying) if unit in name or "UTCBAR" in name]
    assert len(units) == 5
    assert "UTCBAR" in multiplying[units[-1]]
    between = multiplying[units[0] : units[-1]]
    assert not any(re.match(r"@?\S*\s*(R2UR|S2UR|LD|BRA|ATOM)", name) for name in between)
    (loading,) = [names for names in loops if any("UTMALDG" in name for name in names)]
    assert len(waits(loading)) == 1
    assert "TRYWAIT" in waits(loading)[0]


@pytest.mark.parametrize("release", RELEASES)
def test_results_leave_tensor_memory_in_lines(release, monkeypatch, tmp_path):
    """All loads of a line of 64 columns are issued before the first of its numbers is used, and the
    stage goes back to the role that multiplies before the last line is stored.
    """
    path = RELEASES[release]
    kernel = gemm("bf16", "sm_100a", "cluster = (1,1)")
    text = shown(assembled(kernel, "sm_100a", path, monkeypatch).cubin, path, tmp_path)
    names = [name for _, names in instructions(text) for name in names]
    loads = [at for at, name in enumerate(names) if "LDTM" in name]
    stores = [at for at, name in enumerate(names) if "STSM" in name]
    released = [at for at, name in enumerate(names) if "SYNCS.ARRIVE" in name and at > loads[-1]]
    # 128 columns are two lines, and a warp has two times 16 lanes.
    assert len(loads) == 4
    assert all("16dp256bit.x8" in names[at] for at in loads)
    for first, second in (loads[:2], loads[2:]):
        assert not any("STSM" in name or "F2FP" in name for name in names[first:second])
    assert loads[1] < stores[0] < loads[2] < stores[-1]
    assert released[0] < stores[len(stores) // 2]


@pytest.mark.some(6)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_and_targets(schedule, arch, release, monkeypatch):
    text = gemm("bf16", arch, SCHEDULES[schedule])
    assert "tcgen05.mma" in text
    assembled(text, arch, RELEASES[release], monkeypatch)


@pytest.mark.some(1)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "arch"), [*((name, "sm_100a") for name in ATTENTION), ("causal", "sm_103a")]
)
def test_attention(name, arch, release, monkeypatch, tmp_path):
    path = RELEASES[release]
    text = shown(assembled(attention(name, arch), arch, path, monkeypatch).cubin, path, tmp_path)
    assert "UTCHMMA" in text
    assert not re.search(r"\bHMMA\b", text), "mma.sync"

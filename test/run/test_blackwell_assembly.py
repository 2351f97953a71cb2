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
    disassembler = path.with_name("nvdisasm")
    if not disassembler.exists():
        pytest.skip("needs nvdisasm beside ptxas")
    (tmp_path / "kernel.cubin").write_bytes(cubin)
    command = [disassembler, "-c", tmp_path / "kernel.cubin"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


RELEASES = assemblers()


@pytest.mark.parametrize("release", ["12.9", "13"])
def test_an_assembler_of_each_release_is_asked(release):
    if not any(each.startswith(release) for each in RELEASES):
        pytest.skip(f"needs ptxas {release}")


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


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_and_targets(schedule, arch, release, monkeypatch):
    text = gemm("bf16", arch, SCHEDULES[schedule])
    assert "tcgen05.mma" in text
    assembled(text, arch, RELEASES[release], monkeypatch)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "arch"), [*((name, "sm_100a") for name in ATTENTION), ("causal", "sm_103a")]
)
def test_attention(name, arch, release, monkeypatch, tmp_path):
    path = RELEASES[release]
    text = shown(assembled(attention(name, arch), arch, path, monkeypatch).cubin, path, tmp_path)
    assert "UTCHMMA" in text
    assert not re.search(r"\bHMMA\b", text), "mma.sync"

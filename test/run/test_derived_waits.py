"""What `cute-synchronize` derives within one role is all needed: of each kind of wait, without any
one the emulator names a fault, or the numbers are wrong.
"""

import contextlib
import re

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float16)


@cute.kernel
def multistage(A, B, Y):
    m, n = cute.tile_index(Y, (64, 64))
    acc = cute.zeros((64, 64), cute.f32)
    a, b = cute.local_tile(A, (64, 32), (m, None)), cute.local_tile(B, (32, 64), (None, n))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(Y, (64, 64), (m, n)))


@cute.kernel
def in_a_row(A, B, Y):
    m, n = cute.tile_index(Y, (64, 64))
    acc = cute.zeros((64, 64), cute.f32)
    for k in range(2):
        a = cute.local_tile(A, (64, 32), (m, k))
        cute.gemm(a, cute.local_tile(B, (32, 64), (k, n)), acc)
    cute.copy(acc, cute.local_tile(Y, (64, 64), (m, n)))


@cute.kernel
def from_registers(A, B, C, Y):
    """Y = C relu(A B): B of the second product goes to shared memory."""
    m, n = cute.tile_index(Y, (64, 64))
    first, second = cute.zeros((64, 64), cute.f32), cute.zeros((64, 64), cute.f32)
    cute.gemm(cute.local_tile(A, (64, 32), (0, 0)), cute.local_tile(B, (32, 64), (0, n)), first)
    cute.gemm(cute.local_tile(C, (64, 64), (m, 0)), cute.relu(first).to(A.dtype), second)
    cute.copy(second, cute.local_tile(Y, (64, 64), (m, n)))


@cute.kernel
def met_between(A, B, R, Y):
    """Sums go to other threads between the write of B and its multiply, and between the multiply
    and the wait for it: what that meets behind is neither fenced nor read.
    """
    y = cute.zeros((128, 32))
    for t in cute.range(2):
        a, r = (cute.local_tile(each, (128, 64), (t, 0)).load() for each in (A, R))
        b = cute.local_tile(B, (64, 32), (t, 0)).load() * 1.0
        factors = cute.row_sum(r)
        product = cute.zeros((128, 32))
        cute.gemm((a * factors).to(B.dtype), b, product)
        y += product + cute.row_sum(r * 2.0)
    cute.copy(y, cute.local_tile(Y, (128, 32), (0, 0)))


def run_multistage(arch):
    a, b, y = integers(64, 320), integers(320, 64), np.zeros((64, 64), np.float32)
    multistage(a, b, y, arch=arch, backend="emulator")
    return y, a.astype(np.float64) @ b


def run_in_a_row(arch):
    a, b, y = integers(64, 64), integers(64, 64), np.zeros((64, 64), np.float32)
    in_a_row(a, b, y, arch=arch, backend="emulator")
    return y, a.astype(np.float64) @ b


def run_from_registers(arch):
    a, b, c = integers(64, 32), integers(32, 64), integers(64, 64)
    y = np.zeros((64, 64), np.float32)
    from_registers(a, b, c, y, arch=arch, backend="emulator")
    return y, c.astype(np.float64) @ np.maximum(a.astype(np.float64) @ b, 0)


def run_met_between(arch):
    # Rows of an odd number of elements: threads load them where they are used.
    a, b = integers(256, 65)[:, :64], integers(128, 33)[:, :32]
    r, y = integers(256, 64).astype(np.float32), np.zeros((128, 32), np.float32)
    met_between(a, b, r, y, arch=arch, backend="emulator")
    exact = 0
    for t in range(2):
        rows, sums = slice(128 * t, 128 * t + 128), r[128 * t : 128 * t + 128].sum(1, keepdims=True)
        exact += (a[rows] * sums).astype(np.float64) @ b[64 * t : 64 * t + 64] + 2 * sums
    return y, exact


# (program, target, instruction, how many of them there are at least)
KINDS = [
    (run_multistage, "sm_80", r"cp\.async\.wait_group \d+;", 2),
    (run_multistage, "sm_80", r"cp\.async\.commit_group;", 2),
    (run_in_a_row, "sm_80", r"cp\.async\.wait_group \d+;", 1),
    (run_from_registers, "sm_90a", r"fence\.proxy\.async[.:\w]*;", 1),
    (run_met_between, "sm_90a", r"fence\.proxy\.async[.:\w]*;", 2),
    (run_met_between, "sm_90a", r"bar\.sync 1, 256;", 1),
    (run_from_registers, "sm_90a", r"wgmma\.wait_group\.sync\.aligned \d;", 2),
]


@pytest.mark.parametrize(
    ("program", "arch"), sorted({(run, arch) for run, arch, *_ in KINDS}, key=str)
)
def test_the_programs_are_right(program, arch):
    found, exact = program(arch)
    assert np.array_equal(found, exact)


@pytest.mark.parametrize(("program", "arch", "pattern", "least"), KINDS)
def test_each_wait_is_needed(monkeypatch, program, arch, pattern, least):
    """Every instruction of a kind is taken out, one at a time."""
    original = emulator.launch
    number, count = 0, least

    def launch(ptx, *arguments):
        nonlocal count
        places = list(re.finditer(pattern, ptx))
        count = len(places)
        taken = places[number]
        return original(ptx[: taken.start()] + ptx[taken.end() :], *arguments)

    monkeypatch.setattr(emulator, "launch", launch)
    while number < count:
        with contextlib.suppress(emulator.EmulatorError):
            found, exact = program(arch)
            assert not np.array_equal(found, exact), f"number {number} of {pattern}"
        number += 1
    assert count >= least

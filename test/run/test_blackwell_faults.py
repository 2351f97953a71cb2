"""Programs for sm_100a from whose synchronized IR one op is missing: each wait, arrival, fence and
commit that `cute-synchronize` derives is needed, and the emulator names a line of the program.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.emulator import EmulatorError
from cutedialect.passes.synchronize.synchronize import SynchronizePass

KINDS = (
    "pipeline.producer_acquire",
    "pipeline.producer_commit",
    "pipeline.consumer_wait",
    "pipeline.consumer_release",
    "cute_nvgpu.fence_proxy_async",
)
# What may be too early only where a ring goes round more often than its stages.
ROUNDS = 5
# Work items of which a CTA of the emulated device has several.
ITEMS = 9


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float16)


def product():
    """(call, result, what it should be) of a multiply whose work items share a CTA."""

    @cute.kernel
    def kernel(A, B, Y):
        m, n = cute.tile_index(Y, (128, 64))
        a, b = cute.local_tile(A, (128, 64), (m, None)), cute.local_tile(B, (64, 64), (None, n))
        acc = cute.zeros((128, 64), cute.f32)
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(Y, (128, 64), (m, n)))

    a, b = integers(128 * ROUNDS, 128), integers(128, 320)
    y = np.zeros((128 * ROUNDS, 320), np.float32)
    return kernel, (a, b, y), y, a.astype(np.float64) @ b


def pair():
    """The same by two CTAs together."""
    return product()


def chain(columns=64):
    """The sum of (A[j] B[j]) C[j], halved from block to block, of so many columns."""

    @cute.kernel
    def kernel(A, B, C, Y):
        m, n = cute.tile_index(Y, (128, 64))
        a = cute.local_tile(A, (128, 64), (m, None))
        b, c = cute.local_tile(B, (64, 64), (0, None)), cute.local_tile(C, (64, 64), (None, n))
        out = cute.zeros((128, 64), cute.f32)
        for j in cute.range(c.tiles):
            mid = cute.zeros((128, 64), cute.f32)
            cute.gemm(a[j], b[j], mid)
            out.assign(out * 0.5)
            cute.gemm(mid.to(A.dtype), c[j], out)
        cute.copy(out, cute.local_tile(Y, (128, 64), (m, n)))

    a, b, c = (
        integers(*shape)
        for shape in ((128, 64 * ROUNDS), (64, 64 * ROUNDS), (64 * ROUNDS, columns))
    )
    y = np.zeros((128, columns), np.float32)
    want = np.zeros((128, columns))
    for j in range(ROUNDS):
        part = slice(64 * j, 64 * j + 64)
        want = want * 0.5 + (a[:, part].astype(np.float64) @ b[:, part]) @ c[part]
    return kernel, (a, b, c, y), y, want


# What results of 16 bits may be off by; integers are exact.
CLOSE = 2e-3
LOG2E = np.log2(np.e)


def halves(rows=2304, keys=320, block=64, depth=32):
    """Attention by two roles that share the rows of a tile, with several tiles for a CTA."""
    scale = float(LOG2E / np.sqrt(depth))

    @cute.kernel
    def kernel(Q, K, V, Y):
        i, _ = cute.tile_index(Y, (256, None))
        q = cute.local_tile(Q, (256, depth), (i, 0))
        k, v = (cute.local_tile(X, (block, depth), (None, 0)) for X in (K, V))
        y, total = cute.zeros((256, depth)), cute.zeros((256, 1))
        m = cute.full((256, 1), -1e30)
        for j in cute.range(k.tiles):
            s = cute.zeros((256, block))
            cute.gemm(q, k[j].T, s)
            new = cute.maximum(m, cute.row_max(s) * scale)
            r, p = cute.exp2(m - new), cute.exp2(s * scale - new)
            total.assign(total * r + cute.row_sum(p))
            y.assign(y * r)
            cute.gemm(p.to(V.dtype), v[j], y)
            m.assign(new)
        cute.copy((y / total).to(Y.dtype), cute.local_tile(Y, (256, depth), (i, 0)))

    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, depth)).astype(np.float16) for n in (rows, keys, keys))
    y = np.zeros((rows, depth), np.float16)
    s = q.astype(np.float64) @ k.T / np.sqrt(depth)
    p = np.exp(s - s.max(1)[:, None])
    return kernel, (q, k, v, y), y, p @ v / p.sum(1)[:, None]


def overlaid():
    """The same with an operand over the scores, in one stage, and exponentials in turns."""
    return halves(keys=640, block=128)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")


def does_something(op, kinds=KINDS):
    """Whether a verb of a ring has an instruction: TMA itself says that it has filled a stage."""
    if op.name not in kinds:
        return False
    is_said = op.name == "pipeline.producer_commit" and op.ring.owner.kind.data == "tma"
    return not is_said


def is_covered(op, program):
    """Whether other edges order what an op does, which the emulator's clocks prove: in a chain,
    whoever fills a ring of what is computed has waited for the one who reads it, by what that one
    computed next; and what tells that scores are there is a commit behind the multiplies into the
    accumulator that is to be corrected. What a role hands over once an item, behind a loop of
    several trips, was read before the one who reads it took part in the next item's trips. Where
    two roles update a buffer of one stage in turn, nothing else does.
    """
    is_acquire = op.name == "pipeline.producer_acquire"
    is_loaded = is_acquire and op.ring.owner.kind.data == "tma"
    if is_unneeded(op):
        return True
    if program is overlaid and is_acquire and op.ring.owner.kind.data == "tmem":
        return True
    if program in (halves, overlaid) and is_acquire and op.ring.owner.kind.data == "threads":
        loops = [each for each in op.parent.ops if each.name == "scf.for"]
        if any(loop.is_before_in_block(op) for loop in loops):
            return True
    is_chain = program in (chain, corrected, halves, overlaid)
    return is_chain and is_acquire and not is_loaded and op.ring.type.data > 1


def is_unneeded(op):
    """Whether nothing wrong comes of it that an op is missing: a role waits for its turn, which
    protects no buffer, or moves on in a ring of one stage on which it never waits.
    """
    if op.name not in ("pipeline.producer_acquire", "pipeline.consumer_wait", "pipeline.advance"):
        return False
    used = [use.operation for use in op.state.uses]
    if op.name == "pipeline.advance":
        waits = any("wait" in each.name or "acquire" in each.name for each in used)
        return op.state.type.data == 1 and not waits
    is_indexed = any(each.name == "pipeline.index" for each in used)
    return op.ring.owner.kind.data == "threads" and not is_indexed


SPLIT = "stages = 2, roles = split, warps = (4,1)"
SCHEDULES = {
    pair: "stages = 2, cluster = (2,1)",
    halves: SPLIT,
    overlaid: f"{SPLIT}, overlap = turns",
}


def run(program, monkeypatch, number=None, schedule=None, kinds=KINDS):
    """(name, line, whether it is covered) of each op that is derived, whether the result is right,
    and the error that there was, with op `number` of them left out.
    """
    original, seen = SynchronizePass.apply, []

    def apply(self, ctx, module):
        original(self, ctx, module)
        found = [op for op in module.walk() if does_something(op, kinds)]
        seen.extend((op.name, line_of(op), is_covered(op, program)) for op in found)
        if number is not None and number < len(found):
            found[number].detach()
            found[number].erase()

    kernel, args, result, want = program()
    schedule = schedule or SCHEDULES.get(program, "stages = 2")
    with monkeypatch.context() as patch:
        patch.setattr(SynchronizePass, "apply", apply)
        try:
            kernel(*args, arch="sm_100a", backend="emulator", schedule=schedule, protocol="warn")
        except EmulatorError as error:
            return seen, False, error
    return seen, np.abs(result - want).max() < CLOSE, None


def line_of(op):
    """The line of this file that an op was traced from."""
    return int(op.location.line.data)


@pytest.mark.parametrize("program", [product, pytest.param(pair, marks=pytest.mark.long), chain])
@pytest.mark.unproved
def test_each_op_that_is_derived_is_needed(program, monkeypatch):
    """A fault names the line of what it disturbs, a hang all lines at which threads wait."""
    seen, is_right, error = run(program, monkeypatch)
    assert is_right, error
    assert Counter(name for name, *_ in seen)["pipeline.consumer_wait"] >= 2
    lines = {line for _, line, _ in seen}
    for number, (name, line, covered) in enumerate(seen):
        if covered:
            continue
        _, is_right, error = run(program, monkeypatch, number)
        assert error is not None, (name, line)
        told = {int(each) for each in re.findall(rf"{Path(__file__).name}:(\d+)", str(error))}
        assert told & lines, (name, line, error)


def corrected():
    """The same where a CTA has several tiles."""
    return chain(64 * ITEMS)


@pytest.mark.long
@pytest.mark.unproved
def test_each_op_of_a_correction_is_needed(monkeypatch):
    """Multiplies and corrections of an accumulator in tensor memory take turns."""
    schedule = "stages = 2, roles = corrected, warps = (4,1)"
    seen, is_right, error = run(corrected, monkeypatch, schedule=schedule)
    assert is_right, error
    missed = []
    for number, (name, line, covered) in enumerate(seen):
        _, _, error = run(corrected, monkeypatch, number, schedule)
        if error is None and not covered:
            missed.append((number, name, line))
    assert not missed


# What the emulator is to notice of sixteen warps: that a role's place in a ring moves on, too.
MORE_KINDS = (*KINDS, "pipeline.advance")
PARTS = 60


@pytest.mark.some(1)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("program", [halves, overlaid])
@pytest.mark.unproved
def test_each_op_of_sixteen_warps_is_needed(program, part, monkeypatch):
    """Of all that are derived, every sixtieth is left out, one at a time."""
    number, count, missed = part, part + 1, []
    while number < count:
        seen, is_right, error = run(program, monkeypatch, number, kinds=MORE_KINDS)
        count = len(seen)
        if number < count and is_right and error is None and not seen[number][2]:
            missed.append((number, *seen[number]))
        number += PARTS
    assert not missed

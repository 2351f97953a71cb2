"""Bank conflicts of staged operands: what the layouts predict is what the emulator counts.

As compiled there are none. With the swizzles taken out of the IR by hand, there are as many as the
algebra says.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import cutedialect as cute
from cutedialect.backend.ptx import ptx_text
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import CopyOp, FragmentType, MemRefType, SubviewOp
from cutedialect.dialects.cute_nvgpu import LdsmType, SimtAsyncCopyType
from cutedialect.layout import bank_conflicts
from cutedialect.passes.analysis.thread_layouts import copied
from cutedialect.passes.cute_to_ptx import pipeline

SCHEDULE = "tile = (128,128,32), warps = (2,2), stages = 3"
K = 128


def partitioned(majors, swizzled):
    """The module after cute-partition, perhaps with its swizzles removed, and its operands."""
    a = np.ones((128, K), np.float16) if majors[0] == "T" else np.ones((K, 128), np.float16).T
    b = np.ones((128, K), np.float16).T if majors[1] == "N" else np.ones((K, 128), np.float16)
    kernel = cute.compile(cute.gemm, a, b, schedule=SCHEDULE, arch="sm_80", backend="emulator")
    text = kernel.stages["cute-partition"]
    if not swizzled:
        text, count = re.subn(r"S<\d,4,3>, ", "", text)
        assert count
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return Parser(context, text).parse_module(), a, b


def emulated(module, a, b):
    """(conflicts, minimum) of the cp.async lines and of the ldmatrix lines."""
    steps = pipeline("sm_80")
    names = [step.name for step in steps]
    for step in steps[names.index("cute-partition") + 1 :]:
        step.apply(Context(), module)
    ptx = ptx_text(module)
    kernel = Kernel(CompiledProgram.of("gemm", "sm_80", ptx, module), backend="emulator")
    out = np.empty((128, 128), np.float16)
    kernel.launch(a, b, out, np.float32(1))
    assert np.all(out == K)
    lines = ptx.splitlines()
    totals = {"cp.async": [0, 0], "ldmatrix": [0, 0]}
    for report in kernel.reports:
        for line, access in report.shared.items():
            for kind, total in totals.items():
                if kind in lines[line - 1]:
                    total[0] += access.conflicts
                    total[1] += access.minimum
    return totals


def address(view, offset):
    """Byte address in shared memory of an element offset."""
    swizzle = view.swizzle
    return offset * 2 if swizzle is None else swizzle(offset * 2)


def predicted(module):
    """The same figures for one execution of each copy, by every warp, from the layouts alone."""
    totals = {"cp.async": [0, 0], "ldmatrix": [0, 0]}

    def count(kind, addresses):
        access = bank_conflicts(addresses, 16)
        totals[kind][0] += access.conflicts
        totals[kind][1] += access.minimum

    for op in module.walk():
        if not isinstance(op, CopyOp):
            continue
        if isinstance(op.atom, SimtAsyncCopyType):
            view = op.destination.type
            offsets = view.layout.offsets()
            assert op.tiled is not None
            tv = copied(op.tiled.data, view.shape)
            threads, values = (tv[mode].offsets() for mode in (0, 1))
            for warp in range(0, 128, 32):
                for value in values[::8]:
                    lanes = [offsets[t + value] for t in threads[warp : warp + 32]]
                    count("cp.async", [address(view, lane) for lane in lanes])
        elif isinstance(op.atom, LdsmType):
            view, fragment = op.source.type, op.destination.type
            assert isinstance(view, MemRefType)
            assert isinstance(fragment, FragmentType)
            assert fragment.tv is not None
            sub = op.source.owner
            assert isinstance(sub, SubviewOp)
            start = sub.source.type.layout(tuple(sub.origin.get_values()))
            offsets = view.layout.offsets()
            threads, values = (fragment.tv[mode].offsets() for mode in (0, 1))
            for warp in range(0, 128, 32):
                for register in range(0, len(values), 2):
                    rows = []
                    for row in range(8):
                        lane, half = (row >> 1, row & 1) if op.atom.transpose else (4 * row, 0)
                        rows.append(threads[warp + lane] + values[register + half])
                    count("ldmatrix", [address(view, offsets[r] + start) for r in rows])
    return totals


@pytest.mark.some(2)
@pytest.mark.parametrize("majors", ["TN", "TT", "NN", "NT"])
def test_compiled_layouts_have_none(majors):
    module, a, b = partitioned(majors, swizzled=True)
    forecast = predicted(module)
    assert [conflicts for conflicts, _ in forecast.values()] == [0, 0]
    assert [conflicts for conflicts, _ in emulated(module, a, b).values()] == [0, 0]


@pytest.mark.parametrize("majors", ["TN", "TT", "NN", "NT"])
def test_without_swizzles_as_many_as_predicted(majors):
    module, a, b = partitioned(majors, swizzled=False)
    forecast, counted = predicted(module), emulated(module, a, b)
    for kind in forecast:
        # The emulator runs each copy many times, so the shares are what has to agree.
        assert counted[kind][0] * forecast[kind][1] == forecast[kind][0] * counted[kind][1]
    assert forecast["ldmatrix"][0] > 0


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_results_through_shared_memory_have_no_conflicts(arch, is_transposed):
    """`epilogue = smem` writes pairs and reads vectors of 16 bytes."""
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (128, 64)).astype(np.float16)
    b = rng.integers(-2, 3, (64, 128)).astype(np.float16)
    out = np.zeros((128, 128), np.float16)
    out = out.T if is_transposed else out
    schedule = SCHEDULE.replace("stages = 3", "stages = 2, epilogue = smem")
    kernel = cute.compile(
        cute.gemm, a, b, out=out, schedule=schedule, arch=arch, backend="emulator"
    )
    kernel.launch(a, b, out, np.float32(1))
    assert np.array_equal(out, (a.astype(np.float64) @ b).astype(np.float16))
    lines = kernel.ptx.splitlines()
    stage = kernel.ptx.count("ldmatrix") and max(
        at for at, line in enumerate(lines) if "mma.sync" in line
    )
    exchanged = [
        (lines[line - 1].split()[0], access)
        for report in kernel.reports
        for line, access in report.shared.items()
        if line > stage
    ]
    assert exchanged
    assert all(access.wavefronts == access.minimum for _, access in exchanged)
    if not is_transposed:
        assert {name for name, _ in exchanged} == {"st.shared.b32", "ld.shared.v4.b32"}


def test_rows_of_sums_that_a_swizzle_moves_onto_each_other_are_stored_in_turns():
    """Pairs of f32 of four lanes fill 32 bytes of a row, of which blocks of 16 move."""

    @cute.kernel
    def kernel(A, B, C, D):
        n = cute.tile_index(C, (128,))
        a, b = cute.local_tile(A, (64, 32), (0, 0)), cute.local_tile(B, (32, 128), (0, n))
        for m in cute.range(2):
            acc = cute.zeros((64, 128), cute.f32)
            cute.gemm(a, b, acc)
            cute.atomic_add(acc, cute.local_tile(D, (64, 128), (m, n)))

    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, (64, 32)).astype(np.float16)
    b = np.asfortranarray(rng.integers(-3, 4, (32, 128)).astype(np.float16))
    d = np.zeros((128, 128), np.float32)
    compiled = cute.compile(
        kernel, a, b, d[0], d, arch="sm_90a", backend="emulator", schedule="epilogue = tma"
    )
    compiled.launch(a, b, d[0], d)
    assert np.array_equal(d, np.vstack([a.astype(np.float32) @ b.astype(np.float32)] * 2))
    lines = compiled.ptx.splitlines()
    stores = [
        access
        for report in compiled.reports
        for line, access in report.shared.items()
        if "st.shared.v2.b32" in lines[line - 1]
    ]
    assert stores
    assert sum(access.conflicts for access in stores) == 0
    assert any("selp.f32" in line for line in lines)

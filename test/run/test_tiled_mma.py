"""A TiledMMA that a schedule or a program names: right, bound as the algebra says, without bank
conflicts.
"""

import re

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import LayoutError, Schedule, ScheduleError, TiledMma
from cutedialect.layout import Layout, composition, parse_layout
from cutedialect.passes.analysis.thread_layouts import modes_of, tv_layout

F16 = "mma_m16n8k16_f32_f16"
F64 = "mma_m8n8k4_f64_f64"
WARPS = "warps = (2,2)"
# Two TiledMMAs of CUTLASS's documentation and tests, and others that differ from the default.
NAMED = {
    "interleaved": (TiledMma(F16, (2, 2, 1), (32, "(8,2,2):(1,16,8)", 16)), np.float16),
    "plain": (TiledMma(F16, (2, 2, 1), (32, 32, 16)), np.float16),
    "f64": (TiledMma(F64, (1, 1, 1), (8, "(2,4,2):(1,4,2)", 8)), np.float64),
    "rows first": (TiledMma(F16, "(2,2,1):(2,1,1)"), np.float16),
    "rows interleaved": (TiledMma(F16, (2, 1, 1), ("(8,2,4):(1,32,8)", 16, 16)), np.float16),
}


def compiled(mma, dtype, arch="sm_80", **more):
    a = np.zeros((64, 32), dtype)
    schedule = Schedule(tile=(64, 64, 32), mma=mma, **more)
    return cute.compile(cute.gemm, a, a.T, schedule=schedule, arch=arch, backend="emulator")


def run(kernel, a, b, dtype):
    out = np.empty((a.shape[0], b.shape[1]), dtype)
    kernel.launch(a, b, out, np.float32(1) if dtype != np.float64 else np.float64(1))
    return out


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_named_tiled_mma_multiplies_without_conflicts(name, arch):
    mma, dtype = NAMED[name]
    random_ = np.random.default_rng(38)
    a, b = (random_.integers(-4, 5, (64, 64)).astype(dtype) for _ in range(2))
    b = b.T
    kernel = compiled(mma, dtype, arch)
    assert np.array_equal(run(kernel, a, b, dtype), a @ b)
    found = [
        (line, access.conflicts)
        for report in kernel.reports
        for line, access in report.shared.items()
        if access.conflicts
    ]
    assert not found, found


@pytest.mark.parametrize("name", NAMED)
def test_the_accumulator_is_bound_as_the_algebra_says(name):
    mma, dtype = NAMED[name]
    tv = mma.tiled.tv_layout("C", (64, 64))
    wanted = tv_layout(modes_of(tv[0]), *map(modes_of, tv[1]))
    text = compiled(mma, dtype).stages["cute-partition"]
    assert str(wanted) in text.replace(" ", "")
    default = Schedule(tile=(64, 64, 32), warps=mma.warps, atom=mma.atom)
    a = np.zeros((64, 32), dtype)
    plain = cute.compile(cute.gemm, a, a.T, schedule=default, arch="sm_80", backend="emulator")
    if name not in ("plain", "f64"):
        assert str(wanted) not in plain.stages["cute-partition"].replace(" ", "")


def test_the_picture_is_that_of_cute():
    """Thread and value of C of the interleaved tile (32,32), from CuTe's rules by hand: the two
    products of a warp lie beside each other, so that it owns 16 columns.
    """
    mma, _ = NAMED["interleaved"]
    tv = mma.tiled.tv_layout("C", (32, 32))
    owner = {tv((t, v)): (t, v) for t in range(128) for v in range(8)}
    for m in range(32):
        for n in range(32):
            warp_n, product, inside = n // 8 % 4 // 2, n // 8 % 2, n % 8
            warp = m // 16 + 2 * warp_n
            lane = m % 8 * 4 + inside // 2
            value = inside % 2 + m % 16 // 8 * 2 + 4 * product
            assert owner[m + 32 * n] == (warp * 32 + lane, value)


def test_f64_values_are_two_neighbors():
    """With (2,4,2):(1,4,2) a thread's four columns of C lie beside each other: one vector."""
    mma, _ = NAMED["f64"]
    tv = mma.tiled.tv_layout("C", (8, 16))
    for thread in range(32):
        columns = [tv((thread, value)) // 8 for value in range(4)]
        assert columns == [columns[0] + step for step in range(4)]


def test_a_multiply_in_a_kernel_names_one():
    mma = NAMED["interleaved"][0]

    @cute.kernel
    def product(a, b, c):
        acc = cute.zeros((64, 64), cute.f32)
        cute.gemm(cute.local_tile(a, (64, 32), (0, 0)), cute.local_tile(b, (32, 64), (0, 0)), acc,
                  atom=mma)  # fmt: skip
        cute.copy(acc, cute.local_tile(c, (64, 64), (0, 0)))

    random_ = np.random.default_rng(1)
    a, b = (random_.integers(-4, 5, shape).astype(np.float16) for shape in ((64, 32), (32, 64)))
    c = np.zeros((64, 64), np.float32)
    kernel = cute.compile(product, a, b, c, arch="sm_80", backend="emulator", schedule=WARPS)
    assert str(mma) in kernel.stages["cute-tile"]
    kernel.launch(a, b, c)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_the_text_form_is_a_fixed_point():
    for mma, _ in NAMED.values():
        assert TiledMma.parse(str(mma)) == mma
        schedule = Schedule(tile=(64, 64, 32), mma=mma)
        assert schedule.mma == str(mma)
        assert schedule.warps == mma.warps
        assert Schedule.parse(str(schedule)) == schedule
        assert Schedule(stages=2).merged(schedule).mma == str(mma)
    assert TiledMma.parse(f"({F16}; (2,2,1))") == TiledMma(F16, (2, 2, 1))
    assert TiledMma(F16, Layout((2, 2, 1)), (32, Layout(32), None)).tile == (32, "32:1", None)
    shape = TiledMma(F64, tile=(8, (2, 4, 2), 8))
    assert composition(parse_layout(shape.tile[1]), Layout(16)) == Layout(16)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"atom": F64}, "expected atom and mma to agree"),
        ({"warps": (4, 1)}, r"warps = \(4, 1\) and mma = .*which has \(2, 2\); leave warps out"),
        ({"mma": f"({F16}; (2,2,2))"}, "expected one warp along K, got 2"),
        ({"mma": f"({F16}; (2,2))"}, "rank 3"),
        ({"mma": f"({F16}; (2,2,1); (32,32))"}, "expected 3 entries"),
        ({"mma": f"({F16}; (2,2,1); (40,32,16))"}, "multiple of 32 in mode M"),
        ({"mma": f"({F16}; (2,2,1); (32,(4,8):(1,1),16))"}, "bijective permutation of N"),
        ({"mma": f"({F16}; (2,2,1); (32,32,16:1))"}, "expected None or an extent for K"),
        ({"mma": "(wgmma_m64n128k16_f32_f16_f16; (1,1,1))"}, "mma.sync"),
        ({"mma": "(mma_m16n8k16; (1,1,1))"}, "mma_m16n8k16"),
        ({"mma": "mma_m16n8k16_f32_f16"}, "expected a TiledMMA such as"),
    ],
)
def test_what_disagrees_is_refused(fields, message):
    with pytest.raises(ScheduleError, match=message):
        Schedule(**({"mma": NAMED["plain"][0]} | fields))


def test_a_tile_that_it_does_not_divide_is_refused_at_the_line():
    mma = TiledMma(F16, (2, 2, 1), (32, 64, 16))
    a = np.zeros((64, 32), np.float16)
    schedule = Schedule(tile=(64, 32, 32), mma=mma)
    with pytest.raises(cute.CompileError, match=re.escape(str(mma))) as caught:
        cute.compile(cute.gemm, a, a.T, schedule=schedule, arch="sm_80", backend="emulator")
    assert "(64, 32, 32)" in str(caught.value)


def test_wrong_tiled_mmas_are_value_errors():
    with pytest.raises(ValueError, match="expected static extents"):
        TiledMma(F16, "(?,1,1)")
    with pytest.raises(LayoutError, match="bijective layout of instructions"):
        TiledMma(F16, "(2,2,1):(1,1,0)")

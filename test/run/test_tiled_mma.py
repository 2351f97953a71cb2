"""A TiledMMA that a schedule or a program names: right, in the emulator and on a GPU where there is
one, bound as the algebra says, without bank conflicts.
"""

import re

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import LayoutError, Schedule, ScheduleError, TiledMma
from cutedialect.backend.runtime.driver import find_driver
from cutedialect.frontend.fitting import schedules_near
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


def conflicts(kernel):
    """The lines of PTX whose accesses to shared memory meet in a bank."""
    return [
        (line, access.conflicts)
        for report in kernel.reports
        for line, access in report.shared.items()
        if access.conflicts
    ]


def run(kernel, a, b, dtype):
    out = np.empty((a.shape[0], b.shape[1]), dtype)
    kernel.launch(a, b, out, np.float32(1) if dtype != np.float64 else np.float64(1))
    return out


@pytest.mark.some(3)
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_named_tiled_mma_multiplies_without_conflicts(name, arch):
    mma, dtype = NAMED[name]
    random_ = np.random.default_rng(38)
    a, b = (random_.integers(-4, 5, (64, 64)).astype(dtype) for _ in range(2))
    b = b.T
    kernel = compiled(mma, dtype, arch)
    assert np.array_equal(run(kernel, a, b, dtype), a @ b)
    assert not conflicts(kernel)


GPU_TILES = [
    # One warp has registers for fewer sums of f64.
    *(
        (mma, dtype, (64, 64, 32) if dtype is np.float16 else (32, 32, 32))
        for mma, dtype in NAMED.values()
    ),
    (TiledMma(F16, (1, 2, 2)), np.float16, (64, 64, 64)),
    (TiledMma(F16, (2, 2, 2)), np.float16, (128, 64, 64)),
    (TiledMma(F16, (1, 1, 4)), np.float16, (64, 64, 64)),
    (TiledMma(F16, "(2,1,2):(2,1,1)"), np.float16, (64, 64, 32)),
    (TiledMma(F64, (1, 2, 2)), np.float64, (64, 64, 32)),
]


def test_schedules_near_one_with_a_tiled_mma_keep_its_warps():
    given = Schedule(tile=(64, 64, 32), mma=NAMED["f64"][0])
    near = list(schedules_near(given, given))
    assert any(schedule.tile == (64, 32, 32) for schedule in near)
    assert {(schedule.mma, schedule.warps) for schedule in near} == {(given.mma, given.warps)}


@pytest.mark.gpu
@pytest.mark.long
@pytest.mark.skipif(find_driver() is None, reason="needs a GPU")
@pytest.mark.parametrize(("mma", "dtype", "tile"), GPU_TILES, ids=str)
def test_a_gpu_gives_what_the_emulator_gives(mma, dtype, tile):
    """Sums that have no rounding, of products that the tile does not divide."""
    random_ = np.random.default_rng(39)
    a = random_.integers(-3, 4, (300, 200)).astype(dtype)
    b = random_.integers(-3, 4, (200, 136)).astype(dtype)
    got = cute.gemm(a, b, schedule=Schedule(tile=tile, mma=mma), backend="cuda")
    assert np.array_equal(got, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.some(3)
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
                  tiled=mma)  # fmt: skip
        cute.copy(acc, cute.local_tile(c, (64, 64), (0, 0)))

    random_ = np.random.default_rng(1)
    a, b = (random_.integers(-4, 5, shape).astype(np.float16) for shape in ((64, 32), (32, 64)))
    c = np.zeros((64, 64), np.float32)
    kernel = cute.compile(product, a, b, c, arch="sm_80", backend="emulator", schedule=WARPS)
    assert str(mma) in kernel.stages["cute-tile"]
    kernel.launch(a, b, c)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@cute.kernel
def loop(a, b, c, *, tiled=None, atom=None):
    acc = cute.zeros((64, 64), cute.f32)
    left, right = cute.local_tile(a, (64, 32), (0, None)), cute.local_tile(b, (32, 64), (None, 0))
    for k in cute.range(left.tiles):
        cute.gemm(left[k], right[k], acc, tiled=tiled, atom=atom)
    cute.copy(acc, cute.local_tile(c, (64, 64), (0, 0)))


@cute.kernel
def scaled(a, b, c, *, tiled):
    """The loop does more with the accumulator than multiply."""
    acc = cute.full((64, 64), 1, cute.f32)
    left, right = cute.local_tile(a, (64, 32), (0, None)), cute.local_tile(b, (32, 64), (None, 0))
    for k in cute.range(left.tiles):
        acc.assign(acc * 2)
        cute.gemm(left[k], right[k], acc, tiled=tiled)
    cute.copy(acc, cute.local_tile(c, (64, 64), (0, 0)))


@cute.kernel
def twice(a, b, c, *, tiled):
    """A loop, and a multiply behind it: one sum of parts for both."""
    acc = cute.full((64, 64), 3, cute.f32)
    left, right = cute.local_tile(a, (64, 32), (0, None)), cute.local_tile(b, (32, 64), (None, 0))
    for k in cute.range(left.tiles):
        cute.gemm(left[k], right[k], acc, tiled=tiled)
    cute.gemm(left[0], right[0], acc, tiled=tiled)
    cute.copy(acc, cute.local_tile(c, (64, 64), (0, 0)))


@cute.kernel
def chained(a, b, c, *, tiled):
    first, acc = cute.zeros((64, 64), cute.f32), cute.zeros((64, 64), cute.f32)
    left, right = cute.local_tile(a, (64, 64), (0, 0)), cute.local_tile(b, (64, 64), (0, 0))
    cute.gemm(left, right, first, tiled=tiled)
    cute.gemm(first.to(cute.f16), right, acc, tiled=tiled)
    cute.copy(acc, cute.local_tile(c, (64, 64), (0, 0)))


def operands():
    random_ = np.random.default_rng(7)
    return [random_.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2)]


def expected(kernel, a, b):
    a, b = a.astype(np.float32), b.astype(np.float32)
    if kernel is loop:
        return a @ b
    if kernel is scaled:
        return 2 * (2 + a[:, :32] @ b[:32]) + a[:, 32:] @ b[32:]
    if kernel is twice:
        return 3 + a @ b + a[:, :32] @ b[:32]
    return (a @ b).astype(np.float16).astype(np.float32) @ b


@pytest.mark.some(4)
@pytest.mark.parametrize("warps", [(1, 2, 2), (2, 1, 2), (2, 2, 2)])
@pytest.mark.parametrize(
    ("kernel", "sums"), [(loop, 1), (scaled, 1), (twice, 1), (chained, 2)], ids=lambda x: str(x)
)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_warps_share_the_depth(kernel, sums, warps, arch, every_stage):
    a, b = operands()
    c = np.zeros((64, 64), np.float32)
    tiled = TiledMma("mma_m16n8k8_f32_f16" if arch == "sm_75" else F16, warps)
    built = cute.compile(kernel, a, b, c, tiled=tiled, arch=arch, backend="emulator")
    built.launch(a, b, c)
    assert np.array_equal(c, expected(kernel, a, b))
    assert built.stages["cute-partition"].count('cute.reduce "add"') == sums
    assert not conflicts(built)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("mma", "dtype", "tile"),
    [
        (TiledMma(F16, (1, 2, 2)), np.float16, (64, 64, 32)),
        (TiledMma(F16, "(2,1,2):(2,1,1)"), np.float16, (64, 64, 32)),
        (TiledMma(F16, (1, 1, 4)), np.float16, (64, 64, 64)),
        (TiledMma(F64, (1, 2, 2)), np.float64, (64, 64, 32)),
        (TiledMma(F16, (1, 2, 2), (32, "(8,2,2):(1,16,8)", 32)), np.float16, (64, 64, 32)),
        (TiledMma(F64, (1, 1, 2), (8, 8, "(4,2,2):(1,8,4)")), np.float64, (64, 64, 32)),
        (TiledMma(F64, (2, 2, 1), (None, None, "(2,4,2):(1,4,2)")), np.float64, (64, 64, 32)),
    ],
    ids=str,
)
def test_a_schedule_names_warps_along_k(mma, dtype, tile):
    random_ = np.random.default_rng(3)
    a, b = (random_.integers(-4, 5, (64, 64)).astype(dtype) for _ in range(2))
    schedule = Schedule(tile=tile, mma=mma)
    kernel = cute.compile(cute.gemm, a, b.T, schedule=schedule, arch="sm_80", backend="emulator")
    assert np.array_equal(run(kernel, a, b.T, dtype), a @ b.T)
    if isinstance(mma.tile[2], int | None):
        assert not conflicts(kernel)


def test_sums_of_warps_are_added_in_their_order():
    """Bits do not change from call to call, and are those of the sums in the order of slices."""
    random_ = np.random.default_rng(5)
    a, b = (random_.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    tiled, results = TiledMma(F16, (1, 1, 2)), []
    for _ in range(2):
        c = np.zeros((64, 64), np.float32)
        kernel = cute.compile(loop, a, b, c, tiled=tiled, arch="sm_80", backend="emulator")
        kernel.launch(a, b, c)
        results.append(c)
    assert np.array_equal(*results)
    one, other = np.zeros((2, 64, 64), np.float32)
    plain = TiledMma(F16, (1, 2, 1))
    slices = np.arange(64) // 16 % 2
    for c, part in ((one, slices == 0), (other, slices == 1)):
        zeroed = np.where(part, a, np.float16(0))
        kernel = cute.compile(loop, zeroed, b, c, tiled=plain, arch="sm_80", backend="emulator")
        kernel.launch(zeroed, b, c)
    assert np.array_equal(results[0], one + other)


def test_warps_of_a_schedule_name_the_depth_beside_an_atom():
    schedule = Schedule(tile=(64, 64, 32), warps=(1, 2, 2), atom=F16)
    assert schedule.mma == str(TiledMma(F16, (1, 2, 2)))
    assert schedule.warps == (1, 4)
    assert Schedule.parse(str(schedule)) == schedule
    assert Schedule(warps=(2, 2, 1)).warps == (2, 2)
    assert Schedule(warps=(1, 2, 2), mma=schedule.mma).warps == (1, 4)


def names_an_atom(tiled, atom, warps=None):
    a, b = operands()
    c = np.zeros((64, 64), np.float32)
    more = {} if warps is None else {"schedule": Schedule(warps=warps)}
    return cute.compile(
        loop, a, b, c, tiled=tiled, atom=atom, arch="sm_80", backend="emulator", **more
    )


def test_an_atom_that_agrees_may_stand_beside_a_tiled_mma():
    mma = TiledMma(F16, (2, 2, 1))
    texts = [names_an_atom(mma, None), names_an_atom(str(mma), F16), names_an_atom(None, mma)]
    assert len({kernel.ptx.split("{", 1)[1] for kernel in texts}) == 1


@pytest.mark.parametrize(
    ("tiled", "atom", "warps", "message"),
    [
        (TiledMma(F16, (2, 2, 1)), F64, None, "expected atom and tiled to agree"),
        (TiledMma(F16, (2, 2, 1)), None, (4, 2), r"the 4 warps \(2, 2\) of the TiledMMA .*'s 8"),
        (TiledMma(F16, (1, 2, 2)), None, (2, 1), r"the 4 warps \(1, 2, 2\) of .*'s 2"),
        (TiledMma(F16, (1, 1, 4)), None, None, r"multiples of \(16, 8, 64\).*got \(64, 64, 32\)"),
        ("mma", None, None, "tiled: expected a TiledMMA such as"),
        (3, None, None, "tiled: "),
    ],
)
def test_what_disagrees_in_a_kernel_is_refused_at_its_line(tiled, atom, warps, message):
    with pytest.raises(cute.CompileError, match=message) as caught:
        names_an_atom(tiled, atom, warps)
    assert "test_tiled_mma.py" in str(caught.value)


def test_arrays_take_a_schedule_instead():
    a, b = operands()
    with pytest.raises(TypeError, match=r"tiled: .*cute.Schedule\(mma=...\)"):
        cute.gemm(a, b, tiled=TiledMma(F16))


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
        ({"warps": (1, 2, 2)}, r"warps = \(1, 2, 2\) and mma = .*which has \(2, 2\)"),
        ({"mma": f"({F16}; (2,2))"}, "rank 3"),
        ({"mma": f"({F16}; (2,2,1); (32,32))"}, "expected 3 entries"),
        ({"mma": f"({F16}; (2,2,1); (40,32,16))"}, "multiple of 32 in mode M"),
        ({"mma": f"({F16}; (2,2,1); (32,(4,8):(1,1),16))"}, "bijective permutation of N"),
        ({"mma": f"({F16}; (2,2,2); (32,32,16))"}, "multiple of 32 in mode K"),
        ({"mma": None, "warps": (2, 2, 2)}, "expected the atom beside warps along K"),
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

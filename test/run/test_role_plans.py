"""Role plans of sm_90a on the emulator: 1 to 3 warpgroups on one tile, and 2 or 3 that take tiles
in turns; what cannot work is refused with the reason.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.atoms import target
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas

# The emulator has 4 multiprocessors: so many CTAs walk over the work items.
CTAS = 4
SMALL = "tile = (64,8,16), roles = alternate"


def operands(m, n, k, dtype=np.float16):
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(dtype) for rows in (m, n))
    return a, b.T


def check(m, n, k, schedule, **options):
    a, b = operands(m, n, k)
    got = cute.gemm(a, b, arch="sm_90a", backend="emulator", schedule=schedule, **options)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(got.astype(np.float64), want.astype(got.dtype).astype(np.float64))


def compiled(schedule, m=64, n=64, k=64):
    a, b = operands(m, n, k)
    return cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule, backend="emulator")


@pytest.fixture
def seeded(monkeypatch):
    """Lets asynchronous copies complete late, each seed in another order."""
    launch = emulator.launch

    def use(seed):
        monkeypatch.setattr(emulator, "launch", partial(launch, seed=seed))

    return use


@pytest.mark.some(3)
@pytest.mark.parametrize("instances", [2, 3])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_trip_counts_in_turns(instances, stages):
    """0, 1, S-1, S, S+1, 2S+1 trips: wherever one item leaves the ring, the next one goes on."""
    schedule = f"{SMALL}, stages = {stages}, instances = {instances}"
    for trips in sorted({0, 1, stages - 1, stages, stages + 1, 2 * stages + 1}):
        check(64 * (2 * CTAS + 1), 8, 16 * trips, schedule)


@pytest.mark.some(6)
@pytest.mark.parametrize("instances", [2, 3])
@pytest.mark.parametrize("items", [1, 2, 3, 4, 5, 7])
def test_work_items_in_turns(instances, items):
    """A CTA with one item, an odd and an even number; `items` counts those of the first CTA."""
    schedule = f"{SMALL}, stages = 3, instances = {instances}"
    for more in (1, CTAS):
        check(64 * ((items - 1) * CTAS + more), 8, 80, schedule)


def test_no_work_item():
    schedule = f"{SMALL}, stages = 3"
    check(0, 8, 16, schedule)
    check(64, 0, 16, schedule)


@pytest.mark.parametrize("instances", [2, 3])
def test_ctas_without_a_work_item(monkeypatch, instances):
    """A grid with more CTAs than work items: those beyond wait for nothing and pass nothing on."""
    launch = emulator.launch

    def wider(ptx, entry, grid, *arguments):
        return launch(ptx, entry, (2 * grid[0], *grid[1:]), *arguments)

    monkeypatch.setattr(emulator, "launch", wider)
    check(64 * (CTAS + 1), 8, 80, f"{SMALL}, stages = 3, instances = {instances}")


@pytest.mark.some(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "schedule",
    [
        "tile = (64,16,32), stages = 2",
        "tile = (128,16,32), stages = 3, instances = 3",
        "tile = (64,16,32), stages = 3, cluster = (2,1)",
        "tile = (64,16,32), stages = 2, cluster = (2,2), instances = 3",
    ],
)
def test_turns_when_copies_are_late(seed, schedule, seeded):
    seeded(seed)
    check(700, 40, 104, f"{schedule}, roles = alternate")


@pytest.mark.some(3)
@pytest.mark.parametrize("cluster", ["(1,2)", "(2,1)", "(2,2)", "(4,1)"])
@pytest.mark.parametrize("instances", [2, 3])
def test_clusters_in_turns(cluster, instances):
    """CTAs of a cluster fill each other's stages; a ragged edge leaves some of them idle rows."""
    schedule = f"tile = (64,32,32), stages = 2, cluster = {cluster}, roles = alternate"
    check(450, 200, 136, f"{schedule}, instances = {instances}")


@pytest.mark.some(2)
@pytest.mark.parametrize("k", [98, 100, 99])
def test_turns_over_stages_that_threads_fill(k, seeded):
    """Rows of 4, 8 and 2 bytes alignment come by cp.async or plain loads of a whole warpgroup."""
    seeded(k)
    check(450, 40, k, "tile = (64,16,32), stages = 3, roles = alternate")


@pytest.mark.some(2)
@pytest.mark.parametrize("epilogue", ["tma", "direct", "smem"])
def test_epilogues_in_turns(epilogue):
    """Each instance stages its results in memory of its own."""
    check(450, 72, 96, f"tile = (64,64,32), roles = alternate, epilogue = {epilogue}")
    check(
        450, 72, 96, f"tile = (64,64,32), roles = alternate, epilogue = {epilogue}", out_dtype="f32"
    )


def test_epilogue_with_addends_in_turns():
    a, b = operands(450, 72, 96)
    c, bias = operands(450, 1, 72)[0], operands(72, 1, 1)[0][:, 0]
    got = cute.gemm(
        *(a, b), c=c, alpha=2.0, beta=-1.0, bias=bias, activation="relu",
        arch="sm_90a", backend="emulator", schedule="tile = (64,24,32), roles = alternate",
    )  # fmt: skip
    want = 2 * (a.astype(np.float64) @ b.astype(np.float64)) - c + bias
    assert np.array_equal(got, np.maximum(want, 0).astype(np.float16))


@pytest.mark.some(1)
@pytest.mark.parametrize("instances", [2, 3])
def test_problems_with_trips_of_their_own(instances, monkeypatch):
    """What an instance skips is counted item by item: here each problem has another depth."""
    monkeypatch.setenv("CUTEDIALECT_VERIFY", "each")
    sizes = [(200, 40, 40), (64, 130, 8), (1, 16, 24), (65, 8, 0), (300, 24, 160), (40, 40, 136)]
    pairs = [operands(*size) for size in sizes]
    got = cute.grouped_gemm(
        [a for a, _ in pairs], [b for _, b in pairs], arch="sm_90a", backend="emulator",
        schedule=f"tile = (64,16,16), stages = 3, roles = alternate, instances = {instances}",
    )  # fmt: skip
    for result, (a, b) in zip(got, pairs, strict=True):
        assert np.array_equal(result, (a.astype(np.float64) @ b).astype(np.float16))


@pytest.mark.parametrize("instances", [2, 3])
@pytest.mark.parametrize("rows", [1, 37, 200])
def test_streamed_tiles_in_turns(instances, rows, seeded):
    """Without a multiply: each instance has its buffers, and reads the ring item by item."""
    seeded(rows)

    @cute.kernel
    def centered(X, Y, *, tile=(8, 128)):
        (i, j) = cute.tile_index(Y, tile)
        x = cute.local_tile(X, tile, (i, j)).load()
        cute.copy(x - cute.row_sum(x) * (1.0 / 128), cute.local_tile(Y, tile, (i, j)))

    x = np.random.default_rng(rows).integers(-64, 64, (rows, 256)).astype(np.float32)
    y = np.full_like(x, np.nan)
    schedule = f"roles = alternate, instances = {instances}"
    kernel = cute.compile(centered, x, y, arch="sm_90a", schedule=schedule, backend="emulator")
    kernel.launch(x, y)
    assert "bar.arrive" in kernel.ptx
    parts = x.reshape(rows, 2, 128)
    assert np.array_equal(y.reshape(parts.shape), parts - parts.mean(2, keepdims=True))


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize(("fault", "codes"), [("sync", {"CD-B5", "CD-B6"}), ("arrive", {"CD-G5"})])
def test_turns_are_needed(monkeypatch, stages, fault, codes):
    """Who does not wait takes an old phase for its own; where nobody passes on, nobody goes on."""
    launch = emulator.launch

    def broken(ptx, *arguments):
        changed, count = re.subn(rf"(@%p\d+ )?bar\.{fault} %r\d+, 256;", "", ptx)
        assert count == 1
        return launch(changed, *arguments)

    monkeypatch.setattr(emulator, "launch", broken)
    with pytest.raises(emulator.EmulatorError) as caught:
        check(64 * 9, 32, 256, f"tile = (64,32,32), roles = alternate, stages = {stages}")
    assert caught.value.code in codes


def test_reductions_of_instances_side_by_side():
    """A column's sum goes through shared memory: each instance has its own part of it."""

    @cute.kernel
    def column_sums(A, B, D, *, tile=(64, 16, 32)):
        bm, bn, bk = tile
        m, n = cute.tile_index(D, (1, bn))
        a, b = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
        acc = cute.zeros((bm, bn), cute.f32)
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(cute.column_sum(acc), cute.local_tile(D, (1, bn), (m, n)))

    a, b = operands(64 * 11, 32, 64)
    out = np.zeros((11, 32), np.float32)
    column_sums(a, b, out, arch="sm_90a", backend="emulator", schedule="roles = alternate")
    want = (a.astype(np.float64) @ b).reshape(11, 64, 32).sum(1)
    assert np.array_equal(out, want)


@pytest.mark.parametrize(
    "schedule",
    ["tile = (64,32,32)", "tile = (128,32,32)", "tile = (192,32,32)", "tile = (192,128,64)"],
)
def test_warpgroups_on_one_tile(schedule):
    check(400, 72, 104, schedule)


PLANS = [
    "tile = (64,256,64), roles = alternate",
    "tile = (64,256,64), cluster = (2,1), roles = alternate",
    "tile = (128,128,64), roles = alternate",
    "tile = (128,128,64), cluster = (2,1), roles = alternate",
    "tile = (64,192,64), roles = alternate, instances = 3",
    "tile = (192,128,64)",
    "tile = (192,192,64), cluster = (2,1)",
]


@pytest.mark.some(4)
@pytest.mark.parametrize("schedule", PLANS)
def test_assembly(schedule):
    """Whole tiles assemble with no multiply serialized and no register spilled."""
    kernel = compiled(schedule)
    assert "wgmma.mma_async" in kernel.ptx
    if ptxas.candidates():
        assembly = ptxas.assemble(kernel.ptx, "sm_90a")
        assert [message for message in assembly.messages if message.is_loss] == []
        assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            "tile = (192,256,64)",
            "expected at most the 128 registers with which each of 512 threads starts, got 154",
        ),
        (
            "tile = (128,256,64), roles = alternate",
            "that live at one time in at most 232 registers of a thread, got 256",
        ),
        (
            "tile = (64,64,64), instances = 2",
            "expected the role plan alternate with instances = 2, got specialized",
        ),
        (
            "tile = (64,64,64), roles = alternate, scheduler = single",
            "expected one loop over work items .scheduler = persistent, stream or tail. for",
        ),
        (
            "tile = (64,64,64), registers = (56,248), ctas = 2",
            "the 32768 registers in a CTA with which 256 threads start where an SM holds 2 of them",
        ),
        (
            "tile = (128,64,64), registers = (40,248)",
            "expected at most the 64512 registers in a CTA with which 384 threads start, got 68608",
        ),
    ],
)
def test_impossible_plans_are_refused(schedule, message):
    with pytest.raises(cute.CompileError, match=message):
        compiled(schedule)


def test_ctas_that_share_an_sm_change_no_registers():
    """Unless a schedule says which: all that they start with may be in use."""
    kernel = compiled("tile = (64,64,64), ctas = 2")
    assert "pipeline.role" in kernel.stages["cute-synchronize"]
    assert "setmaxnreg" not in kernel.ptx


def test_ctas_that_share_an_sm_pass_on_their_own_registers():
    """Of 85 registers of a thread, ptxas gives 80: 240 of three warpgroups."""
    kernel = compiled("tile = (128,64,64), ctas = 2, registers = (24,104)")
    found = re.findall(r"setmaxnreg.(dec|inc).sync.aligned.u32 (\d+)", kernel.ptx)
    assert found == [("dec", "24"), ("inc", "104")]
    assert ".reqntid 384, 1, 1\n.minnctapersm 2" in kernel.ptx
    with pytest.raises(cute.CompileError, match=r"at most the 30720 registers .* holds 2 of them"):
        compiled("tile = (128,64,64), ctas = 2, registers = (32,112)")


@pytest.mark.parametrize(
    ("schedule", "each"),
    [
        ("scheduler = persistent, ctas = 3", 3),
        ("scheduler = dynamic, ctas = 2", 2),
        # Those that wait for others' sums have to run at a time.
        ("scheduler = stream, ctas = 2", 1),
        ("scheduler = persistent, split_k = 2, ctas = 2", 1),
    ],
)
def test_as_many_ctas_stay_as_all_sms_hold(schedule, each, monkeypatch):
    launch, grids = emulator.launch, []

    def counting(ptx, entry, grid, *arguments):
        grids.append(grid[0])
        return launch(ptx, entry, grid, *arguments)

    monkeypatch.setattr(emulator, "launch", counting)
    check(256, 256, 64, f"tile = (64,64,32), {schedule}")
    assert max(grids) == CTAS * each


def test_stages_are_as_many_as_the_share_of_shared_memory_holds():
    for ctas in (1, 2):
        kernel = compiled(f"tile = (128,64,64), ctas = {ctas}", k=4096)
        share = target("sm_90a").smem_of(ctas)
        assert 0.7 * share < kernel.program.dynamic_smem <= share


@cute.kernel
def orthogonal(X, Y, *, steps=3):
    """Newton-Schulz steps on a tile that stays in registers: nothing is left to a loading role."""
    i, _ = cute.tile_index(Y, (64, None))
    x = cute.zeros((64, 64))
    x += cute.local_tile(X, (64, 64), (i, 0)).load().to(cute.f32)
    for _ in cute.range(steps):
        half = x.to(cute.f16)
        square, cube = cute.zeros((64, 64)), cute.zeros((64, 64))
        cute.gemm(half, half.T, square)
        cute.gemm(square.to(cute.f16), half, cube)
        x.assign(x * 1.5 - cube * 0.5)
    cute.copy(x, cute.local_tile(Y, (64, 64), (i, 0)))


@pytest.mark.parametrize("warps", ["(4,1)", "(8,1)"])
def test_no_warps_wait_beside_a_role_that_does_everything(warps):
    """They would keep their registers, which a computing role of 8 warps needs."""
    x = (np.random.default_rng(0).standard_normal((128, 64)) * 0.06).astype(np.float16)
    y = np.zeros((128, 64), np.float32)
    schedule = f"warps = {warps}, roles = specialized"
    kernel = cute.compile(orthogonal, x, y, arch="sm_90a", schedule=schedule)
    kernel.launch(x, y)
    exact = x.astype(np.float64).reshape(2, 64, 64)
    for _ in range(3):
        half = exact.astype(np.float16).astype(np.float64)
        square = (half @ half.transpose(0, 2, 1)).astype(np.float16)
        exact = 1.5 * exact - 0.5 * square @ half
    assert np.abs(y - exact.reshape(128, 64)).max() <= 2e-3 * np.abs(exact).max()
    assert f".reqntid {128 if warps == '(4,1)' else 256}" in kernel.ptx


@cute.kernel
def two_results(A, B, bias, C, D, *, tile):
    """C = A B + bias, and D is its transpose."""
    m, n = cute.tile_index(C, tile[:2])
    a = cute.local_tile(A, (tile[0], tile[2]), (m, None))
    b = cute.local_tile(B, (tile[2], tile[1]), (None, n))
    acc = cute.zeros(tile[:2])
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    acc += cute.row_vector(bias, n, tile[1]).to(cute.f32)
    cute.copy(acc.to(C.dtype), cute.local_tile(C, tile[:2], (m, n)))
    cute.copy(acc.T.to(D.dtype), cute.local_tile(D, (tile[1], tile[0]), (n, m)))


def given(m=130, n=100, k=72):
    """Rows of results and of B that TMA does not take."""
    rng = np.random.default_rng(n)
    a, b, bias = (rng.integers(-3, 4, size).astype(np.float16) for size in ((m, k), (k, n), (n,)))
    return [a, b, bias, np.zeros((m, n), np.float16), np.zeros((n, m), np.float32)]


@pytest.mark.some(2)
@pytest.mark.parametrize("epilogue", ["tma", "smem", "direct"])
@pytest.mark.parametrize("tile", [(128, 128, 64), (192, 96, 64), (256, 64, 32), (64, 256, 64)])
def test_stages_leave_room_for_the_results_of_each_team(tile, epilogue):
    schedule = cute.Schedule(roles="alternate", epilogue=epilogue)
    kernel = cute.compile(two_results, *given(), arch="sm_90a", schedule=schedule, tile=tile)
    assert kernel.ptx


@pytest.mark.some(1)
@pytest.mark.parametrize("choice", ["split_k = 2", "scheduler = stream"])
def test_teams_load_behind_sums_that_they_share(choice):
    args = given()
    two_results(
        *args, arch="sm_90a", schedule=f"roles = alternate, {choice}", tile=(128, 128, 64),
        backend="emulator",
    )  # fmt: skip
    a, b, bias, c, d = (each.astype(np.float64) for each in args)
    assert np.array_equal(c, a @ b + bias)
    assert np.array_equal(d, c.T)


# What a schedule cannot have, and what its message names instead.
INSTEAD = [
    ("sm_100a", "roles = shifting", "roles = specialized"),
    ("sm_100a", "roles = alternate", "roles = specialized"),
    ("sm_100a", "roles = (load 1: loads; main *: rest)", "roles = specialized"),
    ("sm_100a", "roles = (load 1: loads; mma 4: multiplies; main *: rest)", "roles = specialized"),
    ("sm_80", "early_launch = yes", "early_launch = no"),
    ("sm_89", "roles = split", "roles = uniform"),
    ("sm_120a", "roles = split, split_k = 2", "roles = specialized"),
    ("sm_90a", "roles = shifting, ctas = 2", "ctas = 1"),
]


@pytest.mark.some(4)
@pytest.mark.parametrize(("arch", "schedule", "instead"), INSTEAD)
def test_what_a_message_names_instead_compiles(arch, schedule, instead):
    args, tile = given(), (128, 64, 64)
    with pytest.raises(cute.CompileError, match=re.escape(instead)):
        cute.compile(two_results, *args, arch=arch, schedule=schedule, tile=tile)
    field = instead.split()[0]
    others = [part for part in schedule.split(", ") if not part.startswith(field)]
    taken = ", ".join([*others, instead])
    assert cute.compile(two_results, *args, arch=arch, schedule=taken, tile=tile).ptx


@cute.kernel
def sum_of_products(A, B, C, *, tile=64):
    acc = cute.zeros((tile, tile))
    a, b = cute.local_tile(A, (tile, tile), (0, None)), cute.local_tile(B, (tile, tile), (None, 0))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(C, (tile, tile), (0, 0)))


def test_a_loop_of_a_program_without_work_items_is_not_shared_by_instances():
    """Instances would take the products of a sum in turns, and each store its part."""
    a, b, c = np.ones((64, 256), np.float16), np.ones((256, 64), np.float16), np.zeros((64, 64))
    args = a, b, c.astype(np.float32)
    with pytest.raises(cute.CompileError, match=r"one loop over work items .* take roles = spec"):
        sum_of_products(*args, arch="sm_90a", backend="emulator", schedule="roles = alternate")
    sum_of_products(*args, arch="sm_90a", backend="emulator", schedule="roles = specialized")
    assert (args[2] == 256).all()

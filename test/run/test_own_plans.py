"""Role plans that a schedule brings: multiplies in a role apart from the one that computes between
them, so that scores, weights and results cross roles through shared memory.
"""

import re

import numpy as np
import pytest
from ml_dtypes import float8_e4m3fn

import cutedialect as cute
from cutedialect import choices
from cutedialect.plans import plan_of

APART = "roles = (load 1 @40: loads; mma 4 @216: multiplies; main * @240: rest)"


@cute.kernel
def attended(Q, K, V, L, Y, *, tile=(64, 32)):
    """Attention of unscaled scores: each block rescales what the blocks before it have given."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k, v = (cute.local_tile(X, (bk, 64), (None, 0)) for X in (K, V))
    y, total = cute.zeros((bq, 64)), cute.zeros((bq, 1))
    m = cute.full((bq, 1), -cute.inf)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk))
        cute.gemm(q, k[j].T, s)
        s = cute.where(cute.coord(s, 1, j * bk) < K.extent, s, -cute.inf)
        new = cute.maximum(m, cute.row_max(s))
        r = cute.exp(m - new)
        p = cute.exp(s - new)
        total.assign(total * r + cute.row_sum(p))
        y.assign(y * r)
        cute.gemm(p.to(V.dtype), v[j], y)
        m.assign(new)
    cute.copy(total, cute.local_tile(L, (bq,), (i,)))
    cute.copy(y, cute.local_tile(Y, (bq, 64), (i, 0)))


def attention(kernel, rng, rows, keys):
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float16) for n in (rows, keys, keys))
    total, y = np.zeros(rows, np.float32), np.zeros((rows, 64), np.float32)
    kernel.launch(q, k, v, total, y)
    s = q.astype(np.float64) @ k.T
    p = np.exp(s - s.max(1)[:, None])
    exact = p @ v / p.sum(1)[:, None]
    assert np.abs(y / total[:, None] - exact).max() <= 2e-3 * np.abs(exact).max()


def compiled(schedule):
    halves = cute.TensorSpec((None, 64), cute.f16)
    sums, out = cute.TensorSpec((None,), cute.f32), cute.TensorSpec((None, 64), cute.f32)
    specs = (halves, halves, halves, sums, out)
    return cute.compile(attended, *specs, arch="sm_90a", schedule=schedule)


def test_scores_and_weights_cross_roles():
    """Trip counts around the ring's three stages; more work items than CTAs."""
    kernel, rng = compiled(f"{APART}, stages = 3"), np.random.default_rng(0)
    for trips in (1, 2, 3, 4, 7):
        attention(kernel, rng, int(rng.integers(1, 400)), 32 * trips - int(rng.integers(0, 32)))


def test_who_does_what():
    """The role of multiplies has nothing but these and copies; the other one all the rest."""
    kernel = compiled(APART)
    assert cute.Schedule.parse(kernel.schedule).text() == kernel.schedule
    text = kernel.stages["cute-synchronize"]
    parts = dict(zip(*[iter(re.split(r'pipeline\.role "(\w+)"', text)[1:])] * 2, strict=True))
    assert set(parts) == {"load", "load_1", "load_2", "mma", "main"}
    assert parts["mma"].count("cute.gemm") == 2
    assert not re.search(r"cute\.(map|reduce|load)", parts["mma"])
    assert "cute.gemm" not in parts["main"]
    # Scores and, to be rescaled, results go over; weights and rescaled results come back.
    out = r"cute\.copy [^\n]*: !cute\.fragment<(\w+),[^\n]* -> !cute\.memref<\w+, smem"
    assert re.findall(out, parts["mma"]) == ["f32"] * 3
    assert re.findall(out, parts["main"]).count("f16") == 1
    assert any("more than arithmetic on registers" in each.message for each in kernel.remarks)


def test_the_multiplying_role_may_hold_the_result_and_rescale_it():
    """Factors of rows go over where whole results did, which leave once."""
    kernel = compiled(APART.replace("multiplies", "multiplies updates"))
    rng = np.random.default_rng(2)
    for trips in (1, 2, 5):
        attention(kernel, rng, int(rng.integers(1, 200)), 32 * trips - int(rng.integers(0, 32)))
    text = kernel.stages["cute-synchronize"]
    mma = text.split('pipeline.role "mma"')[1].split("pipeline.role")[0]
    assert mma.count("cute.map") == 1
    copies = r"cute\.copy [^\n]*: !cute\.fragment<f32[^\n]* -> !cute\.memref<\w+, smem"
    loop, _, behind = mma.rpartition("scf.for")[2].partition("\n        }\n")
    assert len(re.findall(copies, loop)) == 1
    assert len(re.findall(copies, behind)) == 1


@pytest.mark.some(1)
@pytest.mark.parametrize("activation", ["relu", None])
def test_an_epilogue_in_a_role_of_its_own(activation):
    rng = np.random.default_rng(1)
    for m, n, k in ((300, 200, 72), (64, 64, 0), (1, 8, 32)):
        a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n)))
        got = cute.gemm(
            a, b, activation=activation, arch="sm_90a", backend="emulator",
            schedule=f"{APART}, tile = (64,64,32), stages = 3, warps = (4,1)",
        )  # fmt: skip
        want = a.astype(np.float64) @ b.astype(np.float64)
        assert np.array_equal(got, np.maximum(want, 0) if activation else want)


def test_a_plan_is_a_row(monkeypatch):
    """What a project adds to the table is a plan like any other."""
    rows = "load 1 @40: loads; tensor_cores 4 @216: multiplies; main * @240: rest"
    monkeypatch.setitem(choices.PLANS, "apart", rows)
    assert [row.name for row in plan_of("apart").rows] == ["load", "tensor_cores", "main"]
    kernel = compiled("roles = apart")
    assert 'role "tensor_cores"' in kernel.stages["cute-synchronize"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("load 1: loads; main *: everything", r"expected kinds of ops \(loads, .*got everything"),
        ("load: loads; main *: rest", "expected 'name warps: kinds' as a role, got 'load: loads'"),
        ("main *: rest; load 1: loads", "of which the last, 'main', takes the rest"),
        ("mma 4: multiplies; main *: rest", "expected a role that takes loads"),
        ("load 2/1: loads; main *: rest", "expected the last role alone to be split by rows"),
    ],
)
def test_rows_that_do_not_parse_are_refused_where_they_are_given(rows, message):
    with pytest.raises(cute.ScheduleError, match=message):
        cute.Schedule(roles=f"({rows})")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "load 1: loads; mma 8 @104: multiplies; main * @152: rest",
            "expected the 4 warps of the schedule in role 'mma', which has tiles in registers, got",
        ),
        (
            "load 1 @56: loads; mma 4 @232: multiplies; main * @232: rest",
            "expected at most the 64512 registers in a CTA with which 384 threads start, got 66560",
        ),
        # The warpgroup that loads keeps what it starts with: the others would wait for ever.
        (
            "load 1: loads; mma 4 @216: multiplies; main * @240: rest",
            "got 79872: of a thread 168 for load, 216 for mma, 240 for main",
        ),
    ],
)
def test_plans_that_cannot_be_are_refused(rows, message):
    with pytest.raises(cute.CompileError, match=message):
        compiled(f"roles = ({rows})")


@pytest.mark.some(1)
@pytest.mark.parametrize("more", ["", " updates"])
def test_a_lazy_maximum_decides_for_another_role(more):
    """Attention of the library: `any` of main's tiles steers what the multiplying role rescales."""
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 1, rows, 64)).astype(np.float16) for rows in (70, 150, 150))
    plan = APART.replace("multiplies", "multiplies" + more)
    got = cute.attention(3 * q, k, v, arch="sm_90a", backend="emulator", schedule=plan)
    scores = 3 / 8 * q[0, 0].astype(np.float64) @ k[0, 0].T
    p = np.exp(scores - scores.max(1)[:, None])
    exact = p @ v[0, 0] / p.sum(1)[:, None]
    assert np.abs(got[0, 0] - exact).max() <= 2e-3 * np.abs(exact).max()


def test_who_tells_conditions():
    """Main votes with all of its warps, and each role that a condition steers receives it."""
    kernel, _ = drawn(0)
    specs = [cute.TensorSpec((None, None), cute.f16)] * 3
    kernel = cute.compile(
        kernel, *specs, cute.TensorSpec((None, None), cute.f32), arch="sm_90a", schedule=APART
    )
    text = kernel.stages["cute-synchronize"]
    parts = dict(zip(*[iter(re.split(r'pipeline\.role "(\w+)"', text)[1:])] * 2, strict=True))
    told = len(re.findall("pipeline.send", parts["main"]))
    assert told == len(re.findall("cute.any", parts["main"])) > 0
    assert "cute.any" not in parts["mma"]
    assert len(re.findall("pipeline.receive", parts["mma"])) == told


@pytest.mark.parametrize(
    "schedule", ["roles = alternate", "roles = (load 1 @40: loads; main 2x* @216: rest)"]
)
def test_teams_that_take_turns_tell_no_conditions(schedule):
    kernel, _ = drawn(0)
    specs = [cute.TensorSpec((None, None), cute.f16)] * 3
    with pytest.raises(cute.CompileError, match=r"one team in each role.*whose teams take turns"):
        cute.compile(
            kernel, *specs, cute.TensorSpec((None, None), cute.f32), arch="sm_90a",
            schedule=f"{schedule}, scheduler = persistent",
        )  # fmt: skip


PLANS = [
    APART,
    APART.replace("multiplies", "multiplies updates"),
    "roles = (load 1 @40: loads; updating 4 @216: updates; main * @240: rest)",
    "roles = (load 1 @56: loads; main * @248: rest)",
]


def drawn(seed):
    """A kernel in which conditions of tiles steer what other roles do, and its result: each step
    of a loop multiplies into one of two tiles, perhaps again, scales it, counts trips of a loop.
    """
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(int(rng.integers(1, 3))):
        kind = str(rng.choice(["branch", "nested", "count", "choose", "otherwise"]))
        bound, scale = int(rng.integers(-12, 13)), float(rng.choice([0.5, 2.0]))
        steps.append((kind, bound, scale))

    @cute.kernel
    def kernel(A, B, C, Y):
        m, n = cute.tile_index(Y, (64, 32))
        a, b = cute.local_tile(A, (64, 32), (m, None)), cute.local_tile(B, (32, 32), (None, 0))
        c = cute.local_tile(C, (32, 32), (None, n))
        first, second = cute.zeros((64, 32)), cute.zeros((64, 32))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], first)
            for kind, bound, scale in steps:
                high = cute.any(first > float(bound))
                if kind == "count":
                    for j in cute.range(cute.where(high, 2, 1)):
                        cute.gemm(first.to(A.dtype), c[j], second)
                    continue
                if kind == "choose":
                    low = cute.any(second < float(bound))
                    with cute.when(high & low):
                        second.assign(second * scale)
                    continue
                with cute.when(high):
                    if kind == "nested":
                        with cute.when(cute.any(second > float(bound))):
                            cute.gemm(first.to(A.dtype), c[0], second)
                    else:
                        cute.gemm(first.to(A.dtype), c[1], second)
                    first.assign(cute.where(first > 8.0, 1.0, first))
                if kind == "otherwise":
                    with cute.when(~high):
                        cute.gemm(first.to(A.dtype), c[0], second)
            second.assign(cute.minimum(cute.maximum(second, -64.0), 64.0))
        cute.copy(second, cute.local_tile(Y, (64, 32), (m, n)))

    def expected(a, b, c):
        first, second = np.zeros((64, 32)), np.zeros((64, 32))
        for k in range(0, a.shape[1], 32):
            first = first + a[:, k : k + 32].astype(np.float64) @ b[k : k + 32]
            for kind, bound, scale in steps:
                high = (first > bound).any()
                parts = [
                    first.astype(np.float16).astype(np.float64) @ c[i : i + 32] for i in (0, 32)
                ]
                if kind == "count":
                    second = second + (parts[0] + parts[1] if high else parts[0])
                elif kind == "choose":
                    second = second * scale if high and (second < bound).any() else second
                elif high:
                    if kind != "nested":
                        second = second + parts[1]
                    elif (second > bound).any():
                        second = second + parts[0]
                    first = np.where(first > 8, 1, first)
                elif kind == "otherwise":
                    second = second + parts[0]
            second = np.clip(second, -64, 64)
        return second

    return kernel, expected


def check_drawn(seed):
    kernel, expected = drawn(seed)
    rng = np.random.default_rng(1000 + seed)
    tiles, k = [int(each) for each in rng.integers(1, 3, 2)], 32 * int(rng.integers(0, 4))
    a, b = (
        rng.integers(-1, 2, shape).astype(np.float16) for shape in ((64 * tiles[0], k), (k, 32))
    )
    c = rng.integers(-1, 2, (64, 32 * tiles[1])).astype(np.float16)
    y = np.zeros((64 * tiles[0], 32 * tiles[1]), np.float32)
    kernel(a, b, c, y, arch="sm_90a", backend="emulator", schedule=PLANS[seed % len(PLANS)])
    for i in range(0, len(y), 64):
        for j in range(0, y.shape[1], 32):
            exact = expected(a[i : i + 64], b, c[:, j : j + 32])
            assert np.array_equal(y[i : i + 64, j : j + 32], exact)


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(4))
def test_conditions_of_tiles_steer_other_roles(seed):
    check_drawn(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4, 60))
def test_more_conditions_that_steer_other_roles(seed):
    check_drawn(seed)


@pytest.mark.some(2)
@pytest.mark.parametrize("warps", [1, 2, 4])
def test_as_many_threads_copy_as_the_plan_says(warps):
    """Rows of 133 elements, which TMA does not load."""
    rng = np.random.default_rng(warps)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((130, 133), (133, 70)))
    plan = f"tile = (128,64,64), warps = (4,1), roles = (load {warps}: loads; main *: rest)"
    found = cute.gemm(a, b, arch="sm_90a", backend="emulator", schedule=plan)
    assert np.array_equal(found, a.astype(np.float64) @ b)


@pytest.mark.some(1)
@pytest.mark.parametrize("warps", [4, 8])
def test_roles_that_multiply_may_transpose_operands_themselves(warps):
    """Values of 8 bits, contiguous along the columns of a."""
    rng = np.random.default_rng(warps)
    a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((130, 144), (144, 72)))
    a, b = (each.astype(float8_e4m3fn) for each in (np.asfortranarray(a), np.asfortranarray(b)))
    plan = f"tile = (128,64,64), warps = ({warps},1), roles = (load 1: loads; main *: rest)"
    found = cute.gemm(a, b, out_dtype=cute.f32, arch="sm_90a", backend="emulator", schedule=plan)
    assert np.array_equal(found, a.astype(np.float64) @ b.astype(np.float64))

"""Checks and timings of one case on a device whose time the test decides."""

from dataclasses import asdict

import pytest

from benchmarks.gemm_case import Gemm
from benchmarks.inputs import rotation
from benchmarks.measurement import DeviceLostError, measure
from benchmarks.rows import row_of
from benchmarks.timing import Plan, launches_for

PLAN = Plan(rounds=5, batch_ms=1.0, warmup=1, cool_down=0.0)
SMALL = Gemm("main", "bf16", (40, 24, 16))


@pytest.fixture(autouse=True)
def small_cache(device):
    device.l2 = 1 << 12


def by_name(results):
    return {result.name: result for result in results}


def test_times_are_those_of_a_launch(torch, contender):
    makers = {"cuBLAS": contender("cuBLAS", 2e-6), "ours": contender("ours", 1e-6)}
    found = by_name(measure(torch, SMALL, makers, PLAN))
    assert found["cuBLAS"].ms == pytest.approx([2e-3] * 5)
    assert found["ours"].ms == pytest.approx([1e-3] * 5)
    assert all(result.captured and result.launches > 100 for result in found.values())
    assert found["ours"].errors == found["cuBLAS"].errors == found["ours"].later_errors
    assert found["ours"].failure is None


def test_rounds_go_forward_and_backward(torch, device, contender):
    makers = {name: contender(name, 1e-5) for name in ("cuBLAS", "one", "two")}
    measure(torch, SMALL, makers, PLAN)
    runs = [
        name
        for name, before in zip(device.launches, [None, *device.launches[:-1]], strict=True)
        if name != before
    ]
    text = " ".join(runs)
    assert "cuBLAS one two one cuBLAS one two one cuBLAS" in text


def test_what_cannot_be_captured_is_queued(torch, device, contender):
    device.uncapturable = {"ours"}
    makers = {name: contender(name, 1e-6) for name in ("cuBLAS", "ours")}
    found = by_name(measure(torch, SMALL, makers, PLAN))
    assert found["cuBLAS"].captured
    assert not found["ours"].captured
    assert found["ours"].launches == 256
    assert found["ours"].ms == pytest.approx([1e-3] * 5)


def test_without_a_graph_of_cublas_nobody_has_one(torch, device, contender):
    device.uncapturable = {"cuBLAS"}
    makers = {name: contender(name, 1e-6) for name in ("cuBLAS", "ours")}
    assert not any(result.captured for result in measure(torch, SMALL, makers, PLAN))


def test_slow_cases_get_fewer_rounds(torch, contender):
    makers = {"cuBLAS": contender("cuBLAS", 1e-3)}
    plan = Plan(rounds=50, batch_ms=1.0, warmup=1, cool_down=0.0, limit=6.0)
    (result,) = measure(torch, SMALL, makers, plan)
    assert 3 <= len(result.ms) <= 6.0 / (1e-3 * result.launches) + 1


def test_a_wrong_result_has_a_larger_error(torch, contender):
    makers = {"cuBLAS": contender("cuBLAS", 1e-6), "ours": contender("ours", 1e-6, scale=1.1)}
    found = by_name(measure(torch, SMALL, makers, PLAN))
    assert found["ours"].errors[0] > 2 * found["cuBLAS"].errors[0]


def test_what_is_never_written_is_infinitely_wrong(torch, contender):
    def lazy():
        return lambda operands: None

    for dtype in ("bf16", "s8"):
        case = Gemm("main", dtype, (40, 24, 16))
        found = by_name(measure(torch, case, {"cuBLAS": contender("c", 1e-6), "lazy": lazy}, PLAN))
        assert found["lazy"].errors == [float("inf")]
        assert found["cuBLAS"].errors[0] < 1


def test_a_contender_may_return_an_array_of_its_own(torch, device, contender):
    def own():
        def call(operands):
            device.launch("own", 1e-6, lambda: None)
            return torch.matmul(operands.a.double(), operands.b.double())

        return call

    found = by_name(measure(torch, SMALL, {"cuBLAS": contender("c", 1e-6), "own": own}, PLAN))
    assert 0 < found["own"].errors[0] < 0.1
    assert found["own"].later_errors == []
    assert found["own"].ms == pytest.approx([1e-3] * 5)


def test_a_refusal_is_a_result(torch, contender):
    def refuses():
        raise TypeError("a: expected one of f16, got e4m3\nmore")

    makers = {"cuBLAS": contender("cuBLAS", 1e-6), "ours": refuses}
    found = by_name(measure(torch, SMALL, makers, PLAN))
    assert found["ours"].failure == "TypeError: a: expected one of f16, got e4m3"
    assert found["ours"].ms == []
    assert len(found["cuBLAS"].ms) == 5


def test_a_lost_device_stops_the_process(torch, device, contender):
    def crash():
        def call(operands):
            device.lost = True
            torch.cuda.synchronize()

        return call

    makers = {"cuBLAS": contender("cuBLAS", 1e-6), "ours": crash, "later": crash}
    with pytest.raises(DeviceLostError) as lost:
        measure(torch, SMALL, makers, PLAN)
    results = by_name(lost.value.args[0])
    assert "illegal memory access" in results["ours"].failure
    assert "later" not in results


@pytest.mark.parametrize(
    "case",
    [
        Gemm("other", "s8", (40, 24, 16)),
        Gemm("other", "tf32", (40, 24, 16)),
        Gemm("other", "e4m3", (40, 32, 16)),
        Gemm("other", "bf16", (8, 24, 16), batch=3),
        Gemm("other", "bf16", group=((8, 24, 16), (70, 16, 32))),
        Gemm("majors", "f16", (40, 24, 16), "NT", values="integers"),
    ],
    ids=lambda case: case.name,
)
def test_cublas_computes_every_kind_of_case(torch, case):
    (result,) = measure(torch, case, case.theirs(torch), PLAN)
    assert result.failure is None
    assert len(result.errors) == len(case.group or [case])
    assert max(result.errors) < 0.1
    assert len(result.ms) == 5


@pytest.mark.parametrize(
    ("majors", "a_rows", "b_rows"),
    [("TN", True, False), ("TT", True, True), ("NT", False, True), ("NN", False, False)],
)
def test_majors_decide_what_is_contiguous(torch, majors, a_rows, b_rows):
    made = Gemm("majors", "f16", (40, 24, 16), majors).make_operands(torch, 0)
    assert made.a.shape == (40, 16)
    assert made.b.shape == (16, 24)
    assert made.out.shape == (40, 24)
    assert made.a.array.flags.c_contiguous == a_rows
    assert made.b.array.flags.c_contiguous == b_rows


def test_inputs_differ_between_sets_and_integers_are_small(torch):
    case = Gemm("integers", "f16", (40, 24, 64), values="integers")
    one, two = (case.make_operands(torch, seed).a.array for seed in (0, 1))
    assert (one != two).any()
    assert set(one.ravel().tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}


def test_sets_turn_past_the_cache(torch, device):
    device.l2 = 50 << 20
    small, large = Gemm("main", "bf16", (1024,) * 3), Gemm("main", "bf16", (16384,) * 3)
    assert (rotation(torch, small) - 1) * small.bytes >= 3 * device.l2
    assert rotation(torch, large) == 2


def test_a_batch_lasts_about_as_long_as_planned():
    plan = Plan(batch_ms=6.0)
    assert launches_for(Gemm("main", "bf16", (16384,) * 3), plan) == 1
    assert 25 <= launches_for(Gemm("main", "bf16", (4096,) * 3), plan) <= 40
    assert 800 <= launches_for(Gemm("main", "bf16", (1024,) * 3), plan) <= 1000


@pytest.mark.parametrize(
    ("case", "fastest"),
    [
        (Gemm("extra", "e4m3", (40, 32, 272), sums="promoted", gate=0), "cuBLAS"),
        (Gemm("extra", "e4m3", (40, 160, 272), sums="blocks", gate=0), "cuBLAS"),
        (Gemm("extra", "e4m3", (40, 32, 272), "TT", gate=0), "cuBLAS after transposing"),
        (Gemm("extra", "s8", (40, 32, 272), "NN", gate=0), "cuBLAS"),
        (Gemm("extra", "bf16", (40, 32, 272), "NT", align=2, gate=0), "cuBLAS"),
        (Gemm("extra", "e4m3", group=((40, 32, 16), (16, 16, 48)), gate=0), "cuBLAS"),
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_the_yardstick_is_right_in_rows_without_gates(torch, contender, case, fastest):
    """What torch refuses is passed over, where the same after copies is there."""
    ours = contender("ours", 1e-6)
    if case.sums == "blocks":
        theirs = case.theirs(torch)["cuBLAS"]()
        ours = lambda: theirs  # noqa: E731
    plan = Plan(rounds=3, batch_ms=0.004, warmup=1, cool_down=0.0)
    results = measure(torch, case, {**case.theirs(torch), "cutedialect": ours}, plan)
    row = row_of(case, {"results": [asdict(result) for result in results]})
    assert (row.yardstick, row.right, row.verdict) == (fastest, True, "right")


def test_a_graph_has_all_sets_and_is_replayed(torch, device, contender):
    """What it takes to capture a launch is many times what it takes to run one."""
    graphs = []
    made = torch.cuda.CUDAGraph
    torch.cuda.CUDAGraph = lambda: graphs.append(made()) or graphs[-1]
    for sets, many in ((3, 200), (250, 250)):
        device.l2 = (sets - 1) * SMALL.bytes // 3
        assert rotation(torch, SMALL) == sets
        (result,) = measure(torch, SMALL, {"cuBLAS": contender("cuBLAS", 2e-6)}, PLAN)
        planned = launches_for(SMALL, PLAN)
        assert len(graphs[-1].nodes) >= many
        assert len(graphs[-1].nodes) < 2 * many
        assert result.launches % len(graphs[-1].nodes) == 0
        assert result.launches <= planned < result.launches + len(graphs[-1].nodes)
        assert result.ms == pytest.approx([2e-3] * 5)


@pytest.mark.parametrize(("seconds", "rounds"), [(1e-6, 3), (2.5e-6, 3), (3e-6, 1)])
@pytest.mark.parametrize("captured", [True, False])
def test_calls_that_take_long_to_queue_are_few(
    torch, device, contender, monkeypatch, seconds, rounds, captured
):
    """The others have graphs nevertheless, and all of their rounds."""
    now = [0.0]
    monkeypatch.setattr("benchmarks.timing.time.perf_counter", lambda: now[0])

    def slow():
        one = contender("slow", seconds)()

        def call(operands):
            now[0] += 0.3
            one(operands)

        return call

    if not captured:
        device.uncapturable = {"slow"}
    makers = {"slow": slow, "cuBLAS": contender("cuBLAS", 2e-6)}
    found = by_name(measure(torch, SMALL, makers, PLAN))
    assert (found["slow"].launches, found["slow"].captured) == (1, False)
    assert found["slow"].ms == pytest.approx([1e3 * seconds] * rounds)
    assert found["cuBLAS"].ms == pytest.approx([2e-3] * 5)
    assert found["cuBLAS"].captured


def test_a_graph_of_calls_that_take_a_while_has_few(torch, device, contender, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("benchmarks.timing.time.perf_counter", lambda: now[0])

    def sluggish():
        one = contender("sluggish", 1e-6)()

        def call(operands):
            now[0] += 0.03
            one(operands)

        return call

    for uncapturable in ((), ("sluggish",)):
        device.uncapturable = set(uncapturable)
        (result,) = measure(torch, SMALL, {"sluggish": sluggish}, PLAN)
        assert result.launches % 34 == 0 if not uncapturable else result.launches == 34
        assert result.ms == pytest.approx([1e-3] * 5)

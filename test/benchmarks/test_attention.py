"""Attention as cases: references, yardsticks and what ours gets, on a device that a test plays."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import cutedialect as cute
from benchmarks import attention, attention_reference, cases, sweep
from benchmarks.attention_case import Attention, Tensors
from benchmarks.attention_edits import Edited
from benchmarks.contenders import OURS, make_contenders
from benchmarks.measurement import measure
from benchmarks.rows import row_of
from benchmarks.timing import Plan
from benchmarks.worker import serve

PLAN = Plan(rounds=4, batch_ms=0.01, warmup=1, cool_down=0.0)
SQUARE = Attention("d", "bf16", batch=2, heads=(2, 2), rows=130, keys=130, depth=16)
CAUSAL = Attention("d", "f16", batch=2, heads=(2, 2), rows=65, keys=70, depth=16, causal=True)
SHARED = Attention("d", "bf16", batch=1, heads=(4, 2), rows=64, keys=64, depth=16, causal=True)
WINDOW = Attention(
    "d", "bf16", batch=1, heads=(2, 2), rows=100, keys=100, depth=16, causal=True, window=7
)
OWN_WINDOW = replace(WINDOW, of_ours=True)
PACKED = Attention("d", "bf16", heads=(4, 2), depth=16, packed=(5, 130, 1, 64))
DECODE = Attention("d", "bf16", batch=3, heads=(4, 2), rows=1, keys=64, depth=16)
PAGED = Attention("d", "bf16", batch=3, heads=(4, 2), rows=1, keys=64, depth=16, page=16)
SMALL = Attention("d", "e4m3", batch=2, heads=(4, 2), rows=70, keys=70, depth=16)
EVERY = (SQUARE, CAUSAL, SHARED, WINDOW, OWN_WINDOW, PACKED, DECODE, PAGED, SMALL)


@pytest.fixture(autouse=True)
def small_cache(device):
    device.l2 = 1 << 12


@pytest.fixture
def ours(device, attended, monkeypatch):
    """`cute.attention`, 0.5 us long; `wrong` is added to what it writes."""

    class Ours:
        wrong = 0.0
        calls = []

        def __call__(self, q, k, v, *, out, causal, window, schedule, **options):
            self.calls.append(options | {"schedule": schedule, "window": window})

            def work():
                self.compute(*(x.array for x in (q, k, v, out)), causal, window, options)

            device.launch("ours", 5e-7, work)

        def compute(self, q, k, v, out, causal, window, options):
            left = None if window is None else window[0]
            scales = [
                options[name].array if name in options else 1
                for name in ("scale_q", "scale_k", "scale_v")
            ]
            spans = [(one, slice(None)) for one in range(len(q))]
            if "cu_seqlens" in options:
                bounds = options["cu_seqlens"][0].array
                spans = [(0, slice(*pair)) for pair in pairwise(bounds)]
            for one, span in spans:
                keys, values = k[one % len(k), :, span], v[one % len(v), :, span]
                if "block_table" in options:
                    pages = options["block_table"].array[one]
                    keys, values = (np.concatenate(list(each[pages]), axis=1) for each in (k, v))
                exact = attended(q[one, :, span], keys, values, causal, left, scales)
                out[one, :, span] = (exact + self.wrong).astype(out.dtype)

    made = Ours()
    made.calls = []
    monkeypatch.setattr(cute, "attention", made)
    return made


def results_of(torch, case):
    makers = make_contenders(torch, case, {OURS: "tile = (64,64)"}, peers=False)
    results = measure(torch, case, makers, PLAN)
    return {result.name: result for result in results}


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_what_is_right_passes_and_what_is_not_does_not(torch, ours, case):
    """The references against attention written once more, in NumPy."""
    found = results_of(torch, case)
    assert {name: result.failure for name, result in found.items() if result.failure} == {
        name: "NotImplementedError: " + name.split(",")[0] + " takes shared heads as they are"
        for name in found
        if "repeated" in name
    }
    mine = found[OURS]
    assert len(mine.ms) == 4
    assert all(0 < one <= 2 * other for one, other in zip(mine.errors, mine.allowance, strict=True))
    assert mine.later_errors == mine.errors
    ours.wrong = 0.03
    mine = results_of(torch, case)[OURS]
    assert mine.errors[1] > 2 * mine.allowance[1]


def test_a_mean_that_is_off_is_wrong_though_the_largest_error_is_not(torch, ours):
    ours.wrong = 0.0012
    mine = results_of(torch, SQUARE)[OURS]
    assert mine.errors[0] < 2 * mine.allowance[0]
    assert mine.errors[1] > 2 * mine.allowance[1]


@pytest.mark.parametrize(
    ("heads", "pieces"),
    [(0, [(1, 1)] * 6), (3, [(1, 2)] * 3), (5, [(2, 2), (1, 2)]), (6, [(3, 2)])],
)
def test_errors_are_the_same_however_few_heads_fit(torch, ours, monkeypatch, heads, pieces):
    case = replace(SQUARE, batch=3)
    whole = results_of(torch, case)[OURS]
    monkeypatch.setattr(attention_reference, "_MOST_BYTES", heads * 8 * case.keys * case.depth)
    parts = results_of(torch, case)[OURS]
    assert parts.errors == pytest.approx(whole.errors)
    assert parts.allowance == pytest.approx(whole.allowance)
    exact = case.exact(torch, case.make_operands(torch, 0))
    assert [part.shape[:2] for part in exact] == pieces


def row(torch, case, name=OURS):
    request = {
        "case": case.name, "schedules": {name: None}, "peers": False,
        "plan": {"rounds": 4, "batch_ms": 0.01, "cool_down": 0.0},
    }  # fmt: skip
    said = []
    assert serve(torch, json.loads(json.dumps(request)), said.append)
    return row_of(case, json.loads(json.dumps(said[-1])), name)


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(cases, "CASES", EVERY)


def test_the_yardstick_is_the_faster_library(torch, ours, table):
    made = row(torch, SQUARE)
    assert (made.yardstick, made.right, made.failure) == ("cuDNN", True, None)
    assert list(made.seconds) == [
        "inputs", "reference", "cuDNN", "flash", OURS, "graphs", "timing", "later errors", "freeing"
    ]  # fmt: skip
    assert all(spent >= 0 for spent in made.seconds.values())
    assert made.ratio == pytest.approx(2, rel=0.01)
    torch.nn.seconds["flash"] = 7.5e-7
    assert row(torch, SQUARE).yardstick == "flash"
    assert row(torch, SQUARE).ratio == pytest.approx(1.5, rel=0.01)


def test_a_library_that_refuses_leaves_the_other(torch, ours, table):
    torch.nn.refusing = {"cuDNN"}
    assert row(torch, SQUARE).yardstick == "flash"
    torch.nn.refusing = {"cuDNN", "flash"}
    made = row(torch, SQUARE)
    assert made.verdict == "FAILED"
    assert made.failure == "cuDNN: RuntimeError: No available kernel. Aborting execution."


def test_heads_are_repeated_only_where_sharing_is_refused(torch, ours, table):
    assert row(torch, SHARED).yardstick == "cuDNN"
    torch.nn.refusing = {"shared heads"}
    made = row(torch, SHARED)
    assert made.yardstick == "cuDNN, heads repeated"
    assert made.ratio == pytest.approx(2, rel=0.01)


def test_windows_and_packing_are_compared_for_equal_work(torch, ours, table):
    share = sum(min(i + 1, 8) for i in range(100)) / (100 * 100 / 2)
    made = row(torch, WINDOW)
    assert (made.yardstick, made.right) == ("cuDNN", True)
    assert made.ratio == pytest.approx(2 * share, rel=0.01)
    made = row(torch, OWN_WINDOW)
    assert made.yardstick == "full causal"
    assert made.ratio == pytest.approx(share, rel=0.01)
    made = row(torch, PACKED)
    assert made.yardstick == "equal lengths"
    assert made.ratio == pytest.approx((25 + 130**2 + 1 + 64**2) / (4 * 50**2), rel=0.01)
    equal = [call for call in ours.calls if "cu_seqlens" not in call]
    assert equal


def test_decoding_is_compared_with_the_memory(torch, ours, table):
    made = row(torch, DECODE)
    assert made.yardstick == ""
    assert made.ratio == pytest.approx(made.bandwidth)
    assert DECODE.bytes == 2 * 3 * 2 * 64 * 16 * 2
    assert made.ratio == pytest.approx(DECODE.bytes / 5e-7 / 3.35e12, rel=0.01)


def test_an_argument_that_is_not_there_is_a_row(torch, table, monkeypatch):
    def without(q, k, v, *, out, causal, window, schedule):
        raise AssertionError

    monkeypatch.setattr(cute, "attention", without)
    assert "unexpected keyword argument 'block_table'" in row(torch, PAGED).failure


def test_eight_bits_are_compared_with_sixteen_of_the_same_values(torch, ours, table):
    made = row(torch, SMALL)
    assert (made.yardstick, made.right) == ("cuDNN", True)
    operands = SMALL.make_operands(torch, 0)
    assert operands.q.element_size() == 1
    scale = operands.options["scale_q"].array.reshape(1, -1, 1, 1)
    wide = operands.plain[0].array.astype(np.float32)
    assert np.allclose(wide, operands.q.array.astype(np.float32) * scale, rtol=2**-8)


def test_pages_are_in_random_order_and_used_once(torch):
    operands = PAGED.make_operands(torch, 1)
    table = operands.options["block_table"].array
    assert operands.k.shape == (12, 2, 16, 16)
    assert table.shape == (3, 4)
    assert sorted(table.ravel()) == list(range(12))
    assert list(table.ravel()) != list(range(12))


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "case", [SQUARE, CAUSAL, SHARED, WINDOW, PACKED, DECODE, PAGED, SMALL], ids=lambda c: c.name
)
def test_kernels_compiled_ahead_are_those_of_the_call(torch, case):
    operands = case.make_operands(torch, 0)
    arrays = [getattr(operands, name).array for name in ("q", "k", "v", "out")]
    options = {
        name: tuple(each.array for each in value) if isinstance(value, tuple) else value.array
        for name, value in operands.options.items()
    }
    same = cute.compile(
        cute.attention, *arrays[:3], out=arrays[3], causal=case.causal,
        window=None if case.window is None else (case.window, 0), arch="sm_90a", **options,
    )  # fmt: skip
    assert case.compiled(None, "sm_90a").ptx == same.ptx


class Played:
    """A supervisor of a worker in which yardsticks take 1 ms, and ours `ms`."""

    machine = {"device": "H100"}

    def __init__(self, ms):
        self.ms = ms
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request, hear=lambda what: None):
        self.asked.append(request)
        names = [*cases.named(request["case"]).yardsticks, *request["schedules"]]
        return {
            "results": [
                {
                    "name": name, "ms": [self.ms if name in request["schedules"] else 1.0] * 3,
                    "errors": [0.5, 0.1], "allowance": [0.4, 0.1], "later_errors": [],
                    "failure": None, "launches": 1, "captured": True, "started": 0, "stopped": 0,
                }
                for name in names
            ]
        }  # fmt: skip


@pytest.mark.parametrize(("ms", "code", "verdict"), [(0.5, 0, "goal"), (2.0, 1, "MISSED")])
def test_the_command_prints_its_table(capsys, tmp_path, ms, code, verdict):
    data, plot = tmp_path / "a.json", tmp_path / "a.svg"
    only = ["--only", "d128 (full|causal) (1k|4k)", "--check", "--schedule", "stages = 3"]
    worker = Played(ms)
    assert attention.main([*only, "--json", str(data), "--plot", str(plot)], worker) == code
    out = capsys.readouterr().out
    assert out.count(f"{verdict}, to cuDNN") == 4
    assert f"geometric mean, d128 causal: {1 / ms:.3f} of 2/2 rows (goal 1.08)" in out
    assert [request["schedules"] for request in worker.asked] == [{OURS: "stages = 3"}] * 4
    written = json.loads(data.read_text())
    assert written["geometric_means"]["d128 full"] == pytest.approx(1 / ms)
    assert {(row["yardstick"], row["allowance"]) for row in written["results"]} == {("cuDNN", 0.4)}
    assert "ratio to the better of cuDNN and flash on H100" in plot.read_text()


def test_the_command_takes_attention_alone(capsys):
    for arguments in (["--only", "8192.3 bf16"], ["--peers"]):
        with pytest.raises(SystemExit):
            attention.main(arguments, Played(1.0))
    assert "expected to match a case, got '8192.3 bf16'" in capsys.readouterr().err
    worker = Played(1.0)
    attention.main(["--quick"], worker)
    assert {cases.named(request["case"]).kind for request in worker.asked} == {"attention"}


def test_schedules_of_attention_are_swept(capsys):
    worker = Played(0.8)
    assert sweep.main(["attention.*d128 full 4k", "stages = 3", "default"], worker) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("4k 16x128 full bf16, cuDNN 549.8 TFLOP/s, gate 0.95")
    assert [line.split()[0] for line in lines[2:]] == ["1.250", "1.250"]
    assert sweep.main(["decode 8k .*decode bf16", "default"], worker) == 0
    assert "0.200  0.200-0.200" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("section", "rows", "gate", "goal"),
    [
        ("d128 full", 5, 0.95, 1.05),
        ("d128 causal", 5, 0.95, 1.08),
        ("d64 full", 6, 0.95, 1.08),
        ("d64 causal", 6, 0.95, 1.08),
        ("d256", 4, 0.93, 1.0),
        ("gqa", 2, 0.97, 1.05),
        ("window", 1, 1.0, 1.2),
        ("own window", 1, 0.8, 0.9),
        ("packed", 2, 0.9, 0.97),
        ("decode", 6, 0.7, 0.88),
        ("edited", 6, 0.95, 1.0),
        ("e4m3", 2, 1.3, 1.5),
    ],
)
def test_sections(section, rows, gate, goal):
    inside = cases.select(f"attention {section}")
    assert len(inside) == rows
    assert {(case.gate, case.goal) for case in inside} == {(gate, goal)}
    if section[0] == "d" and section != "decode":
        assert {case.batch * case.keys for case in inside} == {16384}
        assert {case.heads[0] * case.depth for case in inside} == {2048}


def test_packed_sequences_are_as_many_tokens_as_equal_ones():
    (case, _) = cases.select("attention packed")
    (other,) = case.companions
    assert len(case.packed) == 16
    assert (min(case.packed), max(case.packed)) == (64, 4096)
    assert sum(case.packed) == other.batch * other.keys


@pytest.mark.some(2)
@pytest.mark.parametrize("edit", ["", "alibi", "documents"])
def test_edits_are_those_of_the_example(torch, edit):
    """The reference, and what the program computes, against the example's own in NumPy."""
    case = Edited(
        "d", "f16", batch=1, heads=(2, 2), rows=130, keys=130, depth=16, causal=True, edit=edit
    )
    operands = case.make_operands(torch, 0)
    q, k, v = (each.array.astype(np.float64) for each in (operands.q, operands.k, operands.v))
    scores = q @ k.swapaxes(-1, -2) / 4
    row, key = np.arange(130)[:, None], np.arange(130)[None]
    seen = key <= row
    if edit == "alibi":
        slopes = 2.0 ** (-0.5 * np.arange(1, 3)) * np.log(2)
        scores = scores - (row - key) * slopes[:, None, None]
    if edit == "documents":
        seen = seen & (row // 96 == key // 96)
    weights = np.exp(np.where(seen, scores, -np.inf))
    exact = weights @ v / weights.sum(-1, keepdims=True)
    (sampled,) = case.exact(torch, operands)
    assert np.allclose(sampled.array, exact[0][:, [0, 61, 122, 129]], atol=1e-9)
    arrays = [each.array for each in (operands.q, operands.k, operands.v, operands.out)]
    case.ours(None)(Tensors(*arrays, {}))
    assert np.abs(arrays[3] - exact).max() < 2e-3


def test_the_program_without_an_edit_is_compared_with_the_attention_of_the_library():
    rows = [case for case in cases.select("edited", kind="attention") if not case.edit]
    assert [case.depth for case in rows] == [64, 128]
    assert all(case.yardsticks == ("cute.attention",) for case in rows)
    assert not any(case.companions for case in rows)


def test_an_edit_is_compared_with_the_program_without(torch, ours, monkeypatch):
    case = Edited("d", "f16", batch=1, heads=(2, 2), rows=64, keys=64, depth=16, causal=True,
                  edit="alibi")  # fmt: skip
    monkeypatch.setattr(cases, "CASES", (case,))

    def played(self, schedule):
        def call(operands):
            def work():
                exact = case.exact(torch, operands)[0].array
                operands.out.array[...] = 0
                operands.out.array[0][:, [0, 61, 63]] = exact.astype(np.float16)

            torch.nn.device.launch(self.name, 2e-6 if self.edit else 1e-6, work)

        return call

    monkeypatch.setattr(Edited, "ours", played)
    made = row(torch, case)
    assert (made.yardstick, made.right) == ("unedited", True)
    assert made.ratio == pytest.approx(0.5, rel=0.01)

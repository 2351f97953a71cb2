"""What `cute.gemm` does to its sums before it stores them: scalars, addends, activations, types,
the tile before the activation. For sm_90a results leave some columns at a time by TMA.
"""

from __future__ import annotations

import re
from functools import partial
from math import erf

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas

BF16 = ml_dtypes.bfloat16
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
ARCHES = ("sm_80", "sm_90a")
SHAPE = (72, 136, 40)
SCHEDULES = {
    "sm_80": "tile = (64,64,32), warps = (2,2), stages = 2",
    "sm_90a": "tile = (64,128,64), stages = 2",
}


def integers(shape, dtype=np.float16, seed=0, low=-3, high=4):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def in_columns(array):
    """The same values, column-major."""
    return np.ascontiguousarray(array.T).T


def operands(shape=SHAPE, dtype=np.float16):
    m, n, k = shape
    return integers((m, k), dtype, 1), in_columns(integers((k, n), dtype, 2))


def run(a, b, arch="sm_90a", **options):
    options.setdefault("schedule", SCHEDULES.get(arch))
    return cute.gemm(a, b, arch=arch, backend="emulator", **options)


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def wide(array):
    return array.astype(np.float64)


def same(got, want):
    """Equal after one rounding of the exact values to the result's type."""
    return np.array_equal(wide(got), wide(np.asarray(want).astype(got.dtype)))


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    ("dtype", "major"), [(np.float16, "columns"), (BF16, "rows"), (np.float32, "columns")]
)
def test_addend(arch, dtype, major):
    """C of another type and major than D; alpha and beta are values of one kernel."""
    a, b = operands()
    c = integers(SHAPE[:2], dtype, 3)
    c = in_columns(c) if major == "columns" else c
    for alpha, beta in ((2.0, -3.0), (0.0, 0.5)):
        want = alpha * exact(a, b) + beta * wide(c)
        assert same(run(a, b, arch, c=c, alpha=alpha, beta=beta), want)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("major", ["rows", "columns"])
def test_addend_is_overwritten(arch, major):
    a, b = operands()
    c = integers(SHAPE[:2], np.float16, 3)
    c = in_columns(c) if major == "columns" else c
    want = exact(a, b) + 2 * wide(c)
    assert run(a, b, arch, c=c, beta=2.0, out=c) is c
    assert same(c, want)


@pytest.mark.parametrize("arch", ARCHES)
def test_addend_broadcasts_over_the_batch(arch):
    a, b = integers((3, 72, 40), seed=1), integers((3, 40, 136), seed=2)
    c = integers((1, 72, 136), np.float32, 3)
    assert same(run(a, b, arch, c=c, beta=1.0), exact(a, b) + wide(c))
    assert same(run(a, b, arch, c=c[0], beta=1.0), exact(a, b) + wide(c))


@pytest.mark.parametrize("swap", ["no", "yes"])
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32])
def test_bias_runs_along_the_columns(dtype, swap):
    """Of the transposed product, along the rows."""
    a, b = operands()
    bias = integers(SHAPE[1], dtype, 4, -9, 10)
    schedule = f"tile = (64,64,64), stages = 2, swap_ab = {swap}"
    assert same(run(a, b, bias=bias, schedule=schedule), exact(a, b) + wide(bias))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(erf)(x / 2**0.5)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


@pytest.mark.some(5)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_as_good_as_f32(arch, name):
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    bias = rng.standard_normal(64).astype(np.float32)
    sums = exact(a, b) + wide(bias)
    want = ACTIVATIONS[name](sums)
    got = run(a, b, arch, bias=bias, activation=name, out_dtype="f32")
    # gelu is a formula of 1.5e-7 (Abramowitz and Stegun 7.1.26), times the sum.
    assert np.abs(got - want).max() <= 3e-7 * np.abs(sums).max() + 1e-6


@pytest.mark.parametrize("arch", ARCHES)
def test_activation_is_any_function_of_the_tile(arch):
    a, b = operands()

    def leaky(x):
        return cute.where(x > 0.0, x, x * 0.5) + 1.0

    sums = exact(a, b)
    assert same(run(a, b, arch, activation=leaky), np.where(sums > 0, sums, sums * 0.5) + 1)


def test_activation_of_doubles_in_f32():
    """What the error for a name proposes."""
    a, b = (np.random.default_rng(seed).standard_normal((64, 64)) for seed in range(2))
    got = run(a, b, activation=lambda x: cute.silu(x.to(cute.f32)))
    want = (sums := a @ b) / (1 + np.exp(-sums))
    assert got.dtype == np.float64
    assert np.abs(got - want).max() < 1e-5


def test_activation_takes_numbers_from_around_it():
    """Functions that differ in a captured number are different kernels."""
    a, b = operands()

    def at_most(bound):
        return lambda x: cute.minimum(x, bound)

    for bound in (1.0, 4.0, 1.0):
        assert same(run(a, b, activation=at_most(bound)), np.minimum(exact(a, b), bound))


@pytest.mark.parametrize("arch", ARCHES)
def test_activation_sees_coordinates_of_the_whole_tile(arch):
    """Also where a tile is computed some columns at a time."""
    a, b = operands((64, 128, 32))

    def ramp(x):
        return x + cute.coord(x, 1, 0).to(cute.f32) * 2.0 + cute.coord(x, 0, 0).to(cute.f32)

    got = run(a, b, arch, activation=ramp, out_dtype="f32")
    tile = int(re.search(r"tile = \(\d+,(\d+)", SCHEDULES[arch])[1])
    rows, columns = np.mgrid[0:64, 0:128]
    assert same(got, exact(a, b) + 2 * (columns % tile) + rows)


OUT = {"f16": np.float16, "bf16": BF16, "f32": np.float32, "e4m3": E4M3, "e5m2": E5M2}


@pytest.mark.some(5)
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
@pytest.mark.parametrize("out", OUT)
def test_types_of_the_result(arch, out):
    """8-bit floats saturate and keep NaN."""
    schedule = SCHEDULES["sm_90a" if arch == "sm_90a" else "sm_80"]
    a, b = operands()
    a[0] = 3.0
    b[:, 0] = 500.0
    a[1] = np.nan
    with np.errstate(over="ignore"):
        want = exact(a, b)
        got = run(a, b, arch, out_dtype=out, schedule=schedule)
        largest = float(ml_dtypes.finfo(OUT[out]).max)
        bounded = np.clip(want, -largest, largest) if out in ("e4m3", "e5m2") else want
        assert got.dtype == OUT[out]
        assert np.array_equal(wide(got), wide(bounded.astype(OUT[out])), equal_nan=True)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kinds", [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)])
def test_integers_are_summed_whole(arch, kinds):
    rng = np.random.default_rng(6)
    info = [np.iinfo(kind) for kind in kinds]
    shapes = ((72, 160), (160, 40))
    a, b = (
        rng.integers(i.min, i.max + 1, shape).astype(kind)
        for i, kind, shape in zip(info, kinds, shapes, strict=True)
    )
    schedule = {"sm_80": "tile = (64,64,64), warps = (2,2)", "sm_90a": "tile = (64,32,128)"}[arch]
    got = run(a, in_columns(b), arch, schedule=schedule)
    assert got.dtype == np.int32
    assert np.array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.some(6)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("swap", ["no", "yes"])
@pytest.mark.parametrize("kinds", [("f16", "f16"), ("f32", "bf16"), ("bf16", "f32")])
def test_tile_before_the_activation(arch, swap, kinds):
    a, b = operands()
    bias = integers(SHAPE[1], np.float32, 4, -9, 10)
    aux = np.full(SHAPE[:2], 77, OUT[kinds[1]])
    schedule = SCHEDULES["sm_80"] if arch == "sm_80" else "tile = (64,64,64), stages = 2"
    got = run(
        *(a, b, arch),
        bias=bias,
        alpha=2.0,
        activation="relu",
        aux=aux,
        out_dtype=kinds[0],
        schedule=f"{schedule}, swap_ab = {swap}",
    )
    sums = 2 * exact(a, b) + wide(bias)
    assert same(aux, sums)
    assert same(got, np.maximum(sums, 0))


def test_tile_before_the_activation_in_8_bits():
    a, b = operands()
    aux = np.empty(SHAPE[:2], E4M3)
    got = run(a, b, activation="relu", aux=aux, out_dtype="f32")
    assert same(aux, np.clip(exact(a, b), -448, 448))
    assert same(got, np.maximum(exact(a, b), 0))


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("arch", "schedule"),
    [
        ("sm_80", SCHEDULES["sm_80"]),
        ("sm_90a", SCHEDULES["sm_90a"]),
        ("sm_90a", "tile = (128,256,64), cluster = (2,1)"),
        ("sm_90a", "tile = (192,128,64)"),
        ("sm_90a", "tile = (128,192,64), cluster = (1,2)"),
    ],
)
def test_everything_at_once_and_out_is_the_addend(arch, schedule):
    a, b = operands((200, 264, 40))
    c, bias = integers((200, 264), np.float32, 3), integers(264, np.float16, 4)
    aux = in_columns(np.empty((200, 264), BF16))
    sums = 2 * exact(a, b) + 3 * wide(c) + wide(bias)
    options = {"c": c, "alpha": 2.0, "beta": 3.0, "bias": bias, "aux": aux, "out": c}
    run(a, b, arch, activation="relu", schedule=schedule, **options)
    assert same(aux, sums)
    assert same(c, np.maximum(sums, 0))


@pytest.mark.parametrize("arch", ARCHES)
def test_zero_k_and_empty_outputs(arch):
    a, b = np.empty((72, 0), np.float16), np.empty((0, 136), np.float16)
    c, bias = integers((72, 136), seed=3), integers(136, seed=4)
    aux = np.empty((72, 136), np.float32)
    got = run(a, b, arch, c=c, beta=2.0, bias=bias, activation="relu", aux=aux)
    assert same(aux, 2 * wide(c) + wide(bias))
    assert same(got, np.maximum(2 * wide(c) + wide(bias), 0))
    empty = run(np.empty((0, 8), "f2"), np.empty((8, 5), "f2"), arch, bias=np.zeros(5, "f2"))
    assert empty.shape == (0, 5)


@pytest.mark.some(2)
@pytest.mark.parametrize("to", [2, 4, 8])
def test_results_at_any_address(to):
    """Without TMA the same columns are stored from registers."""
    a, b = operands()
    whole = np.zeros((72, 160), np.float16)
    start = to // 2
    out, aux = whole[:, start : start + 136], np.zeros((72, 144), np.float32)[:, 1:137]
    c = integers((72, 136), seed=3)
    run(a, b, c=c, beta=1.0, activation="relu", aux=aux, out=out)
    assert same(aux, exact(a, b) + wide(c))
    assert same(out, np.maximum(exact(a, b) + wide(c), 0))
    assert not whole[:, :start].any()
    assert not whole[:, start + 136 :].any()


BAD = {
    "aux shape": ({"aux": np.zeros((3, 3), "f2")}, ValueError, "aux: expected shape"),
    "c shape": ({"c": np.zeros((3, 3), "f2"), "beta": 1.0}, ValueError, "c: expected shape"),
    "bias rank": ({"bias": np.zeros((1, 136), "f2")}, ValueError, "bias: expected shape"),
    "out type": ({"out": np.zeros((72, 136)), "out_dtype": "f16"}, TypeError, "out: expected f16"),
    "alpha": ({"alpha": "2"}, TypeError, "alpha: expected a number"),
}


BAD_INTEGERS = {
    "alpha": ({"alpha": 2.0}, ValueError, "alpha: expected 1 with results of i32"),
    "beta": (
        {"c": np.zeros((72, 136), "i4"), "beta": 1.0},
        ValueError,
        "beta: expected 0 with results of i32",
    ),
    "activation": ({"activation": "gelu"}, TypeError, "activation: expected 'relu' or a function"),
}


@pytest.mark.parametrize("case", BAD_INTEGERS)
def test_results_of_integers_stay_integers(case):
    options, kind, message = BAD_INTEGERS[case]
    with pytest.raises(kind, match=message):
        run(*operands(dtype=np.int8), schedule=None, **options)


@pytest.mark.parametrize("arch", ARCHES)
def test_sums_of_integers_become_floats(arch):
    a, b = operands(dtype=np.int8)
    c, bias = integers(SHAPE[:2], BF16, 3), integers(SHAPE[1], np.float32, 4)
    options = {"alpha": 0.5, "c": c, "beta": 2.0, "bias": bias, "activation": "relu"}
    want = np.maximum(exact(a, b) / 2 + 2 * wide(c) + wide(bias), 0)
    assert same(run(a, b, arch, out_dtype="bf16", schedule=None, **options), want)


BAD_ACTIVATIONS = {
    "number": (lambda x: 3.0, "got float"),
    "nothing": (lambda x: None, "got NoneType"),
    "shape": (lambda x: cute.row_max(x), r"got one of shape \(64, 1\)"),
}


@pytest.mark.parametrize("case", BAD_ACTIVATIONS)
def test_activation_gives_a_tile_of_the_same_shape(case):
    activation, message = BAD_ACTIVATIONS[case]
    with pytest.raises(TypeError, match=f"activation: expected .*{message}"):
        run(*operands(), activation=activation)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument(case):
    options, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        run(*operands(), **options)


@pytest.mark.some(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schedule", ["cluster = (2,1)", "roles = alternate"])
def test_late_copies(seed, schedule, monkeypatch):
    """Asynchronous copies complete late, each time in another order."""
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=seed))
    a, b = operands((136, 128, 40))
    c, aux = integers((136, 128), np.float32, 3), np.empty((136, 128), BF16)
    schedule = f"tile = (64,128,64), {schedule}"
    run(a, b, c=c, beta=1.0, activation="relu", aux=aux, out=c, schedule=schedule)
    sums = exact(a, b) + integers((136, 128), np.float32, 3)
    assert same(aux, sums)
    assert same(c, np.maximum(sums, 0))


FAULTS = {
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", "CD-A1"),
    "no wait for what stores read": (r"cp\.async\.bulk\.wait_group\.read 0;", "CD-E7"),
    "no barrier": (r"(bar|barrier)\.sync(\.aligned)? %r\d+, 128;", "CD-A1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_missing_instruction_is_found(fault, monkeypatch):
    """Two results that share steps through shared memory need each fence, wait and barrier."""
    pattern, code = FAULTS[fault]
    original = emulator.launch

    def launch(ptx, *arguments):
        changed, count = re.subn(pattern, "", ptx)
        assert count
        return original(changed, *arguments)

    monkeypatch.setattr(emulator, "launch", launch)
    a, b = operands((128, 256, 64))
    with pytest.raises(emulator.EmulatorError) as caught:
        run(a, b, aux=np.empty((128, 256), BF16), schedule="tile = (128,256,64)")
    assert caught.value.code == code


def spec(*shape, dtype="bf16", columns=False):
    strides = (1, None) if columns else None
    return cute.TensorSpec(shape, dtype, strides=strides)


M, N, K = 8192, 8192, 4096
EPILOGUES = {
    "plain": {},
    "c": {"c": spec(M, N), "beta": 1.0},
    "c f32": {"c": spec(M, N, dtype="f32"), "beta": 1.0},
    "bias gelu": {"bias": spec(N), "activation": "gelu"},
    "bias silu aux": {"bias": spec(N, dtype="f32"), "activation": "silu", "aux": spec(M, N)},
    "all": {
        "c": spec(M, N, dtype="f32"),
        "beta": 1.0,
        "bias": spec(N),
        "activation": "gelu",
        "aux": spec(M, N),
    },
    "f32": {"out_dtype": "f32"},
    "e4m3": {"out_dtype": "e4m3", "scale_a": spec(1, dtype="f32")},
}


EVERY = [
    pytest.param(
        *(kind, tile, epilogue), marks=() if kind == "bf16" and tile else (pytest.mark.long,)
    )
    for kind, tile in (("bf16", (128, 256, 64)), ("bf16", None), ("f32", None), ("e4m3", None))
    for epilogue in EPILOGUES
]


@pytest.mark.some(2)
@pytest.mark.parametrize(("kind", "tile", "epilogue"), EVERY)
def test_results_leave_by_tma_and_nothing_spills(kind, tile, epilogue):
    """stmatrix of 16-bit elements and TMA stores for every result, and no store from registers;
    ptxas says nothing, also where a thread holds 128 sums.
    """
    kernel = cute.compile(
        cute.gemm,
        spec(M, K, dtype=kind),
        spec(K, N, dtype=kind, columns=True),
        arch="sm_90a",
        backend="emulator",
        schedule=None if tile is None else cute.Schedule(tile=tile, cluster=(2, 1)),
        **EPILOGUES[epilogue],
    )
    text = kernel.ptx
    out = EPILOGUES[epilogue].get("out_dtype", "f32" if kind == "f32" else "bf16")
    maps = set(re.findall(r"cp\.async\.bulk\.tensor\.2d\.global\S* \[(%\w+),", text))
    assert len(maps) == 1 + ("aux" in EPILOGUES[epilogue])
    assert "st.global" not in text
    # The loading role brings C to L2 while the computing ones still sum products.
    loading = text[text.index("setmaxnreg.dec") : text.index("setmaxnreg.inc")]
    assert ("cp.async.bulk.prefetch.tensor" in loading) == ("c" in EPILOGUES[epilogue])
    assert ("stmatrix" in text) == (out == "bf16" or "aux" in EPILOGUES[epilogue])
    if ptxas.candidates():
        assembly = ptxas.assemble(text, "sm_90a")
        assert [message for message in assembly.messages if message.is_loss] == []
        assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)


@pytest.mark.some(1)
@pytest.mark.parametrize("how", ["direct", "misaligned"])
def test_results_from_registers_leave_in_columns_too(how):
    """Where TMA cannot store them, or is not to; nothing spills."""
    out = cute.TensorSpec((M, N), "bf16", align=2 if how == "misaligned" else 16)
    schedule = "tile = (128,256,64)" + (", epilogue = direct" if how == "direct" else "")
    kernel = cute.compile(
        cute.gemm,
        spec(M, K),
        spec(K, N, columns=True),
        arch="sm_90a",
        backend="emulator",
        schedule=schedule,
        out=out,
        **EPILOGUES["c f32"],
    )
    assert "st.global" in kernel.ptx
    if ptxas.candidates():
        assembly = ptxas.assemble(kernel.ptx, "sm_90a")
        assert [message for message in assembly.messages if message.is_loss] == []
        assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86"])
@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_activations_beside_accumulators_do_not_spill(arch, activation):
    tensor, vector = (cute.TensorSpec((None,) * rank, cute.f16) for rank in (2, 1))
    options = {"bias": vector, "activation": activation}
    kernel = cute.compile(cute.gemm, tensor, tensor, arch=arch, **options)
    ptxas.check_strict(ptxas.assemble(kernel.ptx, arch), kernel.ptx)


@pytest.mark.parametrize("tile", ["(64,160,64)", "(128,64,64)"])
def test_results_leave_some_columns_at_a_time_in_the_order_of_memory(tile):
    """Neighboring lanes store neighbors, of no more columns than a line at once."""
    rng = np.random.default_rng(41)
    m, n, k = (int(each) for each in rng.integers(2, 12, 3) * 8)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    schedule = f"tile = {tile}, roles = specialized, epilogue = smem"
    made = cute.gemm(a, b.T, arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(made, a.astype(np.float32) @ b.T.astype(np.float32))
    kernel = cute.compile(cute.gemm, a, b.T, arch="sm_90a", schedule=schedule)
    groups = 2 if tile.startswith("(128") else 1
    loads = [part.count("ld.shared.v4.b32") for part in kernel.ptx.split("bar.sync")]
    # 64 rows of a warpgroup in vectors of 8, as many columns as a warp has lanes.
    assert 0 < max(loads) <= 64 * 32 // 8 // 128
    assert sum(loads) == 64 * groups * int(tile.split(",")[1]) // 8 // (128 * groups)

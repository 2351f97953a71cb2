"""docs/tutorial/from-triton.md: each function of `triton.language` that is the same here, against
NumPy; those that are not there have no such name.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial" / "from-triton.md").read_text()
ROWS = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*) \| (the same|another way|not) \|$", PAGE, re.M)
KINDS = {name: kind for names, _, kind in ROWS for name in re.findall(r"`(\w+)`", names)}
LINES = {name: line for names, line, _ in ROWS for name in re.findall(r"`(\w+)`", names)}
SAME = [name for name, kind in KINDS.items() if kind == "the same"]
# What `triton.language` has in 3.6, without submodules of its own.
OF_TRITON = re.findall(
    r"\w+",
    """
    PropagateNan TRITON_MAX_TENSOR_NUMEL abs add advance arange argmax argmin associative_scan
    assume atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg
    atomic_xor bfloat16 bitonic_merge block_type broadcast broadcast_to cast cat cdiv ceil clamp
    condition const constexpr constexpr_type cos cumprod cumsum debug_barrier device_assert
    device_print div_rn dot dot_scaled dtype erf exp exp2 expand_dims extra fdiv flip float16
    float32 float64 float8e4b15 float8e4b8 float8e4nv float8e5 float8e5b16 floor fma full gather
    histogram inline_asm_elementwise int1 int16 int32 int64 int8 interleave join load
    load_tensor_descriptor log log2 make_block_ptr make_tensor_descriptor map_elementwise math
    max max_constancy max_contiguous maximum min minimum mul multiple_of num_programs
    pair_uniform_to_normal permute philox philox_impl pi32_t pointer_type program_id rand rand4x
    randint randint4x randn randn4x range ravel reduce reduce_or reshape rsqrt sigmoid sin slice
    softmax sort split sqrt sqrt_rn static_assert static_print static_range store
    store_tensor_descriptor sub sum swizzle2d target_info tensor tensor_descriptor topk trans
    tuple uint16 uint32 uint64 uint8 uint_to_uniform_float umulhi view void where xor_sum zeros
    zeros_like
""",
)

# What the line of a row gives of tiles x, y and z.
SHAPE = 8, 64
OF_TILES = {
    "abs": np.abs,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "exp2": np.exp2,
    "floor": np.floor,
    "log": lambda x: np.log(np.abs(x)),
    "log2": lambda x: np.log2(np.abs(x)),
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    "maximum": lambda x, y: np.maximum(x, y),
    "minimum": lambda x, y: np.minimum(x, y),
    "clamp": lambda x: np.clip(x, -0.5, 0.5),
    "fma": lambda x, y, z: x * y + z,
    "where": lambda x, y: np.where(x > y, x, y),
    "sum": lambda x: x.sum(1, keepdims=True),
    "max": lambda x: x.max(1, keepdims=True),
    "min": lambda x: x.min(1, keepdims=True),
    "argmax": lambda x: x.argmax(1)[:, None],
    "argmin": lambda x: x.argmin(1)[:, None],
    "reduce": lambda x: x.max(1, keepdims=True),
    "topk": lambda x: -np.sort(-x, 1)[:, :3],
    "full": lambda x: np.full_like(x, 3),
    "zeros": np.zeros_like,
    "broadcast_to": lambda x: np.broadcast_to(x[:1], SHAPE),
    "range": lambda x: x * 5,
    "cumsum": lambda x: np.abs(x).cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "sort": lambda x: np.sort(x, 1),
    "flip": lambda x: x[:, ::-1],
    "reshape": lambda x: x.reshape(SHAPE[::-1]),
    "histogram": lambda x: np.bincount(np.abs(x * 4).astype(int).ravel(), minlength=9)[None, :9],
}


def evaluated(name, x, y, z):
    """The line of a row, on tiles."""
    line = LINES[name].split("`")[1]
    if name in ("log", "log2", "rsqrt", "sqrt", "cumsum"):
        x = cute.abs(x)
    if name == "broadcast_to":
        x = x[:1, :]
    if name == "histogram":
        x = cute.abs(x * 4).to(cute.i32)
    if name == "range":
        total = cute.zeros(SHAPE)
        for _ in eval(line, {"cute": cute, "n": 5}):
            total += x
        return total
    scope = {"cute": cute, "x": x, "y": y, "z": z, "low": -0.5, "high": 0.5, "k": 3}
    scope |= {"combine": cute.maximum, "condition": x > y, "a": x, "b": y}
    shape = SHAPE[::-1] if name == "reshape" else SHAPE
    scope |= {"shape": shape, "value": 3, "dtype": cute.f32, "bins": 9}
    found = eval(line, scope)
    return found[0] if name == "topk" else found


@pytest.mark.some(16)
@pytest.mark.parametrize("name", SAME)
def test_what_is_the_same(name):
    exact = OF_TILES[name]
    count = exact.__code__.co_argcount if hasattr(exact, "__code__") and name != "erf" else 1
    arrays = [np.random.default_rng(k).standard_normal(SHAPE).astype(np.float32) for k in range(3)]
    want = np.asarray(exact(*(a.astype(np.float64) for a in arrays[:count])))

    @cute.kernel
    def program(X, Y, Z, R):
        x, y, z = (cute.local_tile(v, SHAPE, (0, 0)).load() for v in (X, Y, Z))
        result = evaluated(name, x, y, z)
        cute.copy(result.to(cute.f32), cute.local_tile(R, want.shape, (0, 0)))

    result = np.zeros(want.shape, np.float32)
    program(*arrays, result, arch="sm_90a", backend="emulator")
    np.testing.assert_allclose(result, want, rtol=2e-6, atol=5e-7)


def test_each_has_a_test_and_no_other():
    assert set(SAME) == set(OF_TILES)


def test_each_function_of_triton_is_a_row():
    assert sorted({*OF_TRITON} - {*KINDS}) == []
    assert [*KINDS.values()].count("not") <= 10
    assert sorted({*KINDS} - {*OF_TRITON}) == []


def test_the_list_is_that_of_triton(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    language = pytest.importorskip("triton.language")
    assert {*language.__all__} <= {*OF_TRITON}


def test_columns_in_turns_and_apart():
    """By the lines of `join`, `interleave` and `split`."""

    @cute.kernel
    def program(X, Y, Z):
        x, y = (cute.local_tile(v, (8, 16), (0, 0)).load() for v in (X, Y))
        scope = {"cute": cute, "x": x, "y": y, "m": 8, "n": 16}
        turns = eval(LINES["interleave"].split("`")[1], scope)
        scope["x"] = eval(LINES["join"].split("`")[1], scope)
        parts = eval(LINES["split"].split("`")[1], scope)
        even, odd = (cute.reshape(part, (8, 16)) for part in parts)
        result = cute.concatenate((turns, even - x, odd - y))
        cute.copy(result, cute.local_tile(Z, (8, 64), (0, 0)))

    x, y = (np.random.default_rng(k).standard_normal((8, 16)).astype(np.float32) for k in (1, 2))
    z = np.ones((8, 64), np.float32)
    program(x, y, z, arch="sm_90a", backend="emulator")
    assert np.array_equal(z[:, :32], np.stack((x, y), 2).reshape(8, 32))
    assert (z[:, 32:] == 0).all()


def test_what_is_not_there_has_no_such_name():
    missing = [name for name, kind in KINDS.items() if kind == "not"]
    assert missing
    assert not [name for name in missing if hasattr(cute, name)]


def test_numbers_of_a_normal_distribution_and_integers():
    """By the lines of their rows."""

    @cute.kernel
    def program(N, R):
        offsets = cute.coord(cute.zeros((8, 512)), 1) + 512 * cute.coord(cute.zeros((8, 512)), 0)
        u, v = cute.rand(1, offsets), cute.rand(2, offsets)
        scope = {"cute": cute, "u": u, "v": v, "seed": 3, "offsets": offsets, "n": 6}
        normal = eval(LINES["randn"].split("`")[1], scope)
        cute.copy(normal, cute.local_tile(N, (8, 512), (0, 0)))
        drawn = eval(LINES["randint"].split("`")[1], scope)
        cute.copy(drawn, cute.local_tile(R, (8, 512), (0, 0)))

    normal, drawn = np.zeros((8, 512), np.float32), np.zeros((8, 512), np.int32)
    program(normal, drawn, arch="sm_90a", backend="emulator")
    assert abs(normal.mean()) < 0.05
    assert abs(normal.std() - 1) < 0.05
    assert abs((normal**4).mean() - 3) < 0.5
    assert np.array_equal(np.unique(drawn), np.arange(6))

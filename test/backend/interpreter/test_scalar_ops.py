"""Scalar code against the emulator, which runs what the passes make of the same ops."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

from cutedialect.backend.interpreter import InterpreterError, run
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.dialects import all_dialects
from cutedialect.frontend.launch import lower

TEXT = """
cute.kernel @k(%a: {memory}, %b: {memory}, %c: {stored}) {{
  %i = cute.tile_index %a, [256] : {memory}
  %ta = cute.local_tile %a, [256], (%i) : {memory} -> {view}
  %tb = cute.local_tile %b, [256], (%i) : {memory} -> {view}
  %tc = cute.local_tile %c, [256], (%i) : {stored} -> {place}
  %fa = cute.load %ta : {view} -> {tile}
  %fb = cute.load %tb : {view} -> {tile}
  %m = cute.map (%x = %fa : {tile}, %y = %fb : {tile}) -> {made} {{
    {body}
    cute.yield %r : {result}
  }}
  cute.copy %m, %tc : {made} -> {place}
}}
"""
DTYPES = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f16": np.float16, "i8": np.int8}
INTEGERS = [
    "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "andi",
    "ori", "xori", "shli", "shrsi", "shrui", "maxsi", "minsi", "maxui", "minui",
]  # fmt: skip
FLOATS = ["addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf"]
COMPARISONS = {
    "cmpi": ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"],
    "cmpf": [
        "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une",
        "uno",
    ],
}  # fmt: skip
CASTS = {
    "fptosi f32 i32": "arith.fptosi %x : f32 to i32",
    "fptoui f32 i32": "arith.fptoui %x : f32 to i32",
    "fptosi f32 i64": "arith.fptosi %x : f32 to i64",
    "sitofp i32 f32": "arith.sitofp %x : i32 to f32",
    "uitofp i32 f32": "arith.uitofp %x : i32 to f32",
    "truncf f32 f16": "arith.truncf %x : f32 to f16",
    "extf f16 f32": "arith.extf %x : f16 to f32",
    "extsi i32 i64": "arith.extsi %x : i32 to i64",
    "extui i32 i64": "arith.extui %x : i32 to i64",
    "trunci i64 i32": "arith.trunci %x : i64 to i32",
    "trunci i32 i8": "arith.trunci %x : i32 to i8",
}


def parsed(text):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return Parser(context, text).parse_module()


def values(dtype, seed):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        drawn = np.concatenate([rng.standard_normal(200) * 100, rng.integers(-9, 9, 56)])
        drawn[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 3e9]
        with np.errstate(over="ignore"):
            return rng.permutation(drawn).astype(dtype)
    info = np.iinfo(dtype)
    drawn = [*rng.integers(-40, 40, 200), *rng.integers(info.min, info.max, 56, endpoint=True)]
    drawn[:4] = [info.max, info.min, 0, -1]
    return rng.permutation(np.array(drawn)).astype(dtype)


def text_of(source, result, body):
    def memory(type_, extent):
        return f'!cute.memref<{type_}, gmem, align<16>, "({extent}):(1)">'

    return TEXT.format(
        memory=memory(source, "?"),
        stored=memory(result, "?"),
        view=memory(source, 256),
        place=memory(result, 256),
        tile=f'!cute.fragment<{source}, "(256)">',
        made=f'!cute.fragment<{result}, "(256)">',
        result=result,
        body=body,
    )


def compared(source, result, body, a, b):
    text = text_of(source, result, body)
    got = np.zeros(len(a), DTYPES[result])
    run(parsed(text), [a, b, got])
    want = np.zeros_like(got)
    Kernel(lower(parsed(text), "k", "sm_80"), backend="emulator").launch(a, b, want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.some(19)
@pytest.mark.parametrize("type_", ["i32", "i64"])
@pytest.mark.parametrize("op", INTEGERS)
def test_integers(op, type_):
    a, b = (values(DTYPES[type_], seed) for seed in (1, 2))
    if "div" in op or "rem" in op:  # what nobody may rely on
        b[(b == 0) | ((b == -1) & (a == np.iinfo(a.dtype).min))] = 7
    if op.startswith("sh"):
        b %= 80
    if op in ("floordivsi", "ceildivsi"):
        a, b = a // 4, b // 4 + (b // 4 == 0)
    compared(type_, type_, f"%r = arith.{op} %x, %y : {type_}", a, b)


@pytest.mark.parametrize("type_", ["f32", "f16"])
@pytest.mark.parametrize("op", FLOATS)
def test_floats(op, type_):
    a, b = (values(DTYPES[type_], seed) for seed in (3, 4))
    compared(type_, type_, f"%r = arith.{op} %x, %y : {type_}", a, b)


@pytest.mark.parametrize(
    ("word", "predicate"), [(word, each) for word in COMPARISONS for each in COMPARISONS[word]]
)
def test_comparisons(word, predicate):
    type_ = "f32" if word == "cmpf" else "i32"
    body = (
        f"%p = arith.{word} {predicate}, %x, %y : {type_}\n%r = arith.select %p, %x, %y : {type_}"
    )
    a, b = (values(DTYPES[type_], seed) for seed in (5, 6))
    b[::3] = a[::3]
    compared(type_, type_, body, a, b)


@pytest.mark.parametrize("case", CASTS)
def test_casts(case):
    _, source, result = case.split()
    a = values(DTYPES[source], 7)
    compared(source, result, f"%r = {CASTS[case]}", a, a)


@pytest.mark.parametrize("half", ["low", "high"])
@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_halves_of_products(type_, half):
    a, b = (values(DTYPES[type_], seed) for seed in (10, 11))
    module = text_of(
        type_,
        type_,
        f"%low, %high = arith.mului_extended %x, %y : {type_}\n"
        f"%r = arith.addi %{half}, %{half} : {type_}",
    )
    got = np.zeros_like(a)
    run(parsed(module), [a, b, got])
    mask = (1 << 8 * a.itemsize) - 1
    products = [(int(x) & mask) * (int(y) & mask) for x, y in zip(a, b, strict=True)]
    shift = 8 * a.itemsize if half == "high" else 0
    want = [2 * (product >> shift & mask) & mask for product in products]
    np.testing.assert_array_equal(got.view(f"u{a.itemsize}"), np.array(want, f"u{a.itemsize}"))


def test_fused_multiplies_round_once():
    a, b = (values(np.float32, seed) for seed in (8, 9))
    compared("f32", "f32", "%r = math.fma %x, %y, %x : f32", a, b)


def test_an_op_without_a_rule_is_named():
    module = parsed(text_of("f32", "f32", "%r = math.erf %x : f32"))
    with pytest.raises(
        InterpreterError, match=r"expected an op that .* knows.* got math\.erf"
    ) as e:
        run(module, [np.zeros(9, np.float32)] * 3)
    assert e.value.op.name == "math.erf"

"""Maps, conversions and reductions of register tiles, run against numpy."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from cutedialect.dialects import ptx

RNG = np.random.default_rng(2)
ROWS = '"((4,32),(8,1)):((256,1),(32,0))"'  # 32 x 32: lanes along a row, warps along columns
SPREAD = '"((8,16),(2,4)):((2,512),(1,16))"'  # 32 x 64: columns in lanes, rows over lanes and warps
NUMPY = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f64": np.float64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "i1": np.bool_,
}


def memref(element: str, rows: int, columns: int) -> str:
    return f'!cute.memref<{element}, gmem, align<16>, "({rows},{columns}):({columns},1)">'


def fragment(element: str, rows: int, columns: int, tv: str) -> str:
    return f'!cute.fragment<{element}, "({rows},{columns})", {tv}>'


def map_kernel(source: str, result: str, body: str, extra: str = "") -> str:
    """c = map(a, b) elementwise on 32 x 32; the body has %x, %y and ends with %r."""
    m, n = memref(source, 32, 32), memref(result, 32, 32)
    f, g = fragment(source, 32, 32, ROWS), fragment(result, 32, 32, ROWS)
    return f"""
cute.kernel @k(%a: {m}, %b: {m}, %c: {n}{extra}) attributes {{threads = 128 : i32}} {{
  %fa = cute.load %a : {m} -> {f}
  %fb = cute.load %b : {m} -> {f}
  %o = cute.map (%x = %fa : {f}, %y = %fb : {f}) -> {g} {{
{body}
    cute.yield %r : {result}
  }}
  cute.copy %o, %c : {g} -> {n}
}}"""


def run_map(run_kernel, source, result, body, a, b, *scalars, extra="") -> np.ndarray:
    c = np.zeros((32, 32), NUMPY[result])
    run_kernel(map_kernel(source, result, body, extra), 1, [a, b, c, *scalars])
    return c


FLOATS = ["f32", "f16", "bf16"]


@pytest.mark.parametrize("element", [*FLOATS, "f64"])
@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("arith.addf", np.add),
        ("arith.mulf", np.multiply),
        ("arith.subf", np.subtract),
        ("arith.divf", np.divide),
    ],
)
def test_float_arithmetic(run_kernel, element, op, function) -> None:
    dtype = NUMPY[element]
    a = RNG.standard_normal((32, 32)).astype(dtype)
    b = (RNG.standard_normal((32, 32)) + 4).astype(dtype)
    got = run_map(run_kernel, element, element, f"    %r = {op} %x, %y : {element}", a, b)
    assert np.array_equal(got, function(a, b))


def test_two_neighbors_at_once(run_kernel, compile_ptx) -> None:
    """What the target has for pairs of f32 is one instruction for both, with the same results;
    what both have alike is computed once, and other types are computed one by one.
    """
    body = """    %k = arith.constant 3.1 : f32
    %p = math.fma %x, %s, %y : f32
    %q = arith.maximumf %p, %x : f32
    %u = arith.addf %s, %k : f32
    %d = arith.subf %q, %u : f32
    %r = arith.mulf %d, %p : f32"""
    a, b = (RNG.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
    factor = np.float32(1.7)
    found = []
    for arch in ("sm_100a", "sm_90a"):
        c = np.zeros((32, 32), np.float32)
        text = map_kernel("f32", "f32", body, ", %s: f32")
        run_kernel(text, 1, [a, b, c, factor], arch=arch)
        found.append(c)
    np.testing.assert_array_equal(*found)
    ptx = compile_ptx(text, "sm_100a")
    kinds = ("fma.rn.f32x2", "sub.rn.f32x2", "mul.rn.f32x2", "max.NaN.f32", "add.rn.f32 ")
    assert [ptx.count(kind) for kind in kinds] == [4, 4, 4, 8, 1]
    assert "f32x2" not in compile_ptx(text, "sm_90a") + compile_ptx(text, "sm_120a")
    halves = map_kernel("f16", "f16", "    %r = arith.addf %x, %y : f16")
    assert "f32x2" not in compile_ptx(halves, "sm_100a")


@pytest.mark.parametrize("element", FLOATS)
def test_quotients_may_be_approximate(run_kernel, compile_ptx, element) -> None:
    """With `afn`, f32 is multiplied by a reciprocal; what is rounded to 16 bits stays exact."""
    dtype = NUMPY[element]
    a = RNG.standard_normal((32, 32)).astype(dtype)
    b = (RNG.standard_normal((32, 32)) + 4).astype(dtype)
    body = f"    %r = arith.divf %x, %y fastmath<afn> : {element}"
    got = run_map(run_kernel, element, element, body, a, b)
    text = compile_ptx(map_kernel(element, element, body))
    if element == "f32":
        assert "rcp.approx.ftz.f32" in text
        assert "div." not in text
        assert np.allclose(got, a.astype(np.float64) / b, rtol=2.0**-22, atol=0)
    else:
        assert np.array_equal(got, a / b)


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("arith.maximumf", np.maximum),
        ("arith.minimumf", np.minimum),
        ("arith.maxnumf", np.fmax),
        ("arith.minnumf", np.fmin),
    ],
)
def test_maximum_and_nan(run_kernel, element, op, function) -> None:
    dtype = NUMPY[element]
    a = RNG.standard_normal((32, 32)).astype(dtype)
    b = RNG.standard_normal((32, 32)).astype(dtype)
    a[0, :8], b[0, 4:12] = np.nan, np.nan
    got = run_map(run_kernel, element, element, f"    %r = {op} %x, %y : {element}", a, b)
    expected = function(a.astype(np.float32), b.astype(np.float32))
    assert np.array_equal(got.astype(np.float32), expected, equal_nan=True)


@pytest.mark.parametrize(
    "predicate",
    [
        "oeq",
        "ogt",
        "oge",
        "olt",
        "ole",
        "one",
        "ord",
        "ueq",
        "ugt",
        "uge",
        "ult",
        "ule",
        "une",
        "uno",
    ],
)
def test_comparisons_with_nan(run_kernel, predicate) -> None:
    a = RNG.integers(0, 3, (32, 32)).astype(np.float32)
    b = RNG.integers(0, 3, (32, 32)).astype(np.float32)
    a[RNG.random((32, 32)) < 0.2] = np.nan
    body = f"""    %p = arith.cmpf {predicate}, %x, %y : f32
    %r = arith.extui %p : i1 to i32"""
    got = run_map(run_kernel, "f32", "i32", body, a, b)
    nan = np.isnan(a) | np.isnan(b)
    compare = {
        "eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal,
        "lt": np.less, "le": np.less_equal,
    }  # fmt: skip
    if predicate in ("ord", "uno"):
        expected = nan == (predicate == "uno")
    else:
        expected = np.where(nan, predicate[0] == "u", compare[predicate[1:]](a, b))
    assert np.array_equal(got, expected.astype(np.int32))


@pytest.mark.parametrize("element", ["i32", "i64", "i16", "i8"])
@pytest.mark.parametrize(
    ('op', 'function'),
    [
        ("addi", np.add), ("subi", np.subtract), ("muli", np.multiply), ("andi", np.bitwise_and),
        ("xori", np.bitwise_xor), ("maxsi", np.maximum), ("minsi", np.minimum),
    ],
)  # fmt: skip
def test_integer_arithmetic(run_kernel, element, op, function) -> None:
    dtype = NUMPY[element]
    a = RNG.integers(-11, 11, (32, 32)).astype(dtype)
    b = RNG.integers(-11, 11, (32, 32)).astype(dtype)
    got = run_map(run_kernel, element, element, f"    %r = arith.{op} %x, %y : {element}", a, b)
    assert np.array_equal(got, function(a, b))


@pytest.mark.parametrize("element", ["i32", "i64"])
@pytest.mark.parametrize("divisor", [1, 8, 7, -8])
def test_divisions_by_constants_round_down_and_up(run_kernel, element, divisor) -> None:
    dtype = NUMPY[element]
    a = RNG.integers(-100, 100, (32, 32)).astype(dtype)
    a[0, :2] = np.iinfo(dtype).min + 1, np.iinfo(dtype).max
    constant = f"    %d = arith.constant {divisor} : {element}\n"
    for op, expected in (("floordivsi", a // divisor), ("ceildivsi", -(-a // divisor))):
        body = f"{constant}    %r = arith.{op} %x, %d : {element}"
        assert np.array_equal(run_map(run_kernel, element, element, body, a, a), expected)


@pytest.mark.parametrize("target", ["f16", "bf16", "f32"])
def test_a_narrowing_of_f64_rounds_once(run_kernel, target) -> None:
    """Values a hair off the middle between two neighbors: two roundings would lose the hair."""
    low = np.abs(RNG.standard_normal((32, 32))).astype(NUMPY[target])
    step = np.spacing(low).astype(np.float64)
    hair = RNG.choice([-1.0, 1.0], low.shape) * 2.0**-45
    a = (low.astype(np.float64) + step / 2) * (1 + hair)
    got = run_map(run_kernel, "f64", target, f"    %r = arith.truncf %x : f64 to {target}", a, a)
    middle = low.astype(np.float64) + step / 2
    want = np.where(a > middle, low.astype(np.float64) + step, low.astype(np.float64))
    assert 0 < (a > middle).sum() < a.size
    assert np.array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize(
    ("source", "op", "target"),
    [
        ("f16", "extf", "f32"), ("bf16", "extf", "f32"), ("f16", "extf", "f64"),
        ("bf16", "extf", "f64"), ("f32", "extf", "f64"), ("f32", "truncf", "f16"),
        ("f32", "truncf", "bf16"), ("f64", "truncf", "f32"), ("f64", "truncf", "f16"),
        ("f64", "truncf", "bf16"),
    ],
)  # fmt: skip
def test_float_conversions(run_kernel, source, op, target) -> None:
    # Numbers of f32, since NumPy's types of 16 bits round others twice.
    a = RNG.standard_normal((32, 32)).astype(np.float32).astype(NUMPY[source])
    got = run_map(
        run_kernel, source, target, f"    %r = arith.{op} %x : {source} to {target}", a, a
    )
    assert np.array_equal(got, a.astype(NUMPY[target]))


@pytest.mark.parametrize(
    ('source', 'op', 'target'),
    [
        ("i8", "extsi", "i32"), ("i8", "extui", "i32"), ("i32", "trunci", "i8"),
        ("i16", "extsi", "i64"), ("i64", "trunci", "i32"), ("i32", "sitofp", "f32"),
        ("i8", "sitofp", "f16"), ("i32", "sitofp", "bf16"), ("f32", "fptosi", "i32"),
        ("f32", "fptosi", "i8"), ("f16", "fptosi", "i32"),
    ],
)  # fmt: skip
def test_integer_conversions(run_kernel, source, op, target) -> None:
    a = RNG.integers(-100, 100, (32, 32)).astype(NUMPY[source])
    got = run_map(
        run_kernel, source, target, f"    %r = arith.{op} %x : {source} to {target}", a, a
    )
    if op == "extui":
        a = a.view(np.uint8)
    assert np.array_equal(got, a.astype(NUMPY[target]))


@pytest.mark.parametrize(
    ('op', 'function', 'low'),
    [
        ("exp2", np.exp2, -3), ("exp", np.exp, -3), ("log2", np.log2, 0.5), ("log", np.log, 0.5),
        ("sqrt", np.sqrt, 0.1), ("rsqrt", lambda x: 1 / np.sqrt(x), 0.1), ("tanh", np.tanh, -2),
        ("absf", np.abs, -2), ("sin", np.sin, -3), ("cos", np.cos, -3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_functions(run_kernel, op, function, low, element) -> None:
    a = RNG.uniform(low, 3, (32, 32)).astype(NUMPY[element])
    got = run_map(run_kernel, element, element, f"    %r = math.{op} %x : {element}", a, a)
    expected = function(a.astype(np.float64))
    tolerance = 2e-3 if element == "f16" else 1e-3 if op == "tanh" else 2e-6
    assert np.allclose(got.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("element", ["f32", "f16", "i8"])
def test_select_by_coordinate_and_scalar(run_kernel, element) -> None:
    body = f"""    %row = cute.coord 0
    %column = cute.coord 1
    %p = arith.cmpi slt, %row, %column : i32
    %q = arith.cmpi sge, %column, %n : i32
    %pq = arith.andi %p, %q : i1
    %r = arith.select %pq, %x, %y : {element}"""
    a = RNG.integers(-50, 50, (32, 32)).astype(NUMPY[element])
    b = RNG.integers(-50, 50, (32, 32)).astype(NUMPY[element])
    got = run_map(run_kernel, element, element, body, a, b, np.int32(9), extra=", %n: i32")
    row, column = np.indices((32, 32))
    assert np.array_equal(got, np.where((row < column) & (column >= 9), a, b))


def test_coordinates_as_floats(run_kernel, lower) -> None:
    """The thread's part is converted once; those of its elements are constants."""
    body = """    %row = cute.coord 0
    %column = cute.coord 1
    %f = arith.sitofp %row : i32 to f32
    %g = arith.uitofp %column : i32 to f32
    %h = arith.subf %f, %g : f32
    %y2 = arith.addf %h, %y : f32
    %r = arith.addf %x, %y2 : f32"""
    a, b = RNG.integers(-50, 50, (2, 32, 32)).astype(np.float32)
    row, column = np.indices((32, 32))
    got = run_map(run_kernel, "f32", "f32", body, a, b)
    assert np.array_equal(got, a + b + row - column)
    module = lower(map_kernel("f32", "f32", body))
    loops = [op for op in module.walk() if op.name == "ptx.foreach"]
    converted = [op for each in loops for op in each.walk() if op.name == "ptx.cvt"]
    (number,) = converted[0].operands
    assert len(converted) == 1
    assert number in converted[0].parent.args


def test_nothing_is_subtracted(run_kernel, compile_ptx) -> None:
    body = """    %zero = arith.constant 0.0 : f32
    %d = arith.subf %x, %zero : f32
    %r = arith.mulf %d, %y : f32"""
    assert "sub.rn.f32" not in compile_ptx(map_kernel("f32", "f32", body))
    negative = body.replace("0.0", "-0.0")
    a, b = np.full((32, 32), -0.0, np.float32), np.ones((32, 32), np.float32)
    assert np.signbit(run_map(run_kernel, "f32", "f32", body, a, b)).all()
    assert not np.signbit(run_map(run_kernel, "f32", "f32", negative, a, b)).any()


def broadcast_text(wide: str, narrow: str, row: str, tv: str) -> str:
    m, f = memref(wide, 32, 32), fragment(wide, 32, 32, tv)
    v, g = memref(narrow, 1, 32), fragment(narrow, 1, 32, row)
    return f"""
cute.kernel @k(%a: {m}, %b: {v}, %c: {m}) attributes {{threads = 128 : i32}} {{
  %fa = cute.load %a : {m} -> {f}
  %fb = cute.load %b : {v} -> {g}
  %o = cute.map (%x = %fa : {f}, %y = %fb : {g}) -> {f} {{
    %w = arith.extf %y : {narrow} to {wide}
    %r = arith.addf %x, %w : {wide}
    cute.yield %r : {wide}
  }}
  cute.copy %o, %c : {f} -> {m}
}}"""


@pytest.mark.some(6)
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("predicate", "function"),
    [
        ("slt", np.less),
        ("sle", np.less_equal),
        ("sgt", np.greater),
        ("sge", np.greater_equal),
        ("eq", np.equal),
        ("ne", np.not_equal),
    ],
)
def test_coordinates_are_compared_with_any_number(
    run_kernel, compile_ptx, predicate, function, is_first
) -> None:
    """Also with numbers from which those that the coordinate is made of cannot be subtracted."""
    sides = "%t, %y" if is_first else "%y, %t"
    body = f"""
    %j = cute.coord 1
    %t = arith.addi %j, %n overflow<nsw> : i32
    %p = arith.cmpi {predicate}, {sides} : i32
    %r = arith.select %p, %x, %n : i32"""
    a = RNG.integers(-99, 99, (32, 32)).astype(np.int32)
    limits = np.array([-(2**31), -(2**31) + 9, -7, 0, 5, 17, 40, 2**31 - 9, 2**31 - 1])
    b = RNG.choice(limits, (32, 32)).astype(np.int32)
    for n in (-20, 0, 13, 2**31 - 40):
        got = run_map(run_kernel, "i32", "i32", body, a, b, n, extra=", %n: i32")
        column = np.arange(32) + n
        holds = function(column, b) if is_first else function(b, column)
        assert np.array_equal(got, np.where(holds, a, n))
    text = compile_ptx(map_kernel("i32", "i32", body, ", %n: i32"))
    assert re.search(r"setp\.\w+\.s32 %p\d+, %r\d+, 7;", text)


@pytest.mark.parametrize("predicate", ["slt", "sge"])
@pytest.mark.parametrize("limit", [0, 1, 5, 8, 19, 24, 31, 32, 33])
def test_comparisons_of_coordinates_with_constants(
    run_kernel, compile_ptx, predicate, limit
) -> None:
    body = f"""
    %i = cute.coord 1
    %l = arith.constant {limit} : i32
    %p = arith.cmpi {predicate}, %i, %l : i32
    %r = arith.select %p, %x, %y : f32"""
    a, b = (RNG.standard_normal((32, 32), np.float32) for _ in range(2))
    columns = np.arange(32)
    chosen = columns < limit if predicate == "slt" else columns >= limit
    assert np.array_equal(run_map(run_kernel, "f32", "f32", body, a, b), np.where(chosen, a, b))
    # Warps have 8 columns each: value v of a thread lies in column v, v + 8, v + 16 or v + 24.
    asked = [v for v in range(8) if v < limit <= v + 24]
    assert compile_ptx(map_kernel("f32", "f32", body)).count("selp") == len(asked)


def test_broadcast_of_a_row(run_kernel) -> None:
    """A packed f16 row added to f32 rows, read by mixed halves."""
    a = RNG.integers(-50, 50, (32, 32)).astype(np.float32)
    b = RNG.integers(-50, 50, (1, 32)).astype(np.float16)
    for row, tv in (
        ('"((4,32),(8,1)):((8,0),(1,0))"', ROWS),
        ('"((32,4),(8)):((0,8),(1))"', '"((32,4),(8)):((1,256),(32))"'),
        ('"((32,4),(2,4)):((0,8),(4,1))"', '"((32,4),(8)):((1,256),(32))"'),
    ):
        c = np.zeros((32, 32), np.float32)
        run_kernel(broadcast_text("f32", "f16", row, tv), 1, [a, b, c])
        assert np.array_equal(c, a + b)


def test_accumulating_in_place(run_kernel, lower) -> None:
    """o = o * r + x in a loop, zero trips included; the map writes its own operand's registers."""
    m, f = memref("f32", 32, 32), fragment("f32", 32, 32, ROWS)
    text = f"""
cute.kernel @k(%a: {m}, %c: {m}, %n: i32) attributes {{threads = 128 : i32}} {{
  %z = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %half = arith.constant 0.5 : f32
  %x = cute.load %a : {m} -> {f}
  %o = cute.alloc_fragment : {f}
  cute.fill %o, %half : {f}
  scf.for %i = %z to %n step %one : i32 {{
    %u = cute.map (%p = %o : {f}, %q = %x : {f}) -> {f} {{
      %s = arith.mulf %p, %half : f32
      %t = arith.addf %s, %q : f32
      cute.yield %t : f32
    }}
    cute.copy %u, %o : {f} -> {f}
  }}
  cute.copy %o, %c : {f} -> {m}
}}"""
    assert "ptx.regs" in str(lower(text))
    assert str(lower(text)).count("= ptx.regs") == 2
    a = RNG.integers(-50, 50, (32, 32)).astype(np.float32)
    for trips in (0, 1, 3):
        c = np.zeros((32, 32), np.float32)
        run_kernel(text, 1, [a, c, np.int32(trips)])
        expected = np.full((32, 32), 0.5, np.float32)
        for _ in range(trips):
            expected = expected * np.float32(0.5) + a
        assert np.array_equal(c, expected)


@pytest.mark.parametrize("is_rare", [False, True])
def test_a_branch_for_what_some_element_is_keeps_its_code_in_a_loop(lower, is_rare) -> None:
    f, p = fragment("i32", 32, 32, ROWS), fragment("i1", 32, 32, ROWS)
    m = memref("i32", 32, 32)
    text = f"""
cute.kernel @k(%c: {m}, %n: i32, %flag: i1) attributes {{threads = 128 : i32}} {{
  %z = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %q = cute.alloc_fragment : {p}
  %o = cute.alloc_fragment : {f}
  cute.fill %q, %flag : {p}
  scf.for %i = %z to %n step %one : i32 {{
    %any = cute.any %q {{local}} : {p}
    scf.if {"%any" if is_rare else "%flag"} {{
      %square = arith.muli %n, %n : i32
      cute.fill %o, %square : {f}
    }}
  }}
  cute.copy %o, %c : {f} -> {m}
}}"""
    products = [
        op for op in lower(text).walk() if getattr(op, "mnemonic", "").startswith("mul.lo.s32")
    ]
    assert [isinstance(op.parent_op(), ptx.IfOp) for op in products] == [is_rare]


@pytest.mark.parametrize("flag", [0, 1])
def test_a_branch_gives_numbers(run_kernel, flag) -> None:
    m, f = memref("i32", 32, 32), fragment("i32", 32, 32, ROWS)
    text = f"""
cute.kernel @k(%c: {m}, %flag: i32, %n: i32) attributes {{threads = 128 : i32}} {{
  %one = arith.constant 1 : i32
  %is = arith.cmpi eq, %flag, %one : i32
  %x, %y = scf.if %is -> (i32, i32) {{
    %square = arith.muli %n, %n : i32
    scf.yield %square, %n : i32, i32
  }} else {{
    scf.yield %n, %one : i32, i32
  }}
  %sum = arith.subi %x, %y : i32
  %o = cute.alloc_fragment : {f}
  cute.fill %o, %sum : {f}
  cute.copy %o, %c : {f} -> {m}
}}"""
    c = np.zeros((32, 32), np.int32)
    run_kernel(text, 1, [c, np.int32(flag), np.int32(7)])
    assert (c == (42 if flag else 6)).all()


def test_predicate_tiles(run_kernel) -> None:
    """A tile of i1 between two maps, and one that is filled."""
    m, f, p = memref("f16", 32, 32), fragment("f16", 32, 32, ROWS), fragment("i1", 32, 32, ROWS)
    text = f"""
cute.kernel @k(%a: {m}, %c: {m}, %flag: i1) attributes {{threads = 128 : i32}} {{
  %zero = arith.constant 0.0 : f16
  %x = cute.load %a : {m} -> {f}
  %q = cute.alloc_fragment : {p}
  cute.fill %q, %flag : {p}
  %p = cute.map (%v = %x : {f}) -> {p} {{
    %t = arith.cmpf ogt, %v, %zero : f16
    cute.yield %t : i1
  }}
  %o = cute.map (%v = %x : {f}, %s = %p : {p}, %u = %q : {p}) -> {f} {{
    %b = arith.andi %s, %u : i1
    %r = arith.select %b, %v, %zero : f16
    cute.yield %r : f16
  }}
  cute.copy %o, %c : {f} -> {m}
}}"""
    a = RNG.integers(-50, 50, (32, 32)).astype(np.float16)
    for flag in (0, 1):
        c = np.ones((32, 32), np.float16)
        run_kernel(text, 1, [a, c, np.int32(flag)])
        assert np.array_equal(c, np.maximum(a, 0) * np.float16(flag))


def reduce_text(kind: str, element: str, mode: int, tv: str, result_tv: str) -> str:
    rows, columns = 32, 64
    shape = (1, columns) if mode == 0 else (rows, 1)
    m, f = memref(element, rows, columns), fragment(element, rows, columns, tv)
    v, g = memref(element, *shape), fragment(element, *shape, result_tv)
    return f"""
cute.kernel @k(%a: {m}, %c: {v}) attributes {{threads = 128 : i32}} {{
  %x = cute.load %a : {m} -> {f}
  %r = cute.reduce "{kind}", %x {{mode = {mode} : i64}} : {f} -> {g}
  cute.copy %r, %c : {g} -> {v}
}}"""


# 32 x 64 (coordinate m + 32 n): 8 lanes x 8 values along rows; 4 lanes and 4 warps on rows.
ALONG = '"((8,4,4),(4,2,2)):((128,1,4),(32,1024,16))"'
ALONG_ROWS = '"((8,4,4),(1,1,2)):((0,1,4),(0,0,16))"'
ALONG_COLUMNS = '"((8,4,4),(4,2,1)):((4,0,0),(1,32,0))"'


@pytest.mark.some(16)
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "i32", "f64", "i64"])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
@pytest.mark.parametrize("mode", [0, 1])
def test_reductions(run_kernel, element, kind, mode) -> None:
    """Mode 1 folds values and lanes; mode 0 also crosses warps through shared memory."""
    dtype = NUMPY[element]
    a = RNG.integers(-8, 8, (32, 64)).astype(dtype)
    c = np.zeros((1, 64) if mode == 0 else (32, 1), dtype)
    text = reduce_text(kind, element, mode, ALONG, ALONG_COLUMNS if mode == 0 else ALONG_ROWS)
    run_kernel(text, 1, [a, c], smem=64 * 4 * 4 * 8)
    function = {"add": np.sum, "max": np.max, "min": np.min}[kind]
    wide = a.astype(np.float64) if element.endswith(("f16", "bf16")) else a
    assert np.array_equal(c, function(wide, axis=mode, keepdims=True).astype(dtype))


@pytest.mark.parametrize("element", ["f32", "f16", "i8"])
def test_conversion_permutes_registers(run_kernel, element) -> None:
    m, f = memref(element, 32, 32), fragment(element, 32, 32, ROWS)
    g = fragment(element, 32, 32, '"((4,32),(2,4)):((256,1),(128,32))"')
    text = f"""
cute.kernel @k(%a: {m}, %c: {m}) attributes {{threads = 128 : i32}} {{
  %x = cute.load %a : {m} -> {f}
  %y = cute.convert %x : {f} -> {g}
  cute.copy %y, %c : {g} -> {m}
}}"""
    a, c = (
        RNG.integers(-50, 50, (32, 32)).astype(NUMPY[element]),
        np.zeros((32, 32), NUMPY[element]),
    )
    run_kernel(text, 1, [a, c])
    assert np.array_equal(a, c)


@pytest.mark.parametrize("element", ["f16", "i8"])
@pytest.mark.parametrize("values", [1, 2, 3, 5])
def test_tiles_that_do_not_fill_a_register(run_kernel, element, values) -> None:
    """Fewer values than a register packs, through strided smem, a map and a reduction."""
    dtype = NUMPY[element]
    tv = f'"(32,{values}):(1,32)"'
    m, f = memref(element, 32, values), fragment(element, 32, values, tv)
    s = f'!cute.memref<{element}, smem, align<16>, "(32,{values}):(1,40)">'
    kind = "addf" if element == "f16" else "addi"
    text = f"""
cute.kernel @k(%a: {m}, %c: {m}) attributes {{threads = 32 : i32}} {{
  %s = cute.alloc_smem : {s}
  cute.copy %a, %s {{tiled = #cute.tiled_copy<{tv}, tiler = "(32,{values})">}} : {m} -> {s}
  cute.barrier
  %x = cute.load %s : {s} -> {f}
  %y = cute.map (%v = %x : {f}, %w = %x : {f}) -> {f} {{
    %r = arith.{kind} %v, %w : {element}
    cute.yield %r : {element}
  }}
  cute.copy %y, %c : {f} -> {m}
}}"""
    a, c = RNG.integers(-50, 50, (32, values)).astype(dtype), np.zeros((32, values), dtype)
    run_kernel(text, 1, [a, c], 32, 40 * values * 2)
    assert np.array_equal(c, a + a)


@pytest.mark.parametrize("values", [1, 3, 6])
def test_reductions_of_odd_tiles(run_kernel, values) -> None:
    m = memref("f16", 32, values)
    v = memref("f16", 32, 1)
    f = fragment("f16", 32, values, f'"(32,{values}):(1,32)"')
    g = fragment("f16", 32, 1, '"(32,1):(1,0)"')
    text = f"""
cute.kernel @k(%a: {m}, %c: {v}) attributes {{threads = 32 : i32}} {{
  %x = cute.load %a : {m} -> {f}
  %r = cute.reduce "max", %x {{mode = 1 : i64}} : {f} -> {g}
  cute.copy %r, %c : {g} -> {v}
}}"""
    a, c = RNG.integers(-50, 50, (32, values)).astype(np.float16), np.zeros((32, 1), np.float16)
    run_kernel(text, 1, [a, c], 32)
    assert np.array_equal(c, a.max(axis=1, keepdims=True))

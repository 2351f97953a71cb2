"""`cute-opt --run` of functions: values of the layout algebra on the host, at every stage."""

from __future__ import annotations

import io

import pytest

from cutedialect.tools.cute_opt import CuteOpt


def cute_opt(*argv, stdin):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt(list(argv), io.StringIO(stdin), out, err).run()
    return code, out.getvalue(), err.getvalue()


TYPES = {
    "$T": '!cute.layout<"((3,?),(4,2)):((8,24),(1,4))">',
    "$L": '!cute.layout<"(?,8):(8,1)">',
    "$P": '!cute.int_tuple<"(?,?{i64})">',
    "$C": '!cute.composed_layout<"S<1,4,3> o ? o 32:32">',
    "$I": '!cute.int_tuple<"?">',
    "$S": '!cute.swizzle<"S<1,4,3>">',
    "$H": '!cute.shape<"(?,8)">',
    "$D": '!cute.stride<"(8,1)">',
}
FUNCTIONS = """\
func.func @tiles(%l: $L) -> $T {
  %t = cute.static : !cute.shape<"(3,4)">
  %r = cute.logical_divide(%l, %t) : ($L, !cute.shape<"(3,4)">) -> $T
  func.return %r : $T
}
func.func @main(%n: i32, %o: $P) -> (i32, $P) {
  %s = cute.make_shape(%n) : (i32) -> $H
  %d = cute.make_stride() : () -> $D
  %l = cute.make_layout(%s, %d) : ($H, $D) -> $L
  %r = func.call @tiles(%l) : ($L) -> $T
  cute.print(%r) : $T
  cute.print(%o) : $P
  %sw = cute.static : $S
  %at = cute.make_int_tuple(%n) : (i32) -> $I
  %in = cute.static : !cute.layout<"32:32">
  %c = cute.make_composed_layout(%sw, %at, %in) : ($S, $I, !cute.layout<"32:32">) -> $C
  cute.print(%c) : $C
  %z = cute.size(%r) : ($T) -> $I
  %v = cute.get_scalars(%z) : $I
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %two, %gy = %one, %gz = %one)
             threads(%tx, %ty, %tz) in (%sx = %two, %sy = %two, %sz = %one) {
    gpu.printf "%lld.%lld.%lld ", %bx, %ty, %tx : index, index, index
    gpu.terminator
  }
  func.return %v, %o : i32, $P
}
"""
for name, type_ in TYPES.items():
    FUNCTIONS = FUNCTIONS.replace(name, type_)
PRINTED = """\
((3,2),(4,2)):((8,24),(1,4))
(-4,5000000000)
S<1,4,3> o 6 o 32:32
0.0.0 0.0.1 0.1.0 0.1.1 1.0.0 1.0.1 1.1.0 1.1.1 result 0: 48
"""


@pytest.mark.parametrize(
    "passes", ["", "cute-fold-static", "cute-expand-ops", "cute-fold-static,cute-expand-ops,cse"]
)
def test_functions_run_on_the_host(passes):
    flags = ("--run", "--arg", "n=6", "--arg", "o=-4x5000000000", "-p", passes)
    code, out, err = cute_opt(*flags, stdin=FUNCTIONS)
    assert (code, err) == (0, "")
    assert out == PRINTED + "result 1: (-4,5000000000)\n"


def test_functions_of_structs_print_the_same():
    calls = "cute-expand-ops,cute-to-base,cse"
    made = "%o = cute.make_int_tuple(%n, %n2) : (i32, i64) -> " + TYPES["$P"]
    text = FUNCTIONS.replace(f"%o: {TYPES['$P']}) ->", "%n2: i64) ->")
    text = text.replace("  %s = cute", f"  {made}\n  %s = cute")
    flags = ("--run", "--arg", "n=6", "--arg", "n2=7")
    plain = cute_opt(*flags, stdin=text)
    lowered = cute_opt(*flags, "-p", calls, stdin=text)
    assert plain[0] == lowered[0] == 0
    assert plain[1].splitlines()[:-1] == lowered[1].splitlines()[:-1]
    assert "(6,7)" in plain[1]


def test_what_a_function_lacks_is_said():
    code, _, err = cute_opt("--run", stdin=FUNCTIONS)
    assert code == 1
    assert "expected --arg n=4 (i32), got none" in err
    code, _, err = cute_opt("--run", "--arg", "n=6", "--arg", "o=3", stdin=FUNCTIONS)
    assert code == 1
    assert "expected 2 run-time leaves" in err
    code, _, err = cute_opt(
        "--run", "--arg", "n=6", "--arg", "p=3", "--arg", "o=3x3", stdin=FUNCTIONS
    )
    assert code == 1
    assert "expected an argument (n, o), got 'p'" in err
    endless = "func.func @f() {\n  func.call @f() : () -> ()\n  func.return\n}\n"
    code, _, err = cute_opt("--run", stdin=endless)
    assert code == 1
    assert "calls within each other" in err

"""Bodies that no input enters are shown to be so, and others are not."""

import pytest
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.parser import Parser

from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import KernelOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.protocol.bounds import Bounds

# Rows of a tile of 128 see keys from the begin of their document on: blocks from that of the first
# row on, those in which the last row's document begins, those in front of the tile, and its own.
DOCUMENTS = """
cute.kernel @k(%n: i32, %keys: i32, %at: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %last = arith.constant 127 : i32
  %tile = arith.constant 128 : i32
  %more = arith.constant 255 : i32
  %document = arith.constant DOCUMENT : i32
  %some = arith.addi %n, %last : i32
  %tiles = arith.floordivsi %some, %tile : i32
  %i = arith.subi %tiles, %at : i32
  %first = arith.muli %i, %tile : i32
  %d = arith.floordivsi %first, %document : i32
  %begin = arith.muli %d, %document : i32
  %end_row = arith.addi %first, %last : i32
  %e = arith.floordivsi %end_row, %document : i32
  %full = arith.muli %e, %document : i32
  %start = arith.floordivsi %begin, %tile : i32
  %a = arith.addi %first, %more : i32
  %b = arith.addi %keys, %last : i32
  %c = arith.minsi %a, %b : i32
  %end = arith.floordivsi %c, %tile : i32
  %f = arith.ceildivsi %full, %tile : i32
  %g = arith.maxsi %start, %f : i32
  %masked = arith.minsi %g, %end : i32
  %h = arith.floordivsi %first, %tile : i32
  %j = arith.minsi %end, %h : i32
  %whole = arith.maxsi %j, %masked : i32
  scf.for %x = %start to %masked step %one : i32 {
  }
  %k = arith.subi %whole, %masked : i32
  %l = arith.maxsi %k, %zero : i32
  %m = arith.remsi %l, %two : i32
  %o = arith.subi %l, %m : i32
  %pairs = arith.addi %masked, %o : i32
  scf.for %x = %masked to %pairs step %two : i32 {
  }
  %p = arith.cmpi slt, %pairs, %whole : i32
  scf.if %p {
  }
  scf.for %x = %whole to %end step %one : i32 {
  }
}
"""


def never_entered(text):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    bounds = Bounds()
    ops = list(walk(Parser(context, text).parse_module()))
    return [bounds.never_enters(op, 0) for op in ops if isinstance(op, scf.ForOp | scf.IfOp)]


def entered(document):
    """Which of them some input enters, by trying."""
    found = [False] * 4
    for i in range(60):
        for keys in (1, 128 * i + 1, 128 * i + 1000):
            first = 128 * i
            begin, full = first // document * document, (first + 127) // document * document
            start, end = begin // 128, min(first + 255, keys + 127) // 128
            masked = min(max(start, -(-full // 128)), end)
            whole = max(min(end, first // 128), masked)
            pairs = masked + max(whole - masked, 0) // 2 * 2
            trips = masked > start, pairs > masked, pairs < whole, end > whole
            found = [one or other for one, other in zip(found, trips, strict=True)]
    return found


@pytest.mark.parametrize("document", [32, 96, 127, 128, 129, 130, 1000])
def test_loops_that_a_mask_makes_empty(document):
    """What is shown holds of all inputs that are tried; of documents of 96 tokens it is all that
    does.
    """
    never = never_entered(DOCUMENTS.replace("DOCUMENT", str(document)))
    some = entered(document)
    assert not any(shut and open_ for shut, open_ in zip(never, some, strict=True))
    if document == 96:
        assert never == [False, True, True, True]
        assert some == [True, False, False, False]
    if document == 1000:
        assert some[1]


COMPARED = """
cute.kernel @k(%n: i32) {
  %one = arith.constant 1 : i32
  %more = arith.addi %n, %one : i32
  %p = arith.cmpi PREDICATE, %n, %more : i32
  scf.if %p {
  } else {
    scf.for %x = %n to %more step %one : i32 {
    }
  }
}
"""


@pytest.mark.parametrize(
    ("predicate", "never"),
    [("slt", (0, 1)), ("sle", (0, 1)), ("sgt", (1, 0)), ("sge", (1, 0)), ("eq", (1, 0))],
)
def test_sides_of_comparisons(predicate, never):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = Parser(context, COMPARED.replace("PREDICATE", predicate)).parse_module()
    (branch,) = (op for op in walk(module) if isinstance(op, scf.IfOp))
    (loop,) = (op for op in walk(module) if isinstance(op, scf.ForOp))
    bounds = Bounds()
    assert tuple(bounds.never_enters(branch, side) for side in range(2)) == never
    assert bounds.never_enters(loop, 0) == bool(never[1])


TRIPS = """
cute.kernel @k(%n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %least = arith.minsi %n, %one : i32
  %end = arith.maxsi %least, %zero : i32
  scf.for %x = BEGIN to %end step %one : i32 {
    %p = arith.cmpi sgt, %x, %zero : i32
    scf.if %p {
    }
  }
}
"""


@pytest.mark.parametrize("begin", ["%zero", "%n"])
def test_the_first_trip_is_behind_no_other(begin):
    """A loop that is the first trip of one, if there is one, has no trip behind it."""
    assert never_entered(TRIPS.replace("BEGIN", begin))[1]


def test_a_loop_of_more_trips_has_some_behind_the_first_one():
    text = TRIPS.replace("BEGIN", "%zero").replace("minsi %n, %one", "addi %n, %one")
    assert never_entered(text) == [False, False]


TOGETHER = """
cute.kernel @k(%x: MEMREF, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %rows = cute.dim %x, 0 : MEMREF
  %columns = cute.dim %x, 1 : MEMREF
  %outer = arith.cmpi OUTER : i32
  scf.if %outer {
    %inner = arith.cmpi INNER : i32
    scf.if %inner {
    }
  }
}
func.func @launch(%n: i32, %x: MEMREF) {
  %one = arith.constant 1 : i32
  %tile = arith.constant 16 : i32
  %extent = cute.dim %x, 0 : MEMREF
  %tiles = arith.ceildivsi %extent, %tile : i32
  %some = arith.maxsi %n, %tiles : i32
  cute.launch @k grid(GRID, %one, %one) args(%x, %n) {threads = 32 : i32} : MEMREF, i32
  func.return
}
"""


MATRIX = '!cute.memref<f32, gmem, align<4>, "(?,?):(?{i64},1)">'


def shut_together(outer, inner, grid="%tiles"):
    text = (
        TOGETHER.replace("MEMREF", MATRIX)
        .replace("OUTER", outer)
        .replace("INNER", inner)
        .replace("GRID", grid)
    )
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = Parser(context, text).parse_module()
    kernel = next(op for op in walk(module) if isinstance(op, KernelOp))
    bounds = Bounds(kernel)
    return [bounds.never_enters(op, 0) for op in walk(module) if isinstance(op, scf.IfOp)]


@pytest.mark.parametrize(
    ("outer", "inner", "never"),
    [
        ("eq, %n, %two", "eq, %n, %zero", [False, True]),
        ("eq, %n, %two", "eq, %two, %n", [False, False]),
        ("eq, %n, %two", "ne, %n, %two", [False, False]),
        ("slt, %n, %one", "sgt, %n, %two", [False, True]),
        ("slt, %n, %two", "sgt, %n, %zero", [False, False]),
        # No extent is below 0, and a launch without rows has no CTA.
        ("slt, %columns, %zero", "eq, %n, %n", [True, True]),
        ("eq, %columns, %zero", "eq, %n, %n", [False, False]),
        ("eq, %rows, %zero", "eq, %n, %n", [True, True]),
        ("eq, %rows, %one", "eq, %n, %n", [False, False]),
    ],
)
def test_conditions_that_do_not_hold_at_once(outer, inner, never):
    assert shut_together(outer, inner) == never


def test_a_launch_that_has_ctas_without_rows_says_nothing_of_them():
    assert shut_together("eq, %rows, %zero", "eq, %n, %n", grid="%some") == [False, False]


ONE_TRIP = """
cute.kernel @k(%n: i32) {
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %end = arith.constant END : i32
  %a = arith.minsi %n, %end : i32
  %b = arith.maxsi %a, %one : i32
  scf.for %j = %one to %b step %one : i32 {
    %half = arith.floordivsi %j, %two : i32
    %even = arith.muli %half, %two : i32
    %rest = arith.subi %j, %even : i32
    %p = arith.cmpi eq, %rest, NUMBER : i32
    scf.if %p {
    }
  }
}
"""


@pytest.mark.parametrize(
    ("end", "number", "never"), [(2, "%one", False), (2, "%two", True), (3, "%one", False)]
)
def test_a_loop_of_one_trip_has_one_index(end, number, never):
    text = ONE_TRIP.replace("END", str(end)).replace("NUMBER", number)
    assert never_entered(text) == [False, never]


def test_the_rest_of_an_index_that_is_one_number_is_one():
    """An odd one has no trip that is even; one that may be 2 has."""
    zero = "  %zero = arith.subi %one, %one : i32\n"
    text = ONE_TRIP.replace("  %two =", zero + "  %two =").replace("NUMBER", "%zero")
    assert never_entered(text.replace("END", "2")) == [False, True]
    assert never_entered(text.replace("END", "3")) == [False, False]


# Blocks of 64 keys that all rows of a tile of 128 see whole, behind the first one and those in
# which documents of its rows begin: none.
WHOLE = """
cute.kernel @k(%i: i32, %keys: i32) {
  %one = arith.constant 1 : i32
  %last = arith.constant 127 : i32
  %tile = arith.constant 128 : i32
  %block = arith.constant 64 : i32
  %document = arith.constant 96 : i32
  %more = arith.constant 191 : i32
  %first = arith.muli %i, %tile : i32
  %d = arith.floordivsi %first, %document : i32
  %begin = arith.muli %d, %document : i32
  %end_row = arith.addi %first, %last : i32
  %e = arith.floordivsi %end_row, %document : i32
  %full = arith.muli %e, %document : i32
  %start = arith.floordivsi %begin, %block : i32
  %second = arith.addi %start, %one : i32
  %a = arith.addi %first, %more : i32
  %c = arith.minsi %a, %keys : i32
  %end = arith.floordivsi %c, %block : i32
  %f = arith.ceildivsi %full, %block : i32
  %g = arith.maxsi %second, %f : i32
  %masked = arith.minsi %g, %end : i32
  %h = arith.floordivsi %first, %block : i32
  %j = arith.minsi %end, %h : i32
  %whole = arith.maxsi %j, %masked : i32
  scf.for %x = %second to %masked step %one : i32 {
  }
  scf.for %x = %masked to %whole step %one : i32 {
  }
  %trips = arith.subi %whole, %masked : i32
  %is_some = arith.cmpi sge, %trips, %one : i32
  scf.if %is_some {
  }
  scf.for %x = %whole to %end step %one : i32 {
  }
}
"""


def test_the_largest_of_two_is_one_of_them_whatever_is_known_of_it():
    assert never_entered(WHOLE) == [False, True, True, False]

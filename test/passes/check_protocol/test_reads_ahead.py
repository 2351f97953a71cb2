"""What a read of a loop's last trip is for: followed through numbers, and into loops behind."""

import ml_dtypes
import numpy as np
from xdsl.context import Context
from xdsl.parser import Parser

import cutedialect as cute
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import KernelOp
from cutedialect.passes.protocol.check_protocol import verdict_of


@cute.kernel
def stopped(T, A, B, n, Y):
    """A loop that the smallest numbers of columns, which come from other warps, end."""
    i, j = cute.tile_index(Y, (64, 32))
    tile = cute.local_tile(T, (32, 64), (0, j, 0)).T.load()
    least = cute.min(tile, mode=-2)
    kept = cute.full((1, 32), -1, cute.i8)
    for _ in cute.range(n + 3, 0, -2):
        acc = cute.zeros((64, 32), cute.f32)
        rows = cute.local_tile(A, (64, 48), (i, None))
        columns = cute.local_tile(B, (48, 32), (None, j))
        for k in cute.range(rows.tiles):
            cute.gemm(rows[k], columns[k], acc)
        cute.break_if(cute.any(least > 0))
        kept.assign(cute.minimum(cute.maximum(least, -2), 2))
    cute.copy(tile, cute.local_tile(Y, (64, 32), (i, j)))


def test_what_becomes_a_number_is_followed():
    rng = np.random.default_rng(0)
    tiles = rng.integers(-5, 6, (2, 64, 128)).astype(np.int8)
    a = rng.integers(-3, 4, (45, 104)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-3, 4, (104, 64)).astype(ml_dtypes.bfloat16)
    got = np.zeros((55, 48), np.int8)[:, :46]
    stopped(tiles, a, b, 2, got, arch="sm_90a", backend="emulator")
    assert np.array_equal(got[:, :32], tiles[0, :32, :55].T)


# A ring of three stages of registers' tiles, which one loop and another one behind it fill and read
# ahead, as one that was split: trips up to %m, and the others.
SPLIT = """
builtin.module attributes {cute.arch = "sm_80"} {
  cute.kernel @split(%Y: MEMREF(Y), %n: i32, %some: i32) attributes {threads = 32 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    ITEMS
    %least = arith.minsi %some, %n : i32
    %m = arith.maxsi %least, %zero : i32
    %s = cute.alloc_smem : MEMREF(S)
    %x = arith.constant 1.0 : f32
    %tile = cute.alloc_fragment : FRAGMENT
    cute.fill %tile, %x : FRAGMENT
    scf.for %k = %zero to %two step %one : i32 {
      %is_there = arith.cmpi slt, %k, %n : i32
      %to = cute.stage %s[%k] : MEMREF(S) -> MEMREF
      cute.copy %tile, %to if %is_there {atom = COPY} : FRAGMENT -> MEMREF
    }
    cute.barrier
    %got = cute.alloc_fragment : FRAGMENT
    %first = cute.stage %s[%zero] : MEMREF(S) -> MEMREF
    cute.copy %first, %got {atom = COPY} : MEMREF -> FRAGMENT
    LOOP(%zero to %m)
    LOOP(%m to %n)
    BEHIND
    ENDS
  }
}
"""
LOOP = """
    scf.for %k = BOUNDS step %one : i32 {
      %later = arith.addi %k, %two : i32
      %is_there = arith.cmpi slt, %later, %n : i32
      %i = arith.remui %later, %three : i32
      %to = cute.stage %s[%i] : MEMREF(S) -> MEMREF
      cute.copy %tile, %to if %is_there {atom = COPY} : FRAGMENT -> MEMREF
      STORE
      cute.barrier
      %following = arith.addi %k, %one : i32
      %next = arith.remui %following, %three : i32
      %from = cute.stage %s[%next] : MEMREF(S) -> MEMREF
      cute.copy %from, %got {atom = COPY} : MEMREF -> FRAGMENT
      cute.barrier
    }
"""
STORE = """
      %Y_1 = cute.local_tile %Y, [32, 4], (%zero, %zero) : MEMREF(Y) -> MEMREF(T)
      cute.copy %got, %Y_1 {atom = COPY} : FRAGMENT -> MEMREF(T)
"""
# Of two work items the second one has no trips.
ITEMS = """
    %eight = arith.constant 8 : i32
    scf.for %item = %zero to %two step %one : i32 {
      %gone = arith.muli %item, %eight : i32
      %rest = arith.subi %trips, %gone : i32
      %n = arith.maxsi %rest, %zero : i32
"""
NAMES = {
    "MEMREF(S)": '!cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)">',
    "MEMREF(Y)": '!cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)">',
    "MEMREF(T)": '!cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">',
    "MEMREF": '!cute.memref<f32, smem, align<16>, "(32,4):(4,1)">',
    "FRAGMENT": '!cute.fragment<f32, "(32,4)", "(32,4):(1,32)">',
    "COPY": "!cute_nvgpu.atom.universal_copy<f32, 128 b>",
}


# Two trips for the second loop.
LAST_TWO = "arith.subi %n, %two"


def codes(behind="", first=("", ""), second=("", ""), items=False, least="arith.minsi %some, %n"):
    """What is found of the two loops, each with one text instead of another, and some code behind
    them, in each of two work items or by themselves.
    """
    text = SPLIT.replace("BEHIND", behind).replace("arith.minsi %some, %n", least)
    if items:
        text = text.replace("%n: i32", "%trips: i32")
    text = text.replace("ITEMS", ITEMS * items).replace("ENDS", "}" * items)
    for bounds, (old, new) in (("%zero to %m", first), ("%m to %n", second)):
        loop = LOOP.replace("STORE", STORE).replace("BOUNDS", bounds)
        assert old in loop
        text = text.replace(f"LOOP({bounds})", loop.replace(old, new) if old else loop)
    for name, printed in NAMES.items():
        text = text.replace(name, printed)
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    (kernel,) = Parser(context, text).parse_module().ops
    assert isinstance(kernel, KernelOp)
    return [finding.code for finding in verdict_of(kernel).findings]


def test_a_loop_reads_ahead_for_the_one_behind_it_if_that_has_trips():
    """The first part of a loop that was split reads in its last trip what the other one takes;
    where that has none, nobody does.
    """
    assert codes() == []


def test_what_is_read_ahead_for_the_loop_behind_is_of_its_first_trip():
    """One of both reads the first stage each time, or what is read ahead is used behind them."""
    same = "cute.stage %s[%next]", "cute.stage %s[%zero]"
    assert "CD-R10" in codes(first=same)
    assert "CD-R10" in codes(second=same)
    assert "CD-R10" in codes(behind=STORE)


def test_what_is_read_in_front_of_loops_without_trips_may_be_of_the_work_item_before():
    assert codes(items=True) == []
    assert "CD-R10" in codes(items=True, first=("cute.stage %s[%next]", "cute.stage %s[%zero]"))
    assert "CD-R10" in codes(items=True, behind=STORE)


def test_a_part_of_two_trips_reads_ahead_as_far_wherever_it_begins():
    """It reads for another trip once in each case."""
    assert codes(least=LAST_TWO) == []
    same = "cute.stage %s[%next]", "cute.stage %s[%zero]"
    assert "CD-R10" in codes(least=LAST_TWO, second=same)
    assert codes(least=LAST_TWO, items=True) == []
    assert "CD-R10" in codes(least=LAST_TWO, items=True, second=same)


def test_a_part_of_two_trips_may_write_nothing():
    """The part in front has written all that it reads."""
    never = "arith.cmpi slt, %later, %n", "arith.cmpi slt, %n, %zero"
    assert codes(least=LAST_TWO, second=never) == []

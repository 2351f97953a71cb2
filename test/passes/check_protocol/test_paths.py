"""Inputs that lead into a body are found where several have to agree, and none where none lead
there.
"""

import pytest
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.parser import Parser

from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import KernelOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.protocol.inputs import Inputs
from cutedialect.passes.protocol.paths import inputs_into
from cutedialect.passes.protocol.skeleton import skeleton_of
from cutedialect.passes.protocol.steps import Case, walks_of

# Of the keys in some pages a batch entry has so many; blocks behind the first one see those that a
# window leaves.
PAGES = """
cute.kernel @k(%pages: i32, %left: i32, %lengths: !cute.memref<i32, gmem, align<16>, "(?):(1)">)
    attributes {threads = 32 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %page = arith.constant 16 : i32
  %block = arith.constant 64 : i32
  %x = cute.block_idx x
  %length = cute.read %lengths[%x] : !cute.memref<i32, gmem, align<16>, "(?):(1)">
  %room = arith.muli %pages, %page : i32
  %some = arith.minsi %length, %room : i32
  %keys = arith.maxsi %some, %zero : i32
  %blocks = arith.floordivsi %keys, %block : i32
  %end = arith.maxsi %blocks, %one : i32
  scf.for %j = %one to %end step %one : i32 {
    %at = arith.muli %j, %block : i32
    %last = arith.subi %keys, %left : i32
    %is_in_front = arith.cmpi slt, %at, %last : i32
    %is_second = arith.cmpi eq, %x, %one : i32
    %both = arith.andi %is_in_front, %is_second : i1
    scf.if %is_in_front {
    }
    scf.if %both {
    } else {
    }
    %is_none = arith.cmpi sgt, %one, %j : i32
    scf.if %is_none {
    }
  }
}
"""


# A condition on what is computed from data.
OF_DATA = """
cute.kernel @k() attributes {threads = 32 : i32} {
  %x = cute.alloc_fragment : !cute.fragment<f32, "(32,1)", "(32,1):(1,0)">
  %y = cute.map (%e = %x : !cute.fragment<f32, "(32,1)", "(32,1):(1,0)">)
      -> !cute.fragment<i1, "(32,1)", "(32,1):(1,0)"> {
    %zero = arith.constant 0.0 : f32
    %is_more = arith.cmpf ogt, %e, %zero : f32
    cute.yield %is_more : i1
  }
  %any = cute.any %y : !cute.fragment<i1, "(32,1)", "(32,1):(1,0)">
  scf.if %any {
    cute.barrier
  }
}
"""

# What is read of a block's own element, or a scalar.
OF_AN_ELEMENT = """
cute.kernel @k(%pages: i32, %lengths: !cute.memref<i32, gmem, align<16>, "(?):(1)">)
    attributes {threads = 32 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %x = cute.block_idx x
  %length = cute.read %lengths[%x] : !cute.memref<i32, gmem, align<16>, "(?):(1)">
  %is_second = arith.cmpi eq, %x, %one : i32
  %is_none = arith.cmpi eq, %length, %zero : i32
  %both = arith.andi %is_second, %is_none : i1
  %two = arith.constant 2 : i32
  %are_two = arith.cmpi eq, %pages, %two : i32
  %either = arith.ori %both, %are_two : i1
  scf.if %either {
    cute.barrier
  }
}
"""


def skeleton_from(text):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    (kernel,) = Parser(context, text).parse_module().ops
    assert isinstance(kernel, KernelOp)
    return kernel, skeleton_of(kernel)


@pytest.fixture
def led():
    """The inputs that lead into the body of each op, by its place in the kernel."""
    kernel, skeleton = skeleton_from(PAGES)
    ops = [op for op in walk(kernel) if isinstance(op, scf.ForOp | scf.IfOp)]
    found = []
    for op, region in [(op, 0) for op in ops] + [(ops[2], 1)]:
        inputs = inputs_into(skeleton, op, region, Inputs(skeleton))
        found.append(None if inputs is None else numbers(inputs))
    return found


def numbers(inputs):
    """The numbers of a case: keys, what a window leaves out of them, and the block."""
    known = {term[1]: number for term, number in inputs.values.items()}
    pages, left = (known.get(at, inputs.answer(("input", at))) for at in (0, 1))
    length = known.get("cute.read", inputs.data)
    return max(0, min(length, pages * 16)), left, known.get("cute.block_idx", 0)


def test_numbers_move_together_where_the_least_of_them_counts(led):
    keys, _, _ = led[0]
    assert 2 * 64 <= keys < 3 * 64


def test_a_condition_holds_in_a_trip_of_the_loop_around_it(led):
    keys, left, _ = led[1]
    assert any(j * 64 < keys - left for j in range(1, keys // 64))


def test_two_conditions_hold_at_once_or_one_of_them_does_not(led):
    keys, left, block = led[2]
    assert block == 1
    assert any(j * 64 < keys - left for j in range(1, keys // 64))
    keys, _, block = led[4]
    assert keys >= 2 * 64
    assert block == 0


def test_nothing_leads_where_no_input_does(led):
    assert led[3] is None


@pytest.mark.parametrize("text", [OF_DATA, OF_AN_ELEMENT])
def test_a_case_goes_where_the_search_leads(text):
    """The search and the case tell a condition on data by the same term, and an element that moves
    with its index is what it is there.
    """
    kernel, skeleton = skeleton_from(text)
    (branch,) = (op for op in walk(kernel) if isinstance(op, scf.IfOp))
    inputs = inputs_into(skeleton, branch, 0, Inputs(skeleton, data=100, above=0))
    assert inputs is not None
    walks = walks_of(skeleton, Case("of data", inputs))
    assert (id(branch), 0) in walks.entered

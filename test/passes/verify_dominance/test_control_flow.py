"""Dominance across blocks, on IR built by hand."""

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, cf, func
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from cutedialect.passes.verify_dominance import DominanceError, check_dominance


def module(text):
    ctx = Context()
    for dialect in (Builtin, arith.Arith, cf.Cf, func.Func):
        ctx.load_dialect(dialect)
    return Parser(ctx, text).parse_module()


DIAMOND = """
func.func @f(%c: i1, %a: i32) {{
  cf.cond_br %c, ^left, ^right
^left:
  %x = arith.addi %a, %a : i32
  cf.br ^join
^right:
  cf.br ^join
^join:
  %y = arith.addi %{used}, %a : i32
  func.return
}}"""


def test_entry_value_reaches_the_join():
    check_dominance(module(DIAMOND.format(used="a")))


def test_value_of_one_branch_does_not_reach_the_join():
    with pytest.raises(DominanceError, match=r"operand #0 \(%x\) .* does not dominate") as error:
        check_dominance(module(DIAMOND.format(used="x")))
    assert error.value.op.name == "arith.addi"


def test_loop_header_dominates_the_body_but_not_the_reverse():
    loop = """
    func.func @f(%c: i1, %a: i32) {{
      cf.br ^head
    ^head:
      %h = arith.addi %a, %{in_head} : i32
      cf.cond_br %c, ^body, ^exit
    ^body:
      %b = arith.addi %h, %a : i32
      cf.br ^head
    ^exit:
      %e = arith.addi %h, %a : i32
      func.return
    }}"""
    check_dominance(module(loop.format(in_head="a")))
    with pytest.raises(DominanceError, match=r"%b"):
        check_dominance(module(loop.format(in_head="b")))


def test_an_unreachable_block_neither_fails_nor_hides_dominance():
    text = """
    func.func @f(%a: i32) {
      %x = arith.addi %a, %a : i32
      cf.br ^join
    ^nowhere:
      %y = arith.addi %x, %z : i32
      cf.br ^join
    ^join:
      %z = arith.addi %x, %a : i32
      func.return
    }"""
    check_dominance(module(text))


def test_a_value_of_an_erased_operation_is_reported():
    top = module("func.func @f(%a: i32) { %x = arith.addi %a, %a : i32 func.return }")
    function = top.body.block.first_op
    first = function.body.block.first_op
    user = arith.AddiOp(first.result, first.result)
    function.body.block.insert_op_before(user, function.body.block.last_op)
    first.detach()
    with pytest.raises(DominanceError, match="not part of the module"):
        check_dominance(top)

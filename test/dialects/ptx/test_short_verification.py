"""Ops that verify by a short way when they are plainly right are refused when they are not."""

import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects import ptx


def kernel():
    """A kernel `add(x, y)` with a foreach: its module, the sum, the array and the yield."""
    entry = Block(arg_types=[ptx.reg("b32"), ptx.reg("f32")])
    total = ptx.scalar("add.s32", entry.args[0], entry.args[0])
    array = ptx.RegArrayOp("f32", 2)
    body = Block(arg_types=[ptx.reg("f32")])
    end = ptx.YieldOp([body.args[0]])
    body.add_op(end)
    tables = [(array.results[0], [0, 1])]
    entry.add_ops([total, array, ptx.ForeachOp(2, tables, [], tables, body)])
    made = ptx.KernelOp("k", Region(entry), "sm_80", 32)
    return ModuleOp([made]), entry, total, array, end


def test_what_is_right_verifies():
    kernel()[0].verify()


def wrong_class(entry, total, array, end):
    total.operands[1] = entry.args[1]


def missing_operand(entry, total, array, end):
    total.operands = [entry.args[0]]


def unknown_property(entry, total, array, end):
    total.properties["more"] = UnitAttr()


def no_modifiers(entry, total, array, end):
    del total.properties["modifiers"]


def array_with_operand(entry, total, array, end):
    array.operands = [entry.args[0]]


def array_with_property(entry, total, array, end):
    array.properties["more"] = UnitAttr()


def yields_array(entry, total, array, end):
    end.operands = [array.results[0]]


def yields_integer(entry, total, array, end):
    end.operands = [total.results[0]]


@pytest.mark.parametrize(
    "spoil",
    [
        wrong_class,
        missing_operand,
        unknown_property,
        no_modifiers,
        array_with_operand,
        array_with_property,
        yields_array,
        yields_integer,
    ],
)
def test_what_is_wrong_is_refused(spoil):
    module, *parts = kernel()
    spoil(*parts)
    with pytest.raises(VerifyException):
        module.verify()


def test_a_value_from_another_kernel_is_refused():
    module, _, total, *_ = kernel()
    other = kernel()[1]
    total.operands[0] = other.args[0]
    with pytest.raises(VerifyException, match="IsolatedFromAbove"):
        module.verify()

"""Discardable attributes: the table knows all that passes write, and other dialects' names pass."""

import pytest
from xdsl.context import Context

import cutedialect as cute
from cutedialect.dialects import all_dialects
from cutedialect.dialects.discardable import unknown_attribute
from cutedialect.passes.cute_to_ptx import pipeline
from cutedialect.tools.locating_parser import LocatingParser


def _operands(size):
    return [cute.TensorSpec((size, size), "f16", (None, 1)) for _ in range(2)]


def _rows(size):
    return [cute.TensorSpec((1, 2, size, 64), "f16", (None, None, None, 1)) for _ in range(3)]


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("function", "make"), [(cute.gemm, _operands), (cute.attention, _rows)])
def test_the_table_has_what_passes_write(function, make, arch):
    kernel = cute.compile(function, *make(512), arch=arch, backend="emulator")
    module = kernel.traced()
    seen = set()
    for step in pipeline(arch):
        step.apply(Context(), module)
        for op in module.walk():
            assert unknown_attribute(op) is None, (step.name, op.name)
            seen |= set(op.attributes)
    assert "from" in seen
    assert "role" in seen


def test_attributes_of_other_dialects_pass():
    text = """
!tile = !cute.memref<f32, gmem, align<16>, "(8,4):(4,1)">
cute.kernel @k(%a: !tile) {
  %x = cute.load %a {profiler.weight = 3 : i32} : !tile -> !cute.fragment<f32, "(8,4)">
}
"""
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    assert "profiler.weight = 3" in str(LocatingParser(context, text, "own.mlir").parse_module())

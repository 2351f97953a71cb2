"""Every op that may stand in a module before it is synchronized has a rule."""

from __future__ import annotations

import pytest

from cutedialect.backend.interpreter import program, rules, scalar_ops
from cutedialect.dialects.cute import Cute, KernelOp
from cutedialect.dialects.cute_nvgpu import CuteNvgpu

# Ops of the layout algebra have the rules of their table.
ALGEBRA = "cutedialect.dialects.cute.algebra"
# What is made of values of layouts is folded into other ops in front of all passes.
TILED = "cutedialect.dialects.cute.tiled_values"
OPS = [
    op
    for dialect in (Cute, CuteNvgpu)
    for op in dialect.operations
    if op is not KernelOp and not op.__module__.startswith((ALGEBRA, TILED))
]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_there_is_a_rule(op):
    assert program  # it loads the tables
    tables = (
        rules._STEPS, rules._FUNCTIONS,
        scalar_ops._SPECIAL, scalar_ops._FLOAT, scalar_ops._SIGNED | scalar_ops._UNSIGNED,
    )  # fmt: skip
    assert sum(op in table for table in tables) == 1

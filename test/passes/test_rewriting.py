"""`cloned` against xDSL's `clone`, on drawn nests of ops that use what stands before them."""

import random

import pytest
from xdsl.dialects import test as any_op
from xdsl.dialects.builtin import ModuleOp, StringAttr, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from cutedialect.passes.rewriting import cloned


def drawn(rng: random.Random, depth: int, seen: list[SSAValue]) -> Operation:
    """An op that uses some values; its results are seen by what comes behind it."""
    regions = []
    for _ in range(rng.randint(0, 2) if depth else 0):
        body = Block(arg_types=rng.choices((i32, i64), k=rng.randint(0, 2)))
        inside = [*seen, *body.args]
        body.add_ops([drawn(rng, depth - 1, inside) for _ in range(rng.randint(0, 3))])
        regions.append(Region(body))
    op = any_op.TestOp.create(
        operands=rng.sample(seen, rng.randint(0, min(2, len(seen)))),
        result_types=rng.choices((i32, i64), k=rng.randint(0, 2)),
        attributes={"number": StringAttr(str(rng.random()))},
        regions=regions,
    )
    for result in op.results:
        result.name_hint = rng.choice(("a", "b"))
    seen += op.results
    return op


@pytest.mark.parametrize("seed", range(20))
def test_a_copy_is_what_xdsl_makes(seed: int) -> None:
    rng = random.Random(seed)
    before = any_op.TestOp.create(result_types=[i32, i64])
    op = drawn(rng, 3, [*before.results])
    other = any_op.TestOp.create(result_types=[i32, i64])
    mine: dict[SSAValue, SSAValue] = dict(zip(before.results, other.results, strict=True))
    theirs = dict(mine)
    copies = cloned(op, mine), op.clone(theirs)
    assert mine.keys() == theirs.keys()
    shown = [str(ModuleOp([copy])) for copy in copies]
    assert shown[0] == shown[1]
    used = {operand for each in copies[0].walk() for operand in each.operands}
    assert used.isdisjoint(before.results)

"""`walk` against xDSL's own, on drawn nests of ops."""

import random

import pytest
from xdsl.dialects import test as any_op
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region

from cutedialect.dialects.walks import ops_of, walk


def drawn(rng: random.Random, depth: int) -> Operation:
    """An op with up to two regions of up to two blocks of up to three ops."""
    regions = []
    for _ in range(rng.randint(0, 2) if depth else 0):
        blocks = [
            Block([drawn(rng, depth - 1) for _ in range(rng.randint(0, 3))])
            for _ in range(rng.randint(0, 2))
        ]
        regions.append(Region(blocks))
    return any_op.TestOp.create(regions=regions)


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_that_of_xdsl(seed: int) -> None:
    rng = random.Random(seed)
    module = ModuleOp([drawn(rng, 4) for _ in range(3)])
    assert list(walk(module)) == list(module.walk())
    assert list(walk(module.body.block)) == list(module.body.block.walk())
    assert list(walk(module.body)) == list(module.body.walk())


@pytest.mark.parametrize("seed", range(5))
def test_ops_of_classes(seed: int) -> None:
    rng = random.Random(seed)
    module = ModuleOp([drawn(rng, 4) for _ in range(3)])
    assert ops_of(module, ModuleOp) == [module]
    for kinds in ((any_op.TestOp,), (any_op.TestOp, ModuleOp), (Operation,), (any_op.TestPureOp,)):
        wanted = [op for op in module.walk() if isinstance(op, kinds)]
        assert ops_of(module, *kinds) == wanted


@pytest.mark.parametrize("seed", range(20))
def test_an_op_may_be_erased_once_it_was_given(seed: int) -> None:
    found = []
    for visit in (walk, Operation.walk):
        rng = random.Random(seed)
        module = ModuleOp([drawn(rng, 4) for _ in range(3)])
        kept = 0
        for op in visit(module):
            if op is not module and not op.regions and rng.random() < 0.5:
                op.detach()
                op.erase()
            else:
                kept += 1
        assert kept == len(list(module.walk()))
        found.append(str(module))
    assert found[0] == found[1]

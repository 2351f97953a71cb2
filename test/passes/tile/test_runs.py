"""Where runs of tiles begin, and how many there are: exact, and within 32 bits, for matrices of any
extents.
"""

import random

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import f16
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import DimOp, MemRefType, TileIndexOp
from cutedialect.layout import Dyn, Layout
from cutedialect.passes.rewriting import ScalarBuilder
from cutedialect.passes.tile.runs import count_runs, start_of_run

_SIGNED = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.DivSIOp: lambda a, b: a // b,
    arith.RemSIOp: lambda a, b: a % b,
    arith.DivUIOp: lambda a, b: a % 2**32 // b,
    arith.RemUIOp: lambda a, b: a % 2**32 % b,
    arith.CeilDivSIOp: lambda a, b: -(-a // b),
    arith.MinSIOp: min,
}


def _evaluated(block: Block, values: dict[SSAValue, int], shape: tuple[int, int]) -> None:
    """Run scalar ops; no sum may leave 32 bits."""
    for op in block.ops:
        match op:
            case DimOp():
                value = shape[op.mode.value.data]
            case arith.ConstantOp():
                value = op.value.value.data  # pyright: ignore
            case arith.CmpiOp():
                is_above = op.predicate.value.data == 4
                one, other = values[op.lhs], values[op.rhs]
                value = int(one > other if is_above else one >= other)
            case arith.MulUIExtendedOp():
                value = values[op.lhs] * values[op.rhs]
                values[op.results[1]] = value >> 32
                value %= 2**32
            case arith.SelectOp():
                value = values[op.lhs] if values[op.cond] else values[op.rhs]
            case TileIndexOp():
                continue
            case _:
                value = _SIGNED[type(op)](*(values[each] for each in op.operands))
                if not isinstance(op, arith.DivUIOp | arith.SubiOp):
                    assert 0 <= value < 2**31, op
        values[op.results[0]] = value


@pytest.mark.parametrize(("width", "run"), [(8, 512), (4, 1024), (1, 1024)])
def test_runs_cover_each_tile_once(width, run):
    rng = random.Random(width)
    shapes = [(1, 1), (7, 13), (3, 100_000), (2**31 - 1, 1), (1, 2**31 - 1), (70_000, 2_000_001)]
    shapes += [(2**12 + 3, 2**20 * width), (5, 2**20 * width + 1), (300, 2**30)]
    shapes += [(rng.randint(1, 3000), rng.randint(1, 3000)) for _ in range(20)]
    layout = Layout((Dyn(), Dyn()), (Dyn(), 1))
    block = Block(arg_types=[MemRefType.get(f16, "gmem", 2, layout)])
    index = TileIndexOp(block.args[0], [1, width], runs=run)
    block.add_op(index)
    build = ScalarBuilder(InsertPoint.at_end(block), index)
    total = count_runs(build, block.args[0], width, run)
    start = start_of_run(build, index.results[0], block.args[0], width, run)
    for rows, columns in shapes:
        tiles = -(-columns // width)

        def begin(number, shape=(rows, columns)):
            values = {index.results[0]: number}
            _evaluated(block, values, shape)
            return (*(values[each] for each in (start.row, start.place, total)), values)

        count = begin(0)[2]
        assert count * run >= rows * tiles
        numbers = {0, count - 1, *(rng.randrange(count) for _ in range(30))}
        for number in sorted(each for each in numbers if 0 <= each < count):
            row, place, _, values = begin(number)
            next_row, reciprocal = values[start.next_row], values[start.reciprocal]
            assert values[start.tiles] == tiles
            assert reciprocal == ((2**32 - 1) // tiles if next_row == 1 else 0)
            if next_row == 1:
                # One run after the other.
                assert row * tiles + place == number * run
            else:
                each = -(-tiles // run)
                assert (row, place) == (number // each, number % each * run)
                assert rows <= next_row < 2**31 - rows
        last = begin(count - 1)
        assert last[0] < rows

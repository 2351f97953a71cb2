"""The table of events against the effects that the passes use: two readings of one manual, which
have to say the same of what an op reads, writes, starts and waits for.
"""

import numpy as np
import pytest
from xdsl.context import Context

import cutedialect as cute
from cutedialect.dialects.cute import FragmentType, GemmOp, KernelOp, MemRefType
from cutedialect.dialects.effects import Unit, effects_of
from cutedialect.dialects.walks import walk
from cutedialect.passes.protocol.events import (
    ATOMS,
    ROWS,
    Does,
    Engine,
    operands_of,
    row_of,
)

UNITS = {
    Unit.THREADS: Engine.THREADS,
    Unit.CP_ASYNC: Engine.CP_ASYNC,
    Unit.TMA_LOAD: Engine.BULK_LOAD,
    Unit.TMA_STORE: Engine.BULK_STORE,
    Unit.WGMMA: Engine.WGMMA,
    Unit.TCGEN05: Engine.TCGEN05,
}


def tiles(values):
    return {value for value in values if isinstance(value.type, MemRefType | FragmentType)}


def stage(arch, schedule):
    """A GEMM with a sum of its rows behind `cute-unroll-loops`."""
    from cutedialect.passes.cute_to_ptx import pipeline

    a = np.zeros((256, 256), np.float16)
    kernel = cute.compile(cute.gemm, a, a, arch=arch, schedule=schedule, backend="emulator")
    module = kernel.traced()
    for step in pipeline(arch)[:-1]:
        step.apply(Context(), module)
    return next(op for op in module.ops if isinstance(op, KernelOp))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_rows_and_effects_say_the_same(arch):
    compared = set()
    for op in walk(stage(arch, None).body):
        row = row_of(op)
        assert row is not None, op.name
        if row.does in (Does.HOLDS, Does.MAKES):
            continue
        effects = effects_of(op)
        read, written = tiles(operands_of(op, row.reads)), tiles(operands_of(op, row.writes))
        if row.does is not Does.GIVES:
            assert read == tiles(effects.reads), op
            assert written == tiles(effects.writes), op
        if read or written:
            assert UNITS[effects.unit] is row.engine, op
        assert (effects.closes is not None) == (row.does is Does.GROUP_COMMIT), op
        assert (effects.completes is not None) == (row.does is Does.GROUP_WAIT), op
        unit = effects.closes or effects.completes
        assert unit is None or UNITS[unit] is row.engine, op
        assert bool(effects.meets) == (row.does in (Does.BARRIER, Does.GATHER, Does.START)), op
        compared.add(type(op))
    assert GemmOp in compared
    assert len(compared) > 15


def test_rows_name_operands_and_sections():
    for kind, row in ROWS.items():
        names = {name for name, _ in kind.get_irdl_definition().operands}
        assert set(row.reads) | set(row.writes) <= names, kind.name
        assert row.section.startswith("9.7.") or not row.section
        works = row.does not in (Does.NOTHING, Does.HOLDS, Does.GIVES, Does.MAKES, Does.ADVANCE)
        assert row.section or not works, kind.name
    assert all(section.startswith("9.7.") for atom, (_, section) in ATOMS.items() if atom)

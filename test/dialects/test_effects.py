"""What ops say they do: which memory they touch, who does it together, what they complete."""

import pytest
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Operation

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AllocSmemOp,
    AnyOp,
    BarrierOp,
    CopyOp,
    FragmentType,
    MemRefType,
    ReduceOp,
)
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    TmaStoreCommitOp,
    TmaStoreType,
    TmaStoreWaitOp,
    WgmmaWaitOp,
)
from cutedialect.dialects.effects import ALL, Unit, effects_of, touches_tiles
from cutedialect.layout import Layout

# Eight warps on 64 rows of 32 elements: four along the rows, then two along the columns.
TV = Layout(((4, 8, 4, 2), (2, 2, 2)), ((128, 1, 16, 1024), (64, 8, 512)))


def tile(element=f32) -> AllocFragmentOp:
    return AllocFragmentOp(FragmentType.get(element, (64, 32), TV))


def within(op: Operation) -> int | None:
    """The fewest warps that an op stays within."""
    return next((warps for warps in (1, 4, 8) if effects_of(op).stays_within(warps)), None)


def test_a_reduction_says_how_many_warps_exchange():
    """Rows lie in two warps that are four apart, columns in four neighbors."""
    source = tile()
    assert effects_of(ReduceOp("add", source.result, 1)).team == 8
    assert effects_of(ReduceOp("add", source.result, 0)).team == 4
    assert effects_of(ReduceOp("add", source.result, 1, local=True)).team == 0


def test_copies_say_which_memory_and_who():
    smem = AllocSmemOp(MemRefType.get(f16, "smem", 128, Layout((64, 32), (32, 1))))
    there = CopyOp(tile(f16).result, smem.result)
    assert not effects_of(there).touches_only("rmem")
    assert effects_of(there).touches_only("rmem", "smem")
    assert touches_tiles(there)
    assert not touches_tiles(smem)
    gmem = AllocSmemOp(MemRefType.get(f16, "gmem", 128, Layout((64, 32), (32, 1))))
    for warps, team in ((None, ALL), (4, 4)):
        store = CopyOp(smem.result, gmem.result, atom=TmaStoreType.get(f16, None, warps))
        assert (effects_of(store).team, effects_of(store).unit) == (team, Unit.TMA_STORE)
        assert effects_of(store).starts_or_publishes


@pytest.mark.parametrize(
    ("op", "warps"),
    [
        (BarrierOp(), None),
        (BarrierOp(4), 4),
        (TmaStoreCommitOp(4), 4),
        (TmaStoreWaitOp(0, True), None),
        (TmaStoreWaitOp(0, True, 4), 4),
        (ProxyFenceOp(), 1),
        (WgmmaWaitOp(0), 4),
        (AnyOp(tile().result), None),
        (tile(), 1),
    ],
)
def test_who_has_to_be_there(op, warps):
    assert within(op) == warps


def test_what_completes_and_what_starts():
    assert effects_of(TmaStoreWaitOp(0, True)).completes is Unit.TMA_STORE
    assert effects_of(WgmmaWaitOp(0)).completes is Unit.WGMMA
    assert effects_of(TmaStoreCommitOp()).starts_or_publishes
    assert not effects_of(WgmmaWaitOp(0)).starts_or_publishes

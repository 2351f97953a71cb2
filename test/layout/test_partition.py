"""What a thread has of both sides of a copy, and register tiles in another partition's order."""

import pytest

from cutedialect.atoms import copy_atom, mma_atom
from cutedialect.layout import (
    Layout,
    LayoutError,
    Tensor,
    ThrCopy,
    TiledCopy,
    TiledMMA,
    make_fragment_A,
    make_fragment_B,
    make_fragment_C,
    make_tiled_copy_A,
    make_tiled_copy_C,
    tma_partition,
)

MMA = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"), Layout((2, 1, 1)))


def offsets(partition):
    layout, start = partition
    return [start + offset for offset in layout.offsets()]


@pytest.mark.parametrize("tensor", [Layout((64, 32), (32, 1)), Layout((64, 32))])
def test_both_sides_of_ldmatrix_name_the_same_elements(tensor):
    """Where one thread's address points is what others get, instruction by instruction."""
    atom = copy_atom("ldmatrix_x4")
    copy = make_tiled_copy_A(MMA)
    threads = [ThrCopy(copy, atom, thread) for thread in range(copy.threads)]
    sources = [offsets(one.partition_S(tensor)) for one in threads]
    targets = [offsets(one.partition_D(tensor)) for one in threads]
    per = atom.dst_layout[1].size()
    for warp in range(0, copy.threads, 32):
        for first in range(0, len(sources[0]), per):
            moved = {}
            for side, found in ((atom.src_layout, sources), (atom.dst_layout, targets)):
                for lane in range(32):
                    for value in range(per):
                        at = found[warp + lane][first + value]
                        assert moved.setdefault(side((lane, value)), at) == at
            assert len(moved) == 256
    assert sorted(at for part in targets for at in part) == sorted(tensor.offsets())


def test_the_target_is_what_the_multiply_has():
    copy, tensor = make_tiled_copy_A(MMA), Layout((64, 32), (32, 1))
    for thread in range(0, 64, 7):
        loaded = ThrCopy(copy, copy_atom("ldmatrix_x4"), thread).partition_D(tensor)
        assert sorted(offsets(loaded)) == sorted(offsets(MMA.partition("A", tensor, thread)))


@pytest.mark.parametrize("atom", ["stmatrix_x2", "stmatrix_x4", "st_shared_64"])
def test_registers_of_a_fragment_are_retiled_for_a_store(atom):
    """Value i of the copy is in the register in which the multiply left that element."""
    tile = Layout((32, 64))
    mma = TiledMMA(MMA.atom, MMA.atom_layout_mnk, (None, 16, None))
    copy = make_tiled_copy_C(mma)
    store = copy_atom(atom)
    if not store.matrices:
        store = _Pairs
    for thread in (0, 5, 33, 63):
        mine, start = mma.partition("C", tile, thread)
        fragment = Layout(mine.shape)
        register = dict(zip(offsets((mine, start)), fragment.offsets(), strict=True))
        one = ThrCopy(copy, store, thread, reference="S")
        stored = offsets(one.partition_S(tile))
        assert [register[at] for at in stored] == one.retile_S(fragment).offsets()


class _Pairs:
    """Two neighboring values of a thread at once."""

    src_layout = dst_layout = Layout((1, 2), (0, 1))


def test_fragments_are_compact_and_checked():
    a, b, c = (Layout(shape, (shape[1], 1)) for shape in ((64, 32), (32, 32), (64, 32)))
    for operand, make, tensor, values in (
        ("A", make_fragment_A, a, 8),
        ("B", make_fragment_B, b, 4),
        ("C", make_fragment_C, c, 4),
    ):
        mine, _ = MMA.partition(operand, tensor, 3)
        part = Tensor([0.0] * tensor.cosize(), mine)
        fragment = make(MMA, part)
        assert sorted(fragment.layout.offsets()) == list(range(mine.size()))
        assert fragment.layout[0].offsets() == list(range(values))
        with pytest.raises(LayoutError, match=f"partition of {operand} with {values} values"):
            make(MMA, Tensor([0.0] * 99, Layout((3, 33))))


def test_tma_parts_of_both_memories_agree():
    """Box by box, what lies one after another in shared memory is what the box has in global
    memory; CTAs that share it begin at their parts."""
    smem = Layout(((64, 32), 3), ((32, 1), 2048))
    gmem = Layout(((64, 32), 4), ((128, 1), 32))
    for values in (512, 2048):
        starts = []
        for cta in range(2):
            parts, (mine, start) = tma_partition(values, cta, Layout(2), smem, gmem)
            starts.append(start)
            assert parts[0][0].offsets() == list(range(values))
            place = dict(zip(smem[0].offsets(), gmem[0].offsets(), strict=True))
            boxes = zip(parts[0].offsets(), mine[0].offsets(), strict=True)
            assert all(place[at] == element for at, element in boxes)
        assert starts == [0, place[values // 2]]
    with pytest.raises(LayoutError, match="boxes that divide"):
        tma_partition(100, 0, Layout(1), smem, gmem)


def test_wrong_sides_and_tiles():
    copy = TiledCopy.of(Layout((4, 8), (8, 1)), Layout((1, 4)))
    with pytest.raises(LayoutError, match="expected the side S or D"):
        ThrCopy(copy, copy_atom("ldmatrix_x1"), 0, "X")
    with pytest.raises(LayoutError, match="multiple of the instruction's 8 values"):
        ThrCopy(copy, copy_atom("ldmatrix_x4"), 0)

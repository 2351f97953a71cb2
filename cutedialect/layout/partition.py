"""What one thread, or one CTA, has of a tensor: the two sides of a copy whose instruction moves
values between threads, register tiles in the order of another copy, fragments of a multiply, and
the boxes of TMA. In the spelling of CuTe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from .algebra import coalesce, composition, right_inverse
from .composed_layout import ComposedLayout
from .divide_product import logical_divide, logical_product, tile_to_shape, zipped_divide
from .errors import LayoutError
from .int_tuple import extent, to_text
from .layout import Layout
from .modes import make_layout
from .recast import upcast
from .tensor import Tensor, make_fragment_like
from .tiled import TiledCopy, TiledMMA

Partition = tuple[Layout, int]
"""The layout of what a thread has, and the offset of its first element."""
_OPERANDS = {"A": 0, "B": 1, "C": 2}


class CopyAtomLike(Protocol):
    """What a copy reads of its instruction: (thread, value) of either side to the elements of the
    tile that one instruction moves."""

    @property
    def src_layout(self) -> Layout: ...
    @property
    def dst_layout(self) -> Layout: ...


@dataclass(frozen=True)
class ThrCopy:
    """What a thread has of either side of a tiled copy by an instruction. `copy` is about the side
    `reference`, "S" or "D": that in registers.

    The source of `ldmatrix` is one row of 8 elements for each of 8 threads; its target two elements
    for each of 32:

    >>> from cutedialect.atoms import copy_atom
    >>> load = ThrCopy(TiledCopy(copy_atom("ldmatrix_x1").dst_layout, (8, 8)),
    ...                copy_atom("ldmatrix_x1"), 1)
    >>> rows = Layout((8, 8), (8, 1))
    >>> print(*load.partition_S(rows))
    (8,1,1):(1,64,8) 8
    >>> print(*load.partition_D(rows))
    (2,1,1):(1,64,8) 2
    >>> "T1V0" in load._repr_svg_()
    True
    """

    copy: TiledCopy
    atom: CopyAtomLike
    thread: int
    reference: str = "D"

    def __post_init__(self) -> None:
        if self.reference not in ("S", "D"):
            raise LayoutError(f"expected the side S or D, got {self.reference!r}")
        for name, whole, part in zip(
            ("threads", "values"), self.copy.tv, self._side(self.reference), strict=True
        ):
            if whole.size() % part.size():
                raise LayoutError(
                    f"expected a multiple of the instruction's {part.size()} {name}, got "
                    f"{whole.size()}"
                )

    def _repr_svg_(self) -> str | None:
        """The tile in the registers of all threads."""
        return self.copy._repr_svg_()  # pyright: ignore[reportPrivateUsage]

    def _side(self, side: str) -> Layout:
        return self.atom.src_layout if side == "S" else self.atom.dst_layout

    def partition_S(self, tensor: Layout) -> Partition:
        """(values, rest...) of the source that the thread has, and where they begin. All threads
        have each element; of `ldmatrix` 8 of them have a row each, and the others the same again.

        >>> from cutedialect.atoms import copy_atom
        >>> atom = copy_atom("ldmatrix_x1")
        >>> copy = TiledCopy(atom.dst_layout, (8, 8))
        >>> parts = [ThrCopy(copy, atom, each).partition_S(Layout((8, 8))) for each in range(8)]
        >>> sorted(start + at for part, start in parts for at in part.offsets()) == list(range(64))
        True
        """
        return self._partition(tensor, "S")

    def partition_D(self, tensor: Layout) -> Partition:
        """(values, rest...) of the target that the thread has, and where they begin. Together all
        threads have each element once.

        >>> from cutedialect.atoms import copy_atom
        >>> atom = copy_atom("ldmatrix_x1")
        >>> copy = TiledCopy(atom.dst_layout, (8, 8))
        >>> parts = [ThrCopy(copy, atom, each).partition_D(Layout((8, 8))) for each in range(32)]
        >>> sorted(start + at for part, start in parts for at in part.offsets()) == list(range(64))
        True
        """
        return self._partition(tensor, "D")

    def _partition(self, tensor: Layout, side: str) -> Partition:
        reference, wanted = self._side(self.reference), self._side(side)
        count = reference[0].size(), reference[1].size()
        divided = zipped_divide(self.copy.tv, count)
        # Of the side's threads and values those of the reference, in the tile of one instruction.
        turned = composition(right_inverse(reference), wanted)
        inside = composition(divided[0], turned)
        rest = divided[1]
        threads = coalesce(make_layout(inside[0], rest[0]))
        values = (
            make_layout(coalesce(inside[1]), rest[1]) if rest[1].size() > 1 else coalesce(inside[1])
        )
        tiles = zipped_divide(tensor, self.copy.tiler)
        start = composition(tiles[0], threads)(self.thread)
        mine = composition(tiles[0], values)
        return make_layout(mine, *tiles[1]), start

    def retile_S(self, fragment: Layout) -> Layout:
        """A register tile (values, rest M, rest N) of another partition as this copy's source. It
        has the same registers, in the order of the instruction:

        >>> from cutedialect.atoms import copy_atom, mma_atom
        >>> from cutedialect.layout import make_tiled_copy_C
        >>> mma = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"))
        >>> store = ThrCopy(make_tiled_copy_C(mma), copy_atom("stmatrix_x2"), 0, "S")
        >>> sums = Layout((4, 2, 3))
        >>> tile = store.retile_S(sums)
        >>> print(tile, sorted(tile.offsets()) == sums.offsets())
        ((4,1),2,3):((1,0),4,8) True
        """
        return _retiled(self.copy, fragment, self._side(self.reference)[1].size())

    def retile_D(self, fragment: Layout) -> Layout:
        """A register tile (values, rest M, rest N) of another partition as this copy's target. It
        has the same registers, in the order of the instruction:

        >>> from cutedialect.atoms import copy_atom, mma_atom
        >>> from cutedialect.layout import make_tiled_copy_A
        >>> mma = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"))
        >>> load = ThrCopy(make_tiled_copy_A(mma), copy_atom("ldmatrix_x4"), 0)
        >>> tile = load.retile_D(Layout(((2, 2, 2), 2, 3)))
        >>> print(tile, sorted(tile.offsets()) == list(range(48)))
        ((8,1),2,3):((1,0),8,16) True
        """
        return _retiled(self.copy, fragment, self._side(self.reference)[1].size())


def _retiled(copy: TiledCopy, fragment: Layout, per_instruction: int) -> Layout:
    """The registers of a fragment in the order in which a copy has the same elements of a thread.

    What the fragment's first mode counts is one block of the copy's values, those of its other
    modes the blocks along M and N.
    """
    values = fragment[0].size()
    inverse = composition(right_inverse(copy.tv), Layout(copy.tiler))
    blocks = upcast(inverse, copy.threads * values)
    order = logical_product(Layout(values), right_inverse(blocks))
    of_copy = zipped_divide(order, Layout(per_instruction))
    counts = tuple(extent(mode) for mode in blocks.shape)  # pyright: ignore[reportArgumentType]
    tiles = zipped_divide(fragment, (values, *counts))
    mine = composition(tiles[0], of_copy)
    return make_layout(mine, *list(tiles[1])[1:])


def make_fragment_A(mma: TiledMMA, partition: Tensor) -> Tensor:
    """Registers for what a thread multiplies of A: a partition (values, rest M, rest K).

    >>> from cutedialect.atoms import mma_atom
    >>> mma = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"))
    >>> mine, start = mma.partition("A", Layout((32, 32), (32, 1)), 5)
    >>> part = Tensor(list(range(1024)), mine)
    >>> print(make_fragment_A(mma, part).layout)
    ((2,2,2),2,2):((1,2,4),16,8)
    """
    return _fragment(mma, partition, "A")


def make_fragment_B(mma: TiledMMA, partition: Tensor) -> Tensor:
    """Registers for what a thread multiplies of B: a partition (values, rest N, rest K).

    >>> from cutedialect.atoms import mma_atom
    >>> mma = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"))
    >>> mine, start = mma.partition("B", Layout((16, 32), (32, 1)), 5)
    >>> print(make_fragment_B(mma, Tensor(list(range(512)), mine)).layout)
    ((2,2),2,2):((1,2),8,4)
    """
    return _fragment(mma, partition, "B")


def make_fragment_C(mma: TiledMMA, partition: Tensor) -> Tensor:
    """Registers for what a thread adds up of C: a partition (values, rest M, rest N).

    >>> from cutedialect.atoms import mma_atom
    >>> mma = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"))
    >>> mine, start = mma.partition("C", Layout((32, 16), (16, 1)), 5)
    >>> print(make_fragment_C(mma, Tensor(list(range(512)), mine)).layout)
    ((2,2),2,2):((1,2),8,4)
    """
    return _fragment(mma, partition, "C")


def _fragment(mma: TiledMMA, partition: Tensor, operand: str) -> Tensor:
    atom: Layout = getattr(mma.atom, f"{operand.lower()}_layout")
    layout = partition.layout
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    if len(inner) < 1 or inner[0].size() != atom[1].size():
        raise LayoutError(
            f"expected a partition of {operand} with {atom[1].size()} values of an instruction as "
            f"its first mode, got {layout}"
        )
    return make_fragment_like(partition)


def tma_partition(
    values: int, cta: Any, ctas: Layout, smem: Layout, gmem: Layout
) -> tuple[Layout, Partition]:
    """((box, boxes), rest...) of a tile in shared and in global memory, the first mode of both, as
    TMA moves boxes of so many `values`: as one box has them one after another in shared memory. Of
    those that multicast (`ctas`, from a coordinate to a number) each begins at its share of a box.

    >>> smem, gmem = Layout(((64, 32), 3), ((32, 1), 2048)), Layout(((64, 32), 4), ((128, 1), 32))
    >>> parts, (mine, start) = tma_partition(2048, 1, Layout(2), smem, gmem)
    >>> print(parts, mine, start)
    ((2048,1),3):((1,0),2048) (((32,64),1),4):(((1,128),0),32) 4096
    """
    tile, *stages = smem
    if extent(tile.shape) % values:
        raise LayoutError(f"expected boxes that divide {to_text(tile.shape)}, got {values} values")
    inverse = right_inverse(tile)
    order = tile_to_shape(make_layout(inverse), (tile.size(),))
    boxes = logical_divide(order[0] if len(order) == 1 else order, values)
    of_smem = _by_boxes(tile, boxes)
    first, *rest = gmem
    of_gmem = _by_boxes(first, boxes)
    share = ctas(cta) * (values // ctas.cosize())
    return make_layout(of_smem, *stages), (make_layout(of_gmem, *rest), of_gmem[0](share))


def _by_boxes(tile: Layout, boxes: Layout) -> Layout:
    divided = composition(tile, boxes)
    return make_layout(coalesce(divided[0]), coalesce(divided[1]))

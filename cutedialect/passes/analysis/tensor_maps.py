"""Tiles that TMA can copy: which tensor of the kernel a tile comes from, the tensor map that the
copy needs, and which CTAs of a cluster want the same tile.

A tensor map is a kernel argument of its own, made in `@launch` from the tensor that it describes;
the maps of a group of tensors are a group too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from cutedialect.atoms.tensor_map import Window
from cutedialect.dialects import cute
from cutedialect.dialects.cute.views import GUARD
from cutedialect.dialects.walks import ops_around
from cutedialect.layout import Layout, flatten
from cutedialect.passes.analysis.layout_inference import contiguous_mode
from cutedialect.passes.analysis.smem_layouts import is_held
from cutedialect.passes.launch_arguments import is_known_on_host, is_workspace

CLUSTER_MODE = "cluster_mode"
"""On the op that adds a CTA's place in its cluster to a tile coordinate: which mode (0 M, 1 N)."""
CLUSTER_UNIFORM = "cluster_uniform"
"""On an op whose result is the same in every CTA of a cluster."""

_WIDTH = 16
_MOST_MODES = 5
_MOST_EXTENT = 256
# Bytes of a line of shared memory.
_LINE = 128


@dataclass(frozen=True)
class TensorTile:
    """A tile of a kernel's tensor: the tensor's mode that each mode of the tile runs along, -1 for
    the mode of extent 1 that a vector gets to be a row or a column.

    `tensor` is an argument of the kernel, a member of one that is a group, or a view of an argument
    through a layout that the host part can compute; `sliced` the mode of it along which the tile is
    one of a slice; `window` how its rows follow each other where they are pixels of images.
    """

    tensor: SSAValue
    modes: tuple[int, ...]
    sliced: int | None = None
    window: Window | None = None

    @property
    def is_moved(self) -> bool:
        """Whether its rows do not begin where those of the tensor do."""
        return self.sliced is not None or self.window is not None


def tile_of_tensor(value: SSAValue) -> TensorTile | None:
    """Follow a tile to the kernel argument that it is part of; None for other memory, and for a
    workspace, whose place is not known where tensor maps are made.
    """
    type_, op = value.type, value.owner
    if not isinstance(type_, cute.MemRefType):
        return None
    if isinstance(value, BlockArgument) or isinstance(op, cute.MemberOp | cute.MakeViewOp):
        return TensorTile(value, tuple(range(type_.rank))) if _has_map(value) else None
    if isinstance(op, cute.IndexedTileOp):
        return None if op.pixels is None else tile_of_tensor(op.pixels)
    if isinstance(op, cute.PixelTileOp):
        rank = op.memref.type.rank
        images = tile_of_tensor(op.memref)
        known = images is not None and images.sliced is None and images.tensor is op.memref
        return TensorTile(op.memref, (rank - 2, rank - 1), window=op.walked) if known else None
    if isinstance(op, cute.ConcatOp):
        tiles = {tile_of_tensor(part) for part in op.parts}
        return tiles.pop() if len(tiles) == 1 else None
    views = cute.SubviewOp | cute.TransposeOp | cute.SliceOp | cute.LocalTileOp
    source = tile_of_tensor(op.operands[0]) if isinstance(op, views) else None
    if source is None or isinstance(op, cute.SubviewOp):
        return source
    return _part_of(source, op, type_.rank)


def _has_map(value: SSAValue) -> bool:
    """Whether the host part can make a map of a whole tensor, a member of a group, or a view."""
    op = value.owner
    if isinstance(op, cute.MakeViewOp):
        kernel = next((one for one in ops_around(op) if isinstance(one, cute.KernelOp)), None)
        # Maps begin with their tensor.
        is_made = kernel is not None and op.offset is None and is_known_on_host(kernel, value)
        return is_made and tile_of_tensor(op.source) is not None
    argument = op.group if isinstance(op, cute.MemberOp) else value
    kernel = argument.owner.parent_op() if isinstance(argument, BlockArgument) else None
    return isinstance(kernel, cute.KernelOp) and not is_workspace(kernel, argument)  # pyright: ignore


def _part_of(source: TensorTile, op: object, rank: int) -> TensorTile | None:
    """What a view of a tile is, which has so many modes."""
    if isinstance(op, cute.TransposeOp):
        modes = source.modes if len(source.modes) == 2 else (*source.modes, -1)
        return replace(source, modes=modes[::-1])
    if isinstance(op, cute.SliceOp):
        mode = source.modes[op.mode.value.data]
        # A slice's map says where it ends, not that the tensor may begin behind its start.
        known = GUARD not in op.attributes and source.sliced in (None, mode)
        return replace(source, sliced=mode) if known else None
    assert isinstance(op, cute.LocalTileOp)
    guarded = op.attributes.get(GUARD)
    looked_at = guarded.get_values() if isinstance(guarded, DenseArrayBase) else ()
    if source.sliced is not None and source.sliced in [source.modes[mode] for mode in looked_at]:
        return None  # Rows in front of a slice are there in its map.
    kept = [mode for mode, extent in zip(source.modes, op.tile.get_values(), strict=True) if extent]
    return replace(source, modes=tuple(kept[len(kept) - rank :]))


def part_of(value: SSAValue) -> cute.MemRefType:
    """The type of what is copied at once: a tile, or each part of one that is put together."""
    type_, op = value.type, value.owner
    assert isinstance(type_, cute.MemRefType)
    if isinstance(op, cute.ConcatOp):
        return part_of(op.parts[0])
    if isinstance(op, cute.TransposeOp) and is_joined(op.source):
        return cute.transposed_type(part_of(op.source))  # pyright: ignore[reportReturnType]
    return type_


def is_joined(value: SSAValue) -> bool:
    """Whether a tile is put together from several."""
    op = value.owner
    if isinstance(op, cute.TransposeOp):
        return is_joined(op.source)
    return isinstance(op, cute.ConcatOp)


def is_exception(op: Operation) -> bool:
    """Whether an op stands in a loop in a branch that values of tiles decide: what hardly ever
    happens gets no shared memory of its own.
    """
    in_loop = False
    for around in ops_around(op):
        in_loop = in_loop or isinstance(around, scf.ForOp)
        if in_loop and _asks_tiles(around):
            return True
    return False


def asks_tiles_around(op: Operation, also: tuple[type[Operation], ...] = ()) -> bool:
    """Whether an op stands in a branch that values of tiles decide, or other ops."""
    return any(_asks_tiles(around, also) for around in ops_around(op))


def _asks_tiles(branch: Operation, also: tuple[type[Operation], ...] = ()) -> bool:
    pending = [branch.cond] if isinstance(branch, scf.IfOp) else []
    while pending:
        op = pending.pop().owner
        if isinstance(op, (cute.AnyOp, *also)):
            return True
        if isinstance(op, Operation):
            pending += op.operands
    return False


def has_tensor_map(type_: cute.MemRefType) -> bool:
    """Whether the driver takes such a tensor."""
    return not why_no_map(type_)


def why_no_map(type_: cute.MemRefType) -> str:
    """Why the driver takes no map of such a tensor (rows of 16 bytes, at most 5 modes: PTX ISA
    5.5); empty where it does.
    """
    if type_.space != "gmem" or any(isinstance(mode, tuple) for mode in type_.modes):
        return "it is no plain tensor in global memory"
    if type_.alignment < _WIDTH:
        return f"its tensor is aligned to {type_.alignment} bytes, not {_WIDTH}"
    if type_.rank > _MOST_MODES:
        return f"its tensor has {type_.rank} modes, more than {_MOST_MODES}"
    if type_.bits not in (8, 16, 32, 64):
        return f"its elements have {type_.bits} bits"
    if sum(stride == 1 for stride in type_.stride) != 1:
        return "not exactly one mode of its tensor is contiguous"
    for stride in type_.stride:
        step = stride if isinstance(stride, int) else getattr(stride, "div", 1)
        if stride != 1 and step * type_.bits // 8 % _WIDTH:
            return f"a stride of its tensor is known to be a multiple of {step} elements only"
    return ""


def boxes_of(
    tile: SSAValue,
    shape: tuple[int, ...],
    layout: Layout,
    share: int = 1,
    is_stored: bool = False,
) -> tuple[TensorTile, tuple[int, ...]] | str:
    """Where in its tensor a tile is, or each part of one that is put together, and the boxes in
    which TMA copies a part of it of a shape; or why it copies none. Boxes are one block of the
    contiguous mode of the `layout` in shared memory; `share` CTAs take an equal part of the other
    mode each. Boxes end with their tensor, not with a tile (PTX ISA 5.5.3): what `is_stored` has
    to be there to its last element.
    """
    type_, found = part_of(tile), tile_of_tensor(tile)
    contiguous = contiguous_mode(type_)
    if found is None:
        return "its memory is not an argument of the kernel"
    if why := why_no_map(cute.memref_of(found.tensor)):
        return why
    if contiguous is None:
        return "no mode of the tile is contiguous"
    if is_stored and (why := _why_padded(tile)):
        return why
    step = _step_of_tiles(tile, found.modes[contiguous])
    if step * type_.bits % (8 * _WIDTH):
        return f"its tiles are {step} elements of a line apart, no multiple of {_WIDTH} bytes"
    box = _box(shape, layout, contiguous, share)
    if box is None or box[contiguous] * type_.bits % (8 * _WIDTH):
        return f"no box with lines of 16 bytes divides the tile {type_.shape}"
    if why := _why_no_walk(found, contiguous, type_.shape, box):
        return why
    # Those of a slice are rows along it.
    along = {found.modes[mode] for mode, extent in enumerate(box) if extent > 1}
    line = found.modes[contiguous]
    if found.sliced is not None and (line == found.sliced or along - {line, found.sliced}):
        return "boxes of a slice lie along its rows"
    # Every box starts on a line of shared memory (PTX ISA 5.5).
    steps = [mode(part) for mode, part in zip(layout, box, strict=True) if part < mode.size()]
    if any(step * type_.bits // 8 % _LINE for step in steps):
        return f"boxes start at lines of {_LINE} bytes in shared memory"
    return found, box


def boxes_into(
    tile: SSAValue,
    buffer: cute.MemRefType,
    share: int = 1,
    is_half: bool = False,
    is_stored: bool = False,
) -> tuple[TensorTile, tuple[int, ...]] | str:
    """`boxes_of` a tile, or of the half that a CTA of a pair keeps, for its buffer."""
    packed = is_held(cute.element_of(tile.type), buffer.element)
    shape = buffer.shape if is_half or packed else part_of(tile).shape
    found = boxes_of(tile, shape, buffer.layout, share, is_stored)
    if packed and not isinstance(found, str) and found[0].is_moved:
        return "elements that bytes hold without gaps are no slice"
    return found


def _why_no_walk(
    tile: TensorTile, contiguous: int, shape: tuple[object, ...], box: tuple[int, ...]
) -> str:
    """Why a copy brings no box of pixels: it walks over all of a tile, from the first one on."""
    if tile.window is None:
        return ""
    rank = cute.memref_of(tile.tensor).rank
    if tile.modes[contiguous] != rank - 1:
        return "the channels of its pixels are not contiguous"
    pixels = tile.modes.index(rank - 2)
    if box[pixels] != shape[pixels]:
        return f"a copy moves {box[pixels]} of {shape[pixels]} pixels in a row"
    return ""


def _step_of_tiles(tile: SSAValue, mode: int) -> int:
    """Elements between neighboring tiles along a mode of their tensor, which a padded tile is wider
    than; 0 where no coordinate counts tiles. Copies begin at a multiple of 16 bytes of a line.
    """
    view = _local_tile_of(tile)
    return 0 if view is None else max(view.counted[mode], 0)


def _why_padded(tile: SSAValue) -> str:
    """Which extents of a tile are padded, behind which another tile may begin."""
    view = _local_tile_of(tile)
    if view is None or view.of is None:
        return ""
    return f"its tile of {view.counted} is padded to {tuple(view.tile.get_values())}"


def _local_tile_of(tile: SSAValue) -> cute.LocalTileOp | None:
    """The view of a tensor by coordinates that a tile is, or is a part of."""
    op = tile.owner
    while isinstance(op, Operation) and op.operands:
        if isinstance(op, cute.LocalTileOp):
            return op
        op = op.operands[0].owner
    return None


def _box(
    shape: tuple[int, ...], layout: Layout, contiguous: int, share: int
) -> tuple[int, ...] | None:
    box = list(shape)
    box[contiguous] = min(shape[contiguous], flatten(layout[contiguous].shape)[0])
    for mode, extent in enumerate(shape):
        if mode == contiguous:
            continue
        part, rest = divmod(extent, share)
        while part > _MOST_EXTENT and part % 2 == 0:
            part //= 2
        if rest or part > _MOST_EXTENT:
            return None
        box[mode] = part
    if len(shape) == 1 and share > 1:
        return None
    return tuple(box) if box[contiguous] <= _MOST_EXTENT else None


def sharing(tile: SSAValue, cluster: tuple[int, int], user: Operation) -> tuple[int, int] | None:
    """(CTAs, step between their ranks) of the CTAs in a cluster that want the same tile, and that
    run what takes it alike.
    """
    if cluster == (1, 1):
        return None
    reached: set[int] = set()
    for value in (tile, *deciding(user)):
        modes = cluster_modes(value)
        if modes is None:
            return None
        reached |= modes
    free = [mode for mode in (0, 1) if mode not in reached and cluster[mode] > 1]
    if len(free) == 2:
        return cluster[0] * cluster[1], 1
    if not free:
        return None
    return (cluster[0], 1) if free[0] == 0 else (cluster[1], cluster[0])


def deciding(op: Operation) -> list[SSAValue]:
    """The values that decide whether and how often an op of a kernel runs."""
    found: list[SSAValue] = []
    for around in ops_around(op):
        is_loop = isinstance(around, scf.ForOp)
        found += [around.lb, around.ub, around.step] if is_loop else around.operands
    return found


def cluster_modes(value: SSAValue) -> set[int] | None:
    """Modes of the cluster that a value depends on; None when it depends on the CTA otherwise."""
    reached: set[int] = set()
    seen: set[SSAValue] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each, BlockArgument):
            loop = each.owner.parent_op()
            if isinstance(loop, scf.ForOp):
                pending += [loop.lb, loop.ub, loop.step]
            continue
        op = each.owner
        assert isinstance(op, Operation)
        if isinstance(op, cute.TileIndexOp):
            # Before cute-tile places it: the last two of its coordinates are along M and N.
            reached.update({2: {0}, 1: {1}}.get(len(op.results) - op.results.index(each), ()))
            continue
        mode = op.attributes.get(CLUSTER_MODE)
        if isinstance(mode, IntegerAttr):
            reached.add(mode.value.data)
            pending.append(op.operands[0])
        elif CLUSTER_UNIFORM in op.attributes:
            continue
        elif isinstance(op, cute.ClusterBoundOp):
            # Before cute-tile computes it: alike along M.
            around = cluster_modes(op.source)
            if around is None:
                return None
            reached |= around - {0}
        elif isinstance(op, cute.BlockIdxOp | cute.AllocFragmentOp):
            # What is computed in registers is followed no further.
            return None
        else:
            pending += op.operands
    return reached


def mark_cluster_mode(value: SSAValue, mode: int) -> None:
    """Record that an addition puts the CTA's place along a mode of the cluster into a value."""
    op = value.owner
    assert isinstance(op, arith.AddiOp)
    op.attributes[CLUSTER_MODE] = IntegerAttr(mode, 32)


def mark_cluster_uniform(value: SSAValue) -> None:
    """Record that a value is the same in all CTAs of a cluster."""
    assert isinstance(value.owner, Operation)
    value.owner.attributes[CLUSTER_UNIFORM] = UnitAttr()

"""`Tensor`: a layout over memory, so that the algebra can be tried on data.

The memory is anything flat that an int indexes: a list, or a NumPy array of one dimension. Without
memory a tensor gives the offsets (of a coordinate layout the coordinates) themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .composed_layout import AnyLayout, ComposedLayout
from .divide_product import make_layout_like
from .errors import LayoutError
from .int_tuple import add, is_tuple, to_text
from .layout import Layout, has_none
from .local_tile import inner_partition, local_partition, local_tile, outer_partition
from .modes import make_identity_layout, slice_and_offset


class Tensor:
    """`memory[offset + layout(coordinate)]`.

    >>> tensor = Tensor(list(range(32)), Layout((4, 8), (8, 1)))
    >>> tensor[1, 2], tensor[9], print(tensor[1, None])
    Tensor(8 + (8):(1))
    (10, 10, None)
    """

    __slots__ = ("layout", "memory", "offset")

    memory: Any
    layout: AnyLayout
    offset: Any

    def __init__(self, memory: Any, layout: Any, offset: Any = 0) -> None:
        if not isinstance(layout, Layout | ComposedLayout):
            layout = Layout(layout)
        self.memory = memory
        self.layout = layout
        self.offset = offset

    @property
    def shape(self) -> Any:
        """The shape of the layout."""
        return self.layout.shape

    @property
    def stride(self) -> Any:
        """The strides of a plain layout."""
        if isinstance(self.layout, ComposedLayout):
            raise LayoutError(f"expected a plain layout, got {self.layout}")
        return self.layout.stride

    def size(self) -> int:
        """How many elements there are."""
        return self.layout.size()

    def __len__(self) -> int:
        return len(self.layout)

    def __repr__(self) -> str:
        return f"Tensor({to_text(self.offset)} + {self.layout})"

    def __getitem__(self, coord: Any) -> Any:
        """The element at a coordinate or index; with `None` in it, the tensor of those modes."""
        if has_none(coord):
            layout, offset = slice_and_offset(coord, self.layout)
            return Tensor(self.memory, layout, add(self.offset, offset))
        at = add(self.offset, self.layout(coord))
        return at if self.memory is None else self.memory[self._checked(at, coord)]

    __call__ = __getitem__

    def __setitem__(self, coord: Any, value: Any) -> None:
        if self.memory is None or has_none(coord):
            raise LayoutError(f"expected the coordinate of an element in memory, got {coord}")
        self.memory[self._checked(add(self.offset, self.layout(coord)), coord)] = value

    def _checked(self, at: Any, coord: Any) -> int:
        if not isinstance(at, int) or not 0 <= at < len(self.memory):
            raise LayoutError(
                f"expected an offset in 0..{len(self.memory) - 1}, got {to_text(at)} at "
                f"{to_text(coord)} of {self}"
            )
        return at

    def __iter__(self) -> Iterator[Any]:
        """The elements, the first mode fastest."""
        return (self[index] for index in range(self.size()))

    def _repr_svg_(self) -> str | None:
        return self.layout._repr_svg_()  # pyright: ignore[reportPrivateUsage]

    def apply(self, function: Callable[..., AnyLayout], *arguments: Any) -> Tensor:
        """The same memory with what a function of the algebra makes of the layout.

        >>> from cutedialect.layout import zipped_divide
        >>> tensor = Tensor(list(range(32)), Layout((4, 8), (8, 1)))
        >>> list(tensor.apply(zipped_divide, (2, 2))[None, 1])
        [16, 24, 17, 25]
        """
        return Tensor(self.memory, function(self.layout, *arguments), self.offset)

    def domain_offset(self, coord: Any) -> Tensor:
        """The tensor that begins at a coordinate: `t.domain_offset(c)[d] == t[c + d]`.

        >>> tensor = Tensor(list(range(32)), Layout((4, 8), (8, 1)))
        >>> tensor.domain_offset((1, 2))[0, 3] == tensor[1, 5]
        True
        """
        layout, offset = domain_offset(coord, self.layout)
        return Tensor(self.memory, layout, add(self.offset, offset))

    def local_tile(self, tiler: Any, coord: Any, proj: Any = None) -> Tensor:
        """The tile at a coordinate (`layout.local_tile`)."""
        return self._part(local_tile(self.layout, tiler, coord, proj))

    def local_partition(self, threads: Layout, index: int, proj: Any = None) -> Tensor:
        """The elements of one thread (`layout.local_partition`)."""
        return self._part(local_partition(self.layout, threads, index, proj))

    def inner_partition(self, tiler: Any, coord: Any) -> Tensor:
        """One tile, or those of some coordinates (`layout.inner_partition`)."""
        return self._part(inner_partition(self.layout, tiler, coord))

    def outer_partition(self, tiler: Any, coord: Any) -> Tensor:
        """What stands at one place of every tile (`layout.outer_partition`)."""
        return self._part(outer_partition(self.layout, tiler, coord))

    def _part(self, part: tuple[Any, Any]) -> Tensor:
        layout, offset = part
        return Tensor(self.memory, layout, add(self.offset, offset))


def make_tensor(memory: Any, *layout: Any) -> Tensor:
    """A tensor over memory, of a layout, or of a shape and strides.

    >>> make_tensor([5, 6, 7, 8], (2, 2), (2, 1))[0, 1]
    6
    """
    if len(layout) == 1:
        return Tensor(memory, layout[0])
    if len(layout) != 2:
        raise LayoutError(f"expected a layout, or a shape and strides, got {layout}")
    return Tensor(memory, Layout(*layout))


def make_identity_tensor(shape: Any) -> Tensor:
    """The tensor of the coordinates of a shape: what predicates are computed from.

    >>> make_identity_tensor((4, 8))[3, 5]
    (3, 5)
    """
    return Tensor(None, make_identity_layout(shape))


def make_tensor_like(tensor: Tensor) -> Tensor:
    """A tensor of zeros of the same shape and kind of memory, compact in the order of the strides.

    >>> make_tensor_like(Tensor(list(range(64)), Layout((4, 8), (16, 2)))).layout
    Layout((4,8):(8,1))
    """
    layout = tensor.layout
    like = make_layout_like(layout.inner if isinstance(layout, ComposedLayout) else layout)
    return Tensor(_zeros(tensor.memory, like.cosize()), like)


def make_fragment_like(tensor: Tensor) -> Tensor:
    """`make_tensor_like` whose first mode, that of one instruction, runs fastest.

    >>> make_fragment_like(Tensor(list(range(64)), Layout((4, 2, 8), (2, 1, 8)))).layout
    Layout((4,2,8):(1,4,8))
    """
    layout = tensor.layout
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    if len(inner) == 1:
        return make_tensor_like(tensor)
    first = Layout(inner[0].shape)
    rest = make_layout_like(inner[1:])
    size = first.size()
    scaled = Layout(rest.shape, _scaled(rest.stride, size))
    like = Layout((first.shape, *scaled.shape), (first.stride, *scaled.stride))
    return Tensor(_zeros(tensor.memory, like.cosize()), like)


def _scaled(stride: Any, factor: int) -> Any:
    if is_tuple(stride):
        return tuple(_scaled(part, factor) for part in stride)
    return stride * factor


def _zeros(memory: Any, count: int) -> Any:
    """Fresh memory of the kind of another."""
    if hasattr(memory, "dtype"):
        fresh = memory[:1].repeat(count)
        fresh[:] = 0
        return fresh
    return [0] * count


def domain_offset(coord: Any, layout: AnyLayout) -> tuple[AnyLayout, Any]:
    """(layout, offset) of the layout that begins at a coordinate; a composed one keeps it inside.

    >>> layout, offset = domain_offset((1, 2), Layout((4, 8), (8, 1)))
    >>> layout(0, 3) + offset == Layout((4, 8), (8, 1))(1, 5)
    True
    """
    if isinstance(layout, ComposedLayout):
        offset = add(layout.offset, layout.inner(coord))
        return ComposedLayout(layout.outer, offset, layout.inner), 0
    return layout, layout(coord)

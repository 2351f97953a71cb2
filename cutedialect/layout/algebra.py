"""Coalescing, composition, complement and inverses, each by its mathematical definition.

Where no layout is the asked function, `LayoutError` shows the operands; nothing is approximated.
Spellings of equal functions are those of NVIDIA's open CuTe IR. Source: C. Cecka, "CuTe Layout
Representation and Algebra", 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from .composed_layout import AnyLayout, ComposedLayout
from .errors import LayoutError
from .int_tuple import (
    Dyn,
    ScaledBasis,
    ceil_div,
    extent,
    flatten,
    is_static,
    is_tuple,
    leaves,
    nested,
    to_text,
    unflatten,
)
from .layout import Layout
from .swizzle import Swizzle

Mode = tuple[Any, Any]
MAX_ENUMERATED = 1 << 21
"""Of a layout whose law no rule tells so many elements are tried, in about a second."""


def compute(op: str, *arguments: Any) -> Any:
    """A run-time operation (`expression.compute`), which is imported where it is used."""
    from .expression import compute

    return compute(op, *arguments)


@lru_cache(maxsize=4096)
def coalesce(layout: AnyLayout, profile: Any = None) -> Any:
    """The same function of an index, inside the domain, with the fewest modes.

    A tuple `profile` coalesces mode by mode; modes past its end stay. A run-time mode never merges.

    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2)))))
    12:1
    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2))), (1, 1)))
    (2,6):(1,2)
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, coalesce(layout.inner, profile))
    return _coalesce_by(layout, profile, layout, ())


def _coalesce_by(layout: Layout, profile: Any, whole: Layout, path: tuple[int, ...]) -> Layout:
    if not is_tuple(profile):
        if layout.shape == ():
            return layout
        return _from_modes(_merged(layout, keep_last=False) or (_last_mode(layout),))
    if len(profile) > len(layout):
        where = f" at mode path {list(path)}" if path else ""
        raise LayoutError(
            f"expected a profile of rank at most {len(layout)} for {layout}{where}, got "
            f"{to_text(profile)} of rank {len(profile)} (coalescing {whole})"
        )
    modes = [
        _coalesce_by(mode, profile[i], whole, (*path, i)) if i < len(profile) else mode
        for i, mode in enumerate(layout)
    ]
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def _last_mode(layout: Layout) -> Mode:
    return flatten(layout.shape)[-1], flatten(layout.stride)[-1]


@lru_cache(maxsize=4096)
def _merged(layout: Layout, keep_last: bool) -> tuple[Mode, ...]:
    """Flat modes without size 1, neighbors joined where they run on.

    With `keep_last`, a last mode of size 1 that does not run on stays: it is what integers past
    the domain extend, so the function stays the same there too.
    """
    modes: list[Mode] = []
    pairs = list(leaves(layout.shape, layout.stride))
    for position, (size, stride) in enumerate(pairs):
        if size == 1 and not (keep_last and position == len(pairs) - 1):
            continue
        if modes:
            last, step = modes[-1]
            if (
                isinstance(last, int)
                and isinstance(size, int)
                and is_static((step, stride))
                and stride == last * step
            ):
                modes[-1] = (last * size, step)
                continue
        modes.append((size, stride))
    return tuple(modes)


def _from_modes(modes: Sequence[Mode]) -> Layout:
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))


def filter_zeros(layout: Layout) -> Layout:
    """The layout with extent 1 wherever the stride is 0.

    >>> print(filter_zeros(Layout((4, 8), (0, 1))))
    (1,8):(0,1)
    """
    pairs = leaves(layout.shape, layout.stride)
    shapes = (1 if d == 0 else s for s, d in pairs)
    return Layout(unflatten(shapes, layout.shape), layout.stride)


def filter(layout: Layout) -> Layout:
    """Coalesced, without stride-0 and size-1 modes: the same set of offsets.

    >>> print(filter(Layout((4, 2, 8), (0, 1, 2))))
    16:1
    """
    modes = _merged(filter_zeros(layout), keep_last=False)
    return _from_modes(modes) if modes else Layout(1, 0)


def nullspace(layout: Layout) -> Layout:
    """The coordinates that a layout takes to 0, as indices: `layout(nullspace(layout)(i)) == 0`.

    >>> layout = Layout((4, 8, 2), (0, 1, 0))
    >>> kernel = nullspace(layout)
    >>> print(kernel, {layout(kernel(i)) for i in range(kernel.size())})
    (4,2):(1,32) {0}
    """
    index: Any = 1
    modes: list[Mode] = []
    for size, stride in leaves(layout.shape, layout.stride):
        if stride == 0 and size != 1:
            modes.append((size, index))
        index = index * size
    return _from_modes(modes) if modes else Layout(1, 0)


class _NoLayout(Exception):  # noqa: N818 - control flow, never seen outside
    """No layout of these extents is the function."""


class _RunTime(Exception):  # noqa: N818 - control flow, never seen outside
    """Where the modes are cut is known at run time only."""


def composition(a: Any, b: Any) -> Any:
    """The layout c -> a(b(c)), of the shape of `b`.

    `b` is a layout or int (one function over all of `a`), or a tuple that composes mode by mode
    (`None` keeps a mode, modes of `a` past its end drop). A swizzle outside gives a
    `ComposedLayout`. LayoutError when no layout is that function, also when only the sum of
    several modes carries between the modes of `a`.

    >>> a, b = Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))
    >>> print(composition(a, b))
    ((2,2),3):((24,2),8)
    >>> composition(a, b)(7) == a(b(7))
    True
    """
    return _composition(a, nested(b) if isinstance(b, list) else b)


@lru_cache(maxsize=4096)
def _composition(a: Any, b: Any) -> Any:
    if b is None:
        return a
    if isinstance(b, int | Dyn):
        b = Layout(b, 1)
    if isinstance(a, ComposedLayout):
        return ComposedLayout(a.outer, a.offset, _composition(a.inner, b))
    if isinstance(b, ComposedLayout):
        if isinstance(b.outer, Layout) and isinstance(a, Layout):
            return ComposedLayout(_composition(a, b.outer), b.offset, b.inner)
        if a == b.outer and b.offset == 0:
            return b.inner  # a swizzle is its own inverse
        raise LayoutError(f"expected a layout to compose {a} with, got {b}")
    if isinstance(a, Swizzle) and isinstance(b, Layout):
        return ComposedLayout(a, 0, b)
    if not isinstance(a, Layout):
        raise LayoutError(f"expected a layout or a swizzle, got {a!r}")
    if is_tuple(b):
        if len(b) > len(a):
            raise LayoutError(f"expected rank(tiler) <= rank(layout), got {_tiler_text(b)} for {a}")
        modes = [_composition(mode, part) for mode, part in zip(a, b, strict=False)]
        return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))
    if not isinstance(b, Layout):
        raise LayoutError(f"expected a layout, an int or a tuple to compose {a} with, got {b!r}")
    return _compose(a, b)


def _tiler_text(tiler: Any) -> str:
    from .text import format_tile

    return format_tile(tiler) if is_tuple(tiler) else str(tiler)


def _compose(a: Layout, b: Layout) -> Layout:
    carries: dict[tuple[int, ...], tuple[tuple[Mode, ...], list[Any]]] = {}
    shapes: list[Any] = []
    strides: list[Any] = []
    exact = True
    for size, stride in leaves(b.shape, b.stride):
        step, path = stride, ()
        if isinstance(stride, ScaledBasis):
            step, path = stride.value, stride.path
        if path not in carries:
            levels = _merged(_mode_at(a, path, b), keep_last=True) or ((1, 0),)
            carries[path] = levels, [0] * len(levels)
        levels, used = carries[path]
        try:
            try:
                pieces = _compose_mode(levels, size, step, used)
            except _RunTime:
                pieces = _compose_at_run_time(levels, size, step)
        except _NoLayout:
            pieces = _factor(a, size, step) if not path and _is_plain(a, b) else None
            exact = False
            if pieces is None:
                raise LayoutError(
                    f"expected extents and strides that divide: no layout is {a} o {b}, because "
                    f"mode {to_text(size)}:{to_text(stride)} crosses the modes of {a} unevenly"
                ) from None
        except LayoutError as error:
            raise LayoutError(f"{error} in the composition {a} o {b}") from None
        pieces = pieces or [(size, 0)]
        layout = _from_modes(pieces)
        shapes.append(layout.shape)
        strides.append(layout.stride)
    result = Layout(
        unflatten(iter(shapes), b.shape),
        unflatten(iter(strides), b.shape),
    )
    carry = any(
        isinstance(levels[k][0], int) and used[k] >= levels[k][0] > 0
        for levels, used in carries.values()
        for k in range(len(levels) - 1)
    )
    if not exact:
        carry = [a(i) for i in _enumerated(b)] != result.offsets()
    if carry:
        raise LayoutError(
            f"expected modes that do not carry into each other: {a} o {b} is no layout "
            f"({result} is it mode by mode only)"
        )
    return result


def _enumerated(layout: Layout) -> list[Any]:
    """The offsets of a layout that is small enough to try all of them."""
    if layout.size() > MAX_ENUMERATED:
        raise LayoutError(
            f"expected modes that divide, or at most {MAX_ENUMERATED} elements to try, got {layout}"
        )
    return layout.offsets()


def _mode_at(a: Layout, path: tuple[int, ...], b: Layout) -> Layout:
    for mode in path:
        if mode >= len(a):
            raise LayoutError(f"expected coordinates of {a}, got mode {mode} of them in {b}")
        a = a[mode]
    return a


def _is_plain(*layouts: Layout) -> bool:
    return all(
        isinstance(leaf, int)
        for layout in layouts
        for leaf in flatten(layout.shape) + flatten(layout.stride)
    )


def _divides(divisor: Any, value: Any) -> bool:
    return isinstance(divisor, int) and divisor != 0 and value % divisor == 0


def _compose_mode(levels: tuple[Mode, ...], size: Any, step: Any, used: list[Any]) -> list[Mode]:
    """Modes of i -> A(i * step), i < size, where A has coalesced modes `levels`.

    Adds to `used` the largest digit that the mode makes at each level: digits of several modes
    may only be added where their sum stays below the extent.
    """
    if len(levels) == 1:
        return [(size, step * levels[0][1])]
    if isinstance(step, int) and step < 0:
        raise LayoutError(f"expected strides >= 0 over several modes, got {size}:{step}")
    out: list[Mode] = []
    _walk(levels, 0, size, step, 0, used, out)
    return out


def _walk(
    levels: tuple[Mode, ...],
    k: int,
    size: Any,
    step: Any,
    slope: Any,
    used: list[Any],
    out: list[Mode],
) -> None:
    """Append the modes of i -> i * slope + A_k(i * step), A_k being the levels from k on."""
    while k < len(levels) - 1 and step != 0:
        radix, stride = levels[k]
        if not isinstance(radix, int):
            raise _RunTime
        if radix == 0:
            raise LayoutError(f"expected an extent above 0, got mode {radix}:{stride}")
        digit = step % radix
        if digit == 0:
            k, step = k + 1, step // radix
            continue
        if not isinstance(digit, int):
            raise _RunTime
        if isinstance(size, int) and (size - 1) * digit < radix:
            used[k] += max(0, size - 1) * digit
            slope = _plus(slope, digit * stride)
            k, step = k + 1, step // radix
            continue
        run = radix // digit
        if radix % digit or not _divides(run, size):
            raise _RunTime if isinstance(size, Dyn) else _NoLayout
        _walk(levels, k, run, step, slope, used, out)
        size, step, slope = size // run, step * run, slope * run
    stride = _plus(slope, step * levels[k][1]) if step != 0 else slope
    joins = out and isinstance(size, int) and is_static((out[-1], stride))
    if joins and out[-1][0] * out[-1][1] == stride:
        out[-1] = (out[-1][0] * size, out[-1][1])
    else:
        out.append((size, stride))


def _compose_at_run_time(levels: tuple[Mode, ...], size: Any, step: Any) -> list[Mode]:
    """Modes of i -> A(i * step), i < size, cut at run time where the levels of A end: extents are
    minima and quotients, and what does not divide is undefined, as in CuTe.
    """
    out: list[Mode] = []
    for radix, stride in levels[:-1]:
        if isinstance(radix, int) and isinstance(step, int) and step % radix and step >= radix:
            raise _NoLayout
        magnitude = abs(step)
        part = ceil_div(radix, magnitude)
        following = ceil_div(magnitude, radix) * compute("sign", step)
        if not (_is_one(part) or _is_one(size)):
            part = compute("min", part, size)
            if isinstance(part, int) and isinstance(size, int) and size % part:
                raise _NoLayout
            out.append((part, step * stride))
            size = size // part
        step = following
    last = step * levels[-1][1]
    if not out:
        return [(size, last)]
    if not _is_one(size):
        out.append((size, last))
    joined = coalesce(_from_modes(out))
    return list(leaves(joined.shape, joined.stride))


def _is_one(value: Any) -> bool:
    return isinstance(value, int) and value == 1


def _plus(one: Any, other: Any) -> Any:
    if one == 0 or other == 0:
        return other if one == 0 else one
    if isinstance(one, ScaledBasis) or isinstance(other, ScaledBasis):
        same = isinstance(one, ScaledBasis) and isinstance(other, ScaledBasis)
        if not same or one.path != other.path:
            raise _NoLayout
        return ScaledBasis(one.value + other.value, one.path)
    return one + other


def _factor(a: Callable[[int], int], size: int, step: int) -> list[Mode] | None:
    """Modes of i -> a(i * step), i < size, found by evaluation, or None where there are none."""
    pieces: list[Mode] = []
    start, rest = 1, size
    while rest > 1:
        slope = a(start * step)
        run = 2
        while run < rest and a(run * start * step) == run * slope:
            run += 1
        if run < rest and rest % run:
            return None
        pieces.append((run, slope))
        start, rest = start * run, rest // run
    if pieces and _from_modes(pieces).offsets() != [a(i * step) for i in range(size)]:
        return None
    return pieces


@lru_cache(maxsize=4096)
def complement(layout: Layout, cotarget: Any = None) -> Layout:
    """The offsets that `layout` leaves out, up to the size of `cotarget`, in increasing order.

    `cotarget` is an int, a shape (a run-time one keeps its modes), or a layout (its cosize);
    without it the last mode stays and repeats the whole. LayoutError unless the modes nest when
    sorted by stride (stride-0 and size-1 modes aside), which also makes them injective. The
    complement of a coordinate layout is one for each coordinate, up to those of a `cotarget` shape.

    >>> print(complement(Layout(4, 2), 16), complement(Layout((2, 4), (1, 6)), 24))
    (2,2):(1,8) 3:2
    """
    if isinstance(cotarget, Layout):
        total: Any = cotarget.cosize() if cotarget.is_static() else Dyn()
    else:
        total = 1 if cotarget is None else cotarget
        if is_static(total):
            total = extent(total)
    modes = [(s, d) for s, d in leaves(layout.shape, layout.stride) if s != 1 and d != 0]
    if any(isinstance(d, ScaledBasis) for _, d in modes):
        if not all(isinstance(d, ScaledBasis) for _, d in modes) or isinstance(cotarget, Layout):
            raise LayoutError(
                f"expected int strides for a complement up to a size, got {layout} and "
                f"{cotarget if isinstance(cotarget, Layout) else to_text(cotarget)}"
            )
        if cotarget is not None:
            return _coordinate_rest(layout, modes, cotarget, ())
        return _coordinate_complement(layout, modes, ())
    return _from_modes(_gaps(layout, modes, total, keep_last=cotarget is None))


def _coordinate_complement(layout: Layout, modes: list[Mode], path: tuple[int, ...]) -> Layout:
    """The complement in the coordinate at `path`, of the modes that move in it or inside it."""
    here = [(s, d) for s, d in modes if d.path[: len(path)] == path]
    inside = [d.path[len(path)] for _, d in here if len(d.path) > len(path)]
    if inside and len(inside) != len(here):
        raise LayoutError(f"expected each coordinate of {layout} to be an int or a tuple, not both")
    if inside:
        parts = [
            _coordinate_complement(layout, here, (*path, mode)) for mode in range(max(inside) + 1)
        ]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    steps = [(s, d.value) for s, d in here]
    gaps = _gaps(layout, steps, 1, keep_last=True)
    return _from_modes([(s, ScaledBasis(d, path)) for s, d in gaps])


def _coordinate_rest(
    layout: Layout, modes: list[Mode], shape: Any, path: tuple[int, ...]
) -> Layout:
    """The coordinates of a shape that the modes leave out, those below `path`."""
    here = [(s, d) for s, d in modes if d.path[: len(path)] == path]
    if any(len(d.path) > len(path) for _, d in here) or (not here and is_tuple(shape)):
        if not is_tuple(shape) or any(d.path[len(path)] >= len(shape) for _, d in here):
            raise LayoutError(f"expected coordinates of {to_text(shape)}, got {layout}")
        parts = [
            _coordinate_rest(layout, here, inner, (*path, mode)) for mode, inner in enumerate(shape)
        ]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    steps = [(s, d.value) for s, d in here]
    gaps = _gaps(layout, steps, extent(shape), keep_last=False)
    return _from_modes([(s, ScaledBasis(d, path)) for s, d in gaps])


def _gaps(layout: Layout, modes: list[Mode], total: Any, keep_last: bool) -> tuple[Mode, ...]:
    if len(modes) > 1 and not all(isinstance(d, int) for _, d in modes):
        raise LayoutError(
            f"expected static strides in a layout of more than one mode, got {layout}"
        )
    current: Any = 1
    out: list[Mode] = []
    for size, stride in sorted(modes, key=lambda mode: mode[1]) if len(modes) > 1 else modes:
        gap = stride // current
        if isinstance(stride, int) and (stride < 0 or (isinstance(gap, int) and gap == 0)):
            what = "strides >= 0" if stride < 0 else "modes that nest (an injective layout)"
            raise LayoutError(
                f"expected {what} for a complement, got {layout}: mode {size}:{stride} begins "
                f"inside the {current} offsets before it"
            )
        out.append((gap, current))
        current = stride * size
    rest, room = ceil_div(flatten(total), current), current
    for size in rest:
        out.append((size, room))
        room = room * size
    result = Layout(tuple(s for s, _ in out), tuple(d for _, d in out))
    return _merged(result, keep_last) or (out[-1],)


def _by_basis(layout: Layout) -> dict[tuple[int, ...], list[tuple[Any, Any, int]]]:
    """(extent, stride, step of the index) of the coalesced modes, by coordinate, sorted."""
    if not is_static(layout.shape):
        raise LayoutError(f"expected a static shape to invert, got {layout}")
    groups: dict[tuple[int, ...], list[tuple[Any, Any, int]]] = {}
    index = 1
    for size, stride in _merged(layout, keep_last=False):
        if isinstance(stride, ScaledBasis):
            if not isinstance(stride.value, int) or stride.value != 0:
                groups.setdefault(stride.path, []).append((size, stride.value, index))
        elif stride != 0:
            groups.setdefault((), []).append((size, stride, index))
        index *= size
    if () in groups and len(groups) > 1:
        raise LayoutError(f"expected int strides or coordinates, not both, got {layout}")
    return groups


def _inverse(layout: Layout, one: Callable[[list[tuple[Any, Any, int]]], list[Mode]]) -> Layout:
    groups = _by_basis(layout)
    if not groups:
        return Layout(1, 0)
    if () in groups:
        return coalesce(_from_modes(one(groups[()]) or [(1, 0)]))

    def build(prefix: tuple[int, ...]) -> Layout:
        if prefix in groups:
            return _from_modes(one(groups[prefix]) or [(1, 0)])
        inner = [path[len(prefix)] for path in groups if path[: len(prefix)] == prefix]
        if not inner:
            return Layout(1, 0)
        modes = [build((*prefix, mode)) for mode in range(max(inner) + 1)]
        return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))

    return build(())


@lru_cache(maxsize=1024)
def right_inverse(layout: Layout) -> Layout:
    """R with layout(R(i)) == i for every i < size(R), as long as a run of offsets from 0 goes.

    Modes whose stride does not continue the run (stride 0 among them) are passed over, as are
    run-time strides.

    >>> print(right_inverse(Layout((4, 3), (3, 1))), right_inverse(Layout((32, 128), (0, 1))))
    (3,4):(4,1) 128:32
    """

    def one(modes: list[tuple[Any, Any, int]]) -> list[Mode]:
        run = 1
        out: list[Mode] = []
        for size, stride, index in sorted(
            (mode for mode in modes if isinstance(mode[1], int)), key=lambda mode: mode[1]
        ):
            if stride == run:
                out.append((size, index))
                run *= size
        return out

    return _inverse(layout, one)


@lru_cache(maxsize=1024)
def left_inverse(layout: Layout) -> Layout:
    """L with L(layout(i)) == i for every i < size(layout), if `layout` is injective.

    Otherwise (stride-0 modes among others) layout(L(layout(i))) == layout(i). LayoutError unless
    every stride, sorted, is a multiple of the one before it, and where no layout has that law.

    >>> print(left_inverse(Layout((4, 8), (1, 5))), left_inverse(Layout(4, 2)))
    (5,8):(1,4) (2,4):(0,1)
    """
    if not is_static(layout.stride):
        raise LayoutError(f"expected static strides for a left inverse, got {layout}")

    def one(modes: list[tuple[Any, Any, int]]) -> list[Mode]:
        modes = sorted(modes, key=lambda mode: mode[1])
        out: list[Mode] = [(modes[0][1], 0)] if modes[0][1] != 1 else []
        for position, (size, stride, index) in enumerate(modes):
            if position + 1 < len(modes):
                following = modes[position + 1][1]
                if following % stride:
                    raise LayoutError(
                        f"expected each stride to be a multiple of the one before it to invert "
                        f"{layout}, got {size}:{stride} before stride {following}"
                    )
                size = following // stride
            if stride < 0:
                raise LayoutError(f"expected strides >= 0 for a left inverse, got {layout}")
            out.append((size, index))
        return out

    result = _inverse(layout, one)
    if _is_plain(layout) and _overlaps(layout):
        # Modes that overlap are no problem as long as the digits stay inside their extents.
        offsets = _enumerated(layout)
        if any(layout(result(offset)) != offset for offset in offsets):
            raise LayoutError(f"expected an injective layout to invert, got {layout}")
    return result


def _overlaps(layout: Layout) -> bool:
    modes = sorted((d, s) for s, d in _merged(layout, keep_last=False) if d != 0)
    return any(d * s > after for (d, s), (after, _) in pairwise(modes))

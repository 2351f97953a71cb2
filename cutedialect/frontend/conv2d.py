"""`cute.conv2d`: convolutions of images (N, H, W, C), and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from cutedialect.atoms import usual_device
from cutedialect.choosing.choose import choose
from cutedialect.choosing.gathered_space import GATHERED, GatheredProblem, beside_tile
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.schedule import Schedule

from .captured import exact
from .conv2d_operands import CONV2D, CONV2D_DGRAD, CONV2D_WGRAD, is_depthwise
from .doors import Door
from .dtypes import f32, i32
from .fitting import Memory, fitted
from .gemm_operands import check_types, has_wgmma, unit_of, viewable
from .kernel import TensorSpec
from .launch import as_schedule, device_for
from .plain_calls import PlainCall, PlainReady
from .rules import tile_of

# Of tiles of pixels that TMA brings: bits of an element, of what rows are multiples, and elements
# of the depth of a tap that tiles have; what a run-time extent counts as.
_PIXEL_BITS, _VECTOR_BITS, _TAP_DEPTH = 16, 128, 64
_LARGE = 4096


@dataclass
class ReadyConv(PlainReady):
    """Such a call after its checks: `images` are the arrays that are images, `filters` those that
    are filters by taps, and `extents` the heights and widths that the kernel takes.
    """

    images: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    extents: tuple[int | None, ...] = ()
    takes_bias: bool = False
    is_depthwise: bool = False

    def arguments(self, arrays: Sequence[Any], numbers: tuple[float, ...] = ()) -> list[Any]:
        found: list[Any] = []
        for name, value in zip(self.names, arrays, strict=True):
            if name in self.images:
                found.append(_flat(value, 3))
            elif name in self.filters:
                found.append(_by_taps(value, self.is_depthwise))
            else:
                found.append(value)
        if self.takes_bias and "bias" not in self.names:
            found.insert(2, None)
        return [*found, *(i32.numpy.type(each or 0) for each in self.extents)]


def _flat(value: Any, count: int) -> Any:
    """An array with its first modes as one."""
    if isinstance(value, TensorSpec):
        rows = _product(value.shape[:count])
        return TensorSpec((rows, *value.shape[count:]), value.dtype, None, value.align)
    value = viewable(value)
    return value.reshape((prod(value.shape[:count]), *value.shape[count:]))


def _by_taps(value: Any, is_depthwise: bool) -> Any:
    """A filter (F, R, S, C) as (R S, F, C), or one for each channel (C, R, S, 1) as (R S, C)."""
    f, r, s, depth = value.shape
    last = () if is_depthwise else (depth,)
    if isinstance(value, TensorSpec):
        strides = (1, r * s) if is_depthwise else (depth, depth and r * s * depth, 1)
        return TensorSpec((r * s, f, *last), value.dtype, strides, value.align)
    return viewable(value).reshape((f, r * s, *last)).swapaxes(0, 1)


class ConvCall(PlainCall):
    """The checked arguments of a call."""

    ready_type: ClassVar[type[PlainReady]] = ReadyConv
    # Of the program's pixels, and of the image in which taps find others: the modes of the height.
    modes: ClassVar[tuple[str, str]] = ("PQ", "HW")
    # Whether the operands of the products are contiguous along another mode than the depth.
    across: ClassVar[tuple[bool, bool]] = (False, False)
    # What is multiplied, and the modes of rows, columns and depth of the products: of channels the
    # depth goes over all taps, of pixels each tap has a product of its own.
    factors: ClassVar[tuple[str, str]] = ("x", "w")
    multiplied: ClassVar[tuple[str, str, str]] = ("NPQ", "F", "C")
    images: ClassVar[tuple[str, ...]] = ("x", "out")
    filters: ClassVar[tuple[str, ...]] = ("w",)
    pairs: dict[str, tuple[int, int]]
    # Products whose depth shares the taps, those of a stride's phases.
    phase_count = 1

    def ready(self) -> ReadyConv:
        extents = tuple(self.extents[mode] for modes in self.modes for mode in modes)
        return ReadyConv(
            None, self.out_shape, self.out_dtype, names=self.call.placed, images=self.images,
            filters=self.filters, extents=extents, takes_bias=self.takes_bias,
            is_depthwise=self.is_by_channels,
        )  # fmt: skip

    @property
    def takes_bias(self) -> bool:
        """Whether the program has an argument for a bias."""
        return True

    @property
    def is_by_channels(self) -> bool:
        """Whether each channel has a filter of its own."""
        return is_depthwise(self)

    @property
    def takes_tile(self) -> bool:
        """Whether the program multiplies tiles; threads do where each channel has a filter."""
        return not self.is_by_channels

    def taps(self) -> Any:
        """Which pixels taps find."""
        from .taps import Taps

        stride, padding, spread = (self.pairs[name] for name in ("stride", "padding", "dilation"))
        counts = self.extents["R"] or 1, self.extents["S"] or 1
        return Taps.of(counts, stride, padding, spread)

    def prepare(self) -> PlainReady:
        """Compile (or find) the kernel; what a schedule leaves open is chosen."""
        given, arch = self.given, self.target()

        def prepared(asked: Schedule | None, chosen: Schedule | None) -> PlainReady:
            if chosen is None or self.problem(asked, arch) is not None:
                return self.prepared_with(chosen or asked, arch)
            return self.prepared_with(beside_tile(chosen), arch, chosen.tile)

        def choice(asked: Schedule | None) -> Any:
            if 0 in self.out_shape or not self.takes_tile or tile_of(asked) is not None:
                return None
            problem = self.problem(asked, arch)
            if problem is not None:
                return partial(choose, GEMM_SPACE, (problem,), asked)
            return partial(choose, GATHERED, self.gathered(arch), asked)

        memory = Memory(lambda: f"{self.call.name} {self.operands()[0].dtype.name}", arch)
        return fitted(prepared, choice, as_schedule(given.schedule), given.backend, memory)

    def problem(self, asked: Schedule | None, arch: str) -> Problem | None:
        """What a schedule is chosen for, where TMA brings the pixels; None where it brings none."""
        (a, b), taps = self.operands(), self.taps()
        if (asked is not None and asked.is_uniform) or taps.window is None or self.is_by_channels:
            return None
        if a.dtype.bits != _PIXEL_BITS or not has_wgmma(a.dtype, b.dtype, f32, arch):
            return None
        m, n, k = (_LARGE if extent is None else extent for extent in self.products())
        known = [self.extents[mode] or 0 for mode in "CF"]
        if any(extent * a.dtype.bits % _VECTOR_BITS for extent in known[: 1 + any(self.across)]):
            return None
        row = n * self.out_dtype.bits // 8
        return Problem(
            m, n, k, self.tap_count if self.sums_pixels else 1, a.dtype.bits,
            self.out_dtype.bits, across=self.across, out_align=min(_VECTOR_BITS // 8, row & -row),
            may_swap=False, tap=self.depth_of_tap or -1,
            is_plain=getattr(self, "bias", None) is None, device=device_for(arch),
        )  # fmt: skip

    def _is_ragged(self) -> bool:
        """Whether channels of pixels, or of filters, are known not to be whole vectors."""
        bits = self.operands()[0].dtype.bits
        known = [self.extents[mode] or 0 for mode in "CF"]
        return any(extent * bits % _VECTOR_BITS for extent in known)

    @property
    def sums_pixels(self) -> bool:
        """Whether the depth of the products is pixels."""
        return len(self.multiplied[2]) > 1

    @property
    def depth_of_tap(self) -> int | None:
        """The depth of the products that a tap has; None where depth is pixels."""
        return None if self.sums_pixels else self.extents[self.multiplied[2]]

    def products(self) -> tuple[int | None, int | None, int | None]:
        """Rows, columns and depth of the products."""
        rows, columns, depth = (
            _product(self.extents[mode] for mode in modes) for modes in self.multiplied
        )
        if self.sums_pixels or depth is None:
            return rows, columns, depth
        return rows, columns, -(-self.tap_count // self.phase_count) * _filled(depth)

    @property
    def tap_count(self) -> int:
        """Taps of the filter."""
        return (self.extents["R"] or 1) * (self.extents["S"] or 1)

    def operands(self) -> tuple[Any, Any]:
        """What is multiplied."""
        one, other = (getattr(self, name) for name in self.factors)
        return one, other

    def gathered(self, arch: str) -> GatheredProblem:
        """What a schedule is chosen for, where threads bring the pixels."""
        (a, b), (rows, columns, depth) = self.operands(), self.products()
        check_types(a, b, arch)
        return GatheredProblem(
            "depth" if self.sums_pixels else "pixels", rows, columns, depth,
            self.tap_count if self.sums_pixels else 1, a.dtype.bits,
            unit_of((a.dtype, b.dtype, f32), arch), is_ragged=self._is_ragged(),
            device=usual_device(arch),
        )  # fmt: skip

    def constants(self, arch: str, tile: tuple[int, ...] | None) -> dict[str, Any]:
        """Compile-time parameters."""
        if not self.takes_tile:
            return {"taps": self.taps()}
        check_types(*self.operands(), arch)
        return {"taps": self.taps(), "tile": tile}


class Convolution(ConvCall):
    """The checked arguments of `cute.conv2d`."""

    def __init__(self, given: SimpleNamespace) -> None:
        super().__init__(CONV2D, None, given)
        from .library.conv2d import depthwise_for, program_for

        activation = given.activation
        activation = exact(activation) if callable(activation) else activation
        program = depthwise_for if self.is_by_channels else program_for
        self.program = program(activation)


class ImageGradients(ConvCall):
    """The checked arguments of `cute.conv2d_dgrad`."""

    modes = ("HW", "PQ")
    across = (False, True)
    factors = ("dy", "w")
    multiplied = ("NHW", "C", "F")
    images = ("dy", "out")

    def __init__(self, given: SimpleNamespace) -> None:
        super().__init__(CONV2D_DGRAD, None, given)
        from .library.conv2d import depthwise_for, phased_gradients, program_for

        plain = depthwise_for if self.is_by_channels else program_for
        self.program = phased_gradients if self.has_phases else plain(None)

    @property
    def has_phases(self) -> bool:
        """Whether pixels of a stride's phases are computed apart: each has taps of its own."""
        is_plain = self.pairs["dilation"] == (1, 1) and not self.is_by_channels
        return is_plain and self.pairs["stride"] != (1, 1)

    @property
    def takes_bias(self) -> bool:
        return not self.has_phases

    @property
    def phases(self) -> Any:
        """The phases of a stride."""
        from .taps import Phases

        counts, image, result = (
            tuple(self.extents[mode] for mode in modes) for modes in ("RS", "HW", "PQ")
        )
        stride, padding = self.pairs["stride"], self.pairs["padding"]
        return Phases(counts, stride, padding, image, result)  # pyright: ignore[reportArgumentType]

    def taps(self) -> Any:
        if self.has_phases:
            return self.phases.taps
        of = super().taps()
        starts, spreads = ((-a, -b) for a, b in (of.starts, of.spreads))
        # What a stride leaves over of the other image says nothing of this one's extents.
        ends = of.starts if of.steps == (1, 1) else None
        return replace(
            of, steps=(1, 1), spreads=spreads, starts=starts, divisors=of.steps, ends=ends
        )

    @property
    def phase_count(self) -> int:  # type: ignore[override]
        return prod(self.pairs["stride"]) if self.has_phases else 1

    def constants(self, arch: str, tile: tuple[int, ...] | None) -> dict[str, Any]:
        known = super().constants(arch, tile)
        if not self.takes_tile:
            return known
        if not self.has_phases:
            return known | {"by_depth": False}
        return {"phases": self.phases, "tile": known["tile"]}


class FilterGradients(ConvCall):
    """The checked arguments of `cute.conv2d_wgrad`."""

    across = (True, True)
    factors = ("dy", "x")
    multiplied = ("F", "C", "NPQ")
    images = ("x", "dy")
    filters = ("out",)

    def __init__(self, given: SimpleNamespace) -> None:
        super().__init__(CONV2D_WGRAD, None, given)
        from .library.conv2d import filter_gradients, gradients_by_channels

        self.program = gradients_by_channels if self.is_by_channels else filter_gradients

    @property
    def takes_bias(self) -> bool:
        return False

    @property
    def takes_tile(self) -> bool:
        return True

    def gathered(self, arch: str) -> GatheredProblem:
        problem = super().gathered(arch)
        return replace(problem, kind="diagonal", columns=1) if self.is_by_channels else problem

    def constants(self, arch: str, tile: tuple[int, ...] | None) -> dict[str, Any]:
        if self.is_by_channels and tile is not None and tile[0] != tile[1]:
            raise ValueError(
                f"schedule: expected as many rows as columns of a tile, since groups is "
                f"{self.given.groups}, got tile = {tile}; take ({tile[0]}, {tile[0]}, {tile[2]})"
            )
        return super().constants(arch, tile)


def _filled(depth: int) -> int:
    """The depth of a tap as tiles have it."""
    return -(-depth // _TAP_DEPTH) * _TAP_DEPTH


def _product(extents: Any) -> int | None:
    """The product of extents, None where one is not known."""
    known = list(extents)
    return None if None in known else prod(known)


door: Door[Convolution, PlainReady] = Door(CONV2D, Convolution)
dgrad_door: Door[ImageGradients, PlainReady] = Door(CONV2D_DGRAD, ImageGradients)
wgrad_door: Door[FilterGradients, PlainReady] = Door(CONV2D_WGRAD, FilterGradients)

if TYPE_CHECKING:
    from .typed_calls import conv2d, conv2d_dgrad, conv2d_wgrad
else:
    conv2d = door.function(__name__)
    conv2d_dgrad = dgrad_door.function(__name__)
    conv2d_wgrad = wgrad_door.function(__name__)

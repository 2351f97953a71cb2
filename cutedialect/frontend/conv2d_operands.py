"""The operands of `cute.conv2d` and its gradients: images (N, H, W, C) and filters (F, R, S, C),
their types and extents, and what has to hold for all of them, the rows of the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .rules import (
    KNOWN_ACTIVATION,
    Array,
    Fact,
    Fits,
    Rule,
    Shaped,
    differ,
    is_dense,
    result_type,
    result_types,
    shown,
)

ELEMENTS = ("f16", "bf16", "f32")
Pair = tuple[int, int]


def pair(name: str, value: Any, least: int) -> Pair:
    """Numbers along the height and the width, of one number or two."""
    numbers = (value, value) if isinstance(value, int) else value
    is_pair = isinstance(numbers, tuple | list) and len(numbers) == 2
    if not is_pair or not all(isinstance(each, int) and each >= least for each in numbers):
        raise ValueError(
            f"{name}: expected a number from {least} on, or two for height and width, got {value!r}"
        )
    return numbers[0], numbers[1]


def places(extent: Any, taps: Any, stride: int, padding: int, dilation: int) -> Any:
    """How many places a filter of so many taps has along an image; None where that is not known."""
    if extent is None or taps is None:
        return None
    return (extent + 2 * padding - dilation * (taps - 1) - 1) // stride + 1


def forward_sizes(given: Mapping[str, Any]) -> dict[str, Any]:
    """The height and width of the result of `conv2d`."""
    image, taps = given["x"].shape[1:3], given["w"].shape[1:3]
    steps = zip(*(_pairs(given)[name] for name in _STEPS), strict=True)
    found = [places(*each) for each in zip(image, taps, *zip(*steps, strict=True), strict=True)]
    return dict(zip("PQ", found, strict=True))


def sizes_of_image(given: Mapping[str, Any]) -> dict[str, Any]:
    """The height and width of the gradient of x."""
    return dict(zip("HW", pair("size", given["size"], 1), strict=True))


def sizes_of_filter(given: Mapping[str, Any]) -> dict[str, Any]:
    """How many taps the gradient of w has."""
    return dict(zip("RS", pair("size", given["size"], 1), strict=True))


_STEPS = ("stride", "padding", "dilation")
_LEAST = {"stride": 1, "padding": 0, "dilation": 1}


def _pairs(given: Mapping[str, Any]) -> dict[str, Pair]:
    return {name: pair(name, given[name], least) for name, least in _LEAST.items()}


def _sized(sizes: Any) -> Fact:
    """The extents that arrays do not have."""

    def make(call: Any) -> None:
        call.extents |= sizes(vars(call.given))

    return Fact("sized", make)


def _is_scattered(call: Any, name: str) -> bool:
    """Whether an image or a filter has other strides than those of a contiguous array."""
    array = getattr(getattr(call, name), "array", None)
    return array is not None and not is_dense(array.shape, array.strides)


def _contiguous(name: str) -> Rule:
    return Rule(
        name,
        lambda x: _is_scattered(x, name),
        lambda x: (
            "a contiguous array with the channels last, got strides "
            f"{getattr(x, name).array.strides}; of a torch tensor in channels_last take "
            "x.permute(0, 2, 3, 1), else copy it"
        ),
    )


def _wrong_places(call: Any) -> bool:
    """Whether slopes have another height and width than the result has."""
    return any(map(differ, places_of(call), (call.extents["P"], call.extents["Q"])))


def places_of(call: Any) -> tuple[Any, Any]:
    """The height and width that the result of `conv2d` has."""
    images, taps = (call.extents[h] for h in "HW"), (call.extents[r] for r in "RS")
    steps = (call.pairs[name] for name in _STEPS)
    height, width = (places(*each) for each in zip(images, taps, *steps, strict=True))
    return height, width


def is_depthwise(call: Any) -> bool:
    """Whether each channel has a filter of its own."""
    return call.w.shape[3] == 1 and call.x.shape[3] != 1


def _has_other_groups(call: Any) -> bool:
    (f, *_, depth), channels = call.w.shape, call.x.shape[3]
    return differ(f, channels) if is_depthwise(call) else differ(depth, channels)


_PAIRS = Fact("pairs", lambda x: _pairs(vars(x.given)))
_TAPS = Rule(
    "w", lambda x: None in (x.extents["R"], x.extents["S"]),
    lambda x: f"a filter whose taps are known, got shape {shown(x.w.shape)}",
)  # fmt: skip
FITS = {"F": "{want} channels as in {of}, got {got}", "C": "{want} channels as in {of}, got {got}"}


def _alike(one: str, other: str) -> Rule:
    return Rule(
        other,
        lambda x: getattr(x, one).dtype != getattr(x, other).dtype,
        lambda x: f"{getattr(x, one).dtype.name} as in {one}, got {getattr(x, other).dtype.name}",
        TypeError,
    )


RULES = (
    *map(Array, ("x", "w")),
    *map(Fits, ("x", "w")),
    _alike("x", "w"),
    Rule("w", _has_other_groups,
         lambda x: f"(F, R, S, {x.x.shape[3]}), or ({x.x.shape[3]}, R, S, 1) with a filter for "
         f"each channel of x, got shape {shown(x.w.shape)}; take a call for each group"),
    *map(_contiguous, ("x", "w")),
    _PAIRS,
    _TAPS,
    _sized(forward_sizes),
    Rule("w", lambda x: any((x.extents[mode] or 0) < 0 for mode in "PQ"),
         lambda x: f"a filter that fits in {shown(x.x.shape[1:3])} pixels with padding "
         f"{x.pairs['padding']}, got {shown(x.w.shape[1:3])} taps, dilation {x.pairs['dilation']}"),
    Array("bias"),
    Fits("bias"),
    KNOWN_ACTIVATION,
    result_type(lambda x: x.x.dtype),
    Shaped("out", result_types),
    _contiguous("out"),
)  # fmt: skip
_SLOPES = Rule(
    "dy", _wrong_places,
    lambda x: f"{shown(places_of(x))} pixels, as the result has, got {shown(x.dy.shape[1:3])}",
)  # fmt: skip
DGRAD_RULES = (
    *map(Array, ("dy", "w")),
    *map(Fits, ("dy", "w")),
    _alike("dy", "w"),
    *map(_contiguous, ("dy", "w")),
    _PAIRS,
    _TAPS,
    _sized(sizes_of_image),
    _SLOPES,
    result_type(lambda x: x.dy.dtype),
    Shaped("out", result_types),
    _contiguous("out"),
)
WGRAD_RULES = (
    *map(Array, ("x", "dy")),
    *map(Fits, ("x", "dy")),
    _alike("x", "dy"),
    *map(_contiguous, ("x", "dy")),
    _PAIRS,
    _sized(sizes_of_filter),
    _SLOPES,
    result_type(lambda x: x.x.dtype),
    Shaped("out", result_types),
    _contiguous("out"),
)

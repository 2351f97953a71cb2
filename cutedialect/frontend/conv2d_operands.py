"""`cute.conv2d` and its gradients, declared: images (N, H, W, C) and filters (F, R, S, C), their
types and extents, and what has to hold for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import signature as kinds
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
from .signature import OF_ARRAYS, OF_DTYPE, OF_OUT, REQUIRED, Call, Output, Parameter

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
    """The height and width of the gradient of x, and its channels."""
    (filters, *_, depth), groups = given["w"].shape, given.get("groups", 1)
    height, width = pair("size", given["size"], 1)
    return {"H": height, "W": width, "C": depth if groups == 1 else filters}


def sizes_of_filter(given: Mapping[str, Any]) -> dict[str, Any]:
    """How many taps the gradient of w has, and channels."""
    depth = given["x"].shape[3] if given.get("groups", 1) == 1 else 1
    return dict(zip("RS", pair("size", given["size"], 1), strict=True)) | {"D": depth}


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
    if hasattr(call.given, "groups"):
        return call.given.groups != 1
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


def _groups(count: Callable[[Any], Any], others: Callable[[Any], bool], said: str) -> Rule:
    """What `groups` may be, beside 1: as many as the result has channels, which are `others`."""
    return Rule(
        "groups",
        lambda x: x.given.groups != 1 and (differ(x.given.groups, count(x)) or others(x)),
        lambda x: (
            f"1, or {count(x)} where {said}, got {x.given.groups!r}; take a call for each group"
        ),
    )


DGRAD_RULES = (
    *map(Array, ("dy", "w")),
    *map(Fits, ("dy", "w")),
    _alike("dy", "w"),
    _groups(
        lambda x: x.dy.shape[3],
        lambda x: x.w.shape[3] != 1,
        "each channel of dy has a filter of its own (F, R, S, 1)",
    ),
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
    _groups(
        lambda x: x.dy.shape[3],
        lambda x: differ(x.x.shape[3], x.dy.shape[3]),
        "each channel of dy has a filter of its own, that of x",
    ),
    *map(_contiguous, ("x", "dy")),
    _PAIRS,
    _sized(sizes_of_filter),
    _SLOPES,
    result_type(lambda x: x.x.dtype),
    Shaped("out", result_types),
    _contiguous("out"),
)

_OF_STEPS = (
    Parameter("stride", kinds.PAIR, 1, "pixels between places of the filter"),
    Parameter("padding", kinds.PAIR, 0, "zeros around the image, at each side"),
    Parameter("dilation", kinds.PAIR, 1, "pixels between taps"),
)
_GROUPS = Parameter(
    "groups", kinds.GROUPS, 1, "1, or as many as channels, each of which has a filter of its own"
)
_IMAGE, _FILTER = "4 dimensions (images, height, width, channels)", "4 dimensions (F, R, S, C)"
_TYPE_OF_RESULT = Parameter("out_dtype", kinds.DTYPE, None, OF_DTYPE)


def _image(name: str, modes: str, said: str) -> Parameter:
    return Parameter(name, kinds.TENSOR, REQUIRED, said, modes=modes, rank=_IMAGE,
                     dtypes=ELEMENTS)  # fmt: skip


def _size(said: str) -> Parameter:
    return Parameter("size", kinds.SIZE, REQUIRED, said)


CONV2D = Call(
    "conv2d",
    """activation(x * w + bias): the cross-correlation of images x (N, H, W, C) and filters w (F, R,
    S, C), or a filter for each channel w (C, R, S, 1).

    The result is (N, P, Q, F), P = (H + 2 padding - dilation (R - 1) - 1) // stride + 1 and Q
    alike; `stride`, `padding` and `dilation` are a number, or two for height and width. Its pixel
    (p, q) is the sum over taps (r, s) and channels of w times pixel (p stride + r dilation -
    padding, q stride + s dilation - padding) of x, which is 0 outside of the image. Arrays are
    contiguous: of a torch tensor in channels_last take x.permute(0, 2, 3, 1). Elements are f16,
    bf16, or f32 (as tf32), sums are of f32; f32 filters for each channel are multiplied as they
    are. Default `out_dtype` is x's type. An empty result launches nothing. Wrong arguments raise
    TypeError or ValueError naming the argument, and nothing is written. Returns `out`, or a new
    array where `x` lives.
    """,
    (
        _image("x", "N H W C", "images (N, H, W, C)"),
        Parameter("w", kinds.TENSOR, REQUIRED, "filters (F, R, S, C), or (C, R, S, 1)",
                  modes="F R S D", rank=_FILTER),
        Parameter("bias", kinds.OPTIONAL, None, "what is added to each pixel (F,)", modes="F",
                  rank="1 dimension"),
        *_OF_STEPS,
        Parameter("activation", kinds.ACTIVATION, None,
                  "what the result goes through, a name or a function of the tile"),
        Parameter("out", kinds.OUTPUT, None, OF_OUT, modes="N P Q F"),
        _TYPE_OF_RESULT,
        *OF_ARRAYS,
    ),
    outputs=(Output("out", "N P Q F"),),
    sizes=forward_sizes,
    rules=RULES,
    fits=FITS,
    libraries=("torch",),
)  # fmt: skip
CONV2D_DGRAD = Call(
    "conv2d_dgrad",
    """The gradient of x of `conv2d`: from slopes dy (N, P, Q, F) along the result and filters w (F,
    R, S, C) that of images (N, H, W, C) of a `size` (H, W). With `groups` = F filters (F, R, S, 1)
    are those of a channel each, and images have F channels.

    `stride`, `padding` and `dilation` are those of the convolution, and types and arrays as there.
    Wrong arguments raise TypeError or ValueError naming the argument, and nothing is written.
    Returns `out`, or a new array of `out_dtype` where `dy` lives.
    """,
    (
        _image("dy", "N P Q F", "slopes of a loss along the result (N, P, Q, F)"),
        Parameter("w", kinds.TENSOR, REQUIRED, "filters (F, R, S, C), or (F, R, S, 1)",
                  modes="F R S D", rank=_FILTER),
        _size("the height and width of x"),
        *_OF_STEPS,
        _GROUPS,
        Parameter("out", kinds.OUTPUT, None, OF_OUT, modes="N H W C"),
        _TYPE_OF_RESULT,
        *OF_ARRAYS,
    ),
    outputs=(Output("out", "N H W C"),),
    sizes=sizes_of_image,
    rules=DGRAD_RULES,
    fits=FITS,
    libraries=("torch",),
)  # fmt: skip
CONV2D_WGRAD = Call(
    "conv2d_wgrad",
    """The gradient of w of `conv2d`: from images x (N, H, W, C) and slopes dy (N, P, Q, F) along
    the result that of filters (F, R, S, C) with `size` (R, S) taps, or with `groups` = F = C that
    of filters (F, R, S, 1) of a channel each.

    `stride`, `padding` and `dilation` are those of the convolution, and types and arrays as there.
    Pixels are added up in one order: equal calls give equal bits. Wrong arguments raise TypeError
    or ValueError naming the argument, and nothing is written. Returns `out`, or a new array of
    `out_dtype` where `x` lives.
    """,
    (
        _image("x", "N H W C", "images (N, H, W, C)"),
        _image("dy", "N P Q F", "slopes of a loss along the result (N, P, Q, F)"),
        _size("how many taps w has, (R, S)"),
        *_OF_STEPS,
        _GROUPS,
        Parameter("out", kinds.OUTPUT, None, OF_OUT, modes="F R S D"),
        _TYPE_OF_RESULT,
        *OF_ARRAYS,
    ),
    outputs=(Output("out", "F R S D"),),
    sizes=sizes_of_filter,
    rules=WGRAD_RULES,
    fits=FITS,
    libraries=("torch",),
)

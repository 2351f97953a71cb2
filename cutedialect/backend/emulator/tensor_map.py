"""Tensor maps (CUDA driver API, "Tensor Map Object Management"; PTX ISA 5.5) as the emulator reads
them: what a box holds, where its bytes lie in shared memory, and an opaque 128-byte form, so that a
kernel may keep a map in a parameter or in global memory. Everything is innermost dimension first.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np

from .errors import EmulatorError
from .lanes import Array, anywhere, where

SIZE = 128
ALIGN = 64
_MAGIC = 0x50414D_524F534E45
_FORMAT = struct.Struct("<QQ5Q4Q5H5B6B6h")

# name -> (bytes, NumPy type of the numbers for reductions, is a float)
_TYPES: dict[str, tuple[int, Any, bool]] = {
    "u8": (1, np.uint8, False),
    "u16": (2, np.uint16, False),
    "u32": (4, np.uint32, False),
    "s32": (4, np.int32, False),
    "u64": (8, np.uint64, False),
    "s64": (8, np.int64, False),
    "f16": (2, np.float16, True),
    "f32": (4, np.float32, True),
    "f64": (8, np.float64, True),
    "bf16": (2, ml_dtypes.bfloat16, True),
    "f32ftz": (4, np.float32, True),
    "tf32": (4, np.float32, True),
    "tf32ftz": (4, np.float32, True),
    "b4x16_p64": (1, np.uint8, False),
    "b6x16_p32": (1, np.uint8, False),
}
# Bits in global memory of elements of which 16 lie there without gaps; in shared memory they have
# 16 bytes, whose last ones nobody reads (PTX ISA 5.5.1.1): so many elements are the row of a box.
_PACKED = {"b4x16_p64": 4, "b6x16_p32": 6}
_PACKED_EXTENT, _GROUP = 128, 16
# What stands there.
_GAP = 0xA5
_NAMES = tuple(_TYPES)
# The driver's enumerators of element types and swizzles, in order.
ELEMENT_CODES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32ftz", "tf32",
    "tf32ftz",
)  # fmt: skip
SPAN_CODES = (0, 32, 64, 128)
UNIT_CODES = (16, 32)
_ALIASES = {
    "uint8": "u8", "int8": "u8", "s8": "u8", "b8": "u8", "e4m3": "u8", "e5m2": "u8",
    "float8_e4m3fn": "u8", "float8_e5m2": "u8", "uint16": "u16", "int16": "u16", "s16": "u16",
    "b16": "u16", "uint32": "u32", "b32": "u32", "int32": "s32", "uint64": "u64", "b64": "u64",
    "int64": "s64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "f32_ftz": "f32ftz", "tf32_ftz": "tf32ftz",
}  # fmt: skip
# Mode to (span, bytes that stay together) of a swizzle.
_SPANS = {"none": (0, 16), "32B": (32, 16), "64B": (64, 16), "128B": (128, 16),
          "128B_32B": (128, 32)}  # fmt: skip
_ADDRESSES = 1 << 64
# (address bits that select a chunk within a row's span, how much further the bits lie that they are
# combined with), by span and by the bytes that stay together (PTX ISA 5.5.7, "Swizzling modes").
_XOR = {(0, 16): (0, 3), (32, 16): (0x10, 3), (64, 16): (0x30, 3), (128, 16): (0x70, 3),
        (128, 32): (0x60, 2)}  # fmt: skip
ATTRIBUTES = ("array", "dtype", "dims", "strides", "box")


@dataclass(frozen=True)
class TensorMap:
    """``strides`` are bytes of dimensions 1 and up, ``span`` the swizzle's bytes (0: none), and
    ``unit`` those of them that stay together. With corners ``lower`` and ``upper`` it is one of
    im2col mode (PTX ISA 5.5.4): copies walk over the pixels of a bounding box, ``box[1]`` of them,
    ``box[0]`` channels each, by the element strides.
    """

    address: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    span: int
    nan_fill: bool
    unit: int = 16
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        return _TYPES[self.dtype][0]

    @property
    def number(self) -> Any:
        """The NumPy type of an element."""
        return _TYPES[self.dtype][1]

    @functools.cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements of a copy along each dimension (the stride of dimension 0 is ignored)."""
        if self.lower:
            return self.box
        steps = (1, *self.element_strides[1:])
        return tuple(-(-extent // step) for extent, step in zip(self.box, steps, strict=True))

    @functools.cached_property
    def rows(self) -> int:
        return math.prod(self.counts[1:])

    @functools.cached_property
    def row_bytes(self) -> int:
        return self.counts[0] * self.element_bytes

    @property
    def copy_bytes(self) -> int:
        """What a load adds to the transaction count: the whole box, in bounds or not, without the
        gaps that packed elements get.
        """
        bits = _PACKED.get(self.dtype, 8)
        return self.rows * self.row_bytes * bits // 8

    @functools.cached_property
    def held(self) -> TensorMap:
        """The map of the bytes that hold packed elements; of others this one."""
        bits = _PACKED.get(self.dtype)
        if bits is None:
            return self
        dims, box = ((each[0] * bits // 8, *each[1:]) for each in (self.dims, self.box))
        return dataclasses.replace(self, dtype="u8", dims=dims, box=box, span=0)

    @functools.cached_property
    def of_four_rows(self) -> TensorMap:
        """What a copy of four rows leaves in shared memory, a box of them in order; each is a
        bounding box of its own (PTX ISA 5.5.3.4).
        """
        return dataclasses.replace(self, box=(self.box[0], 4), element_strides=(1, 1))

    @property
    def pitch(self) -> int:
        """Bytes from row to row in shared memory: a swizzled row takes the whole span."""
        return self.span or self.row_bytes

    # Boxes.

    def window(self, start: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
        """``(slices of the tensor, slices of the box)`` that lie in bounds, outermost dimension
        first; None if nothing does."""
        tensor: list[slice] = []
        box: list[slice] = []
        steps = (1, *self.element_strides[1:])
        for first, extent, count, step in zip(start, self.dims, self.counts, steps, strict=True):
            low = 0 if first >= 0 else -(first // step)
            high = min(count, -((first - extent) // step))
            if high <= low:
                return None
            tensor.append(slice(first + low * step, first + (high - 1) * step + 1, step))
            box.append(slice(low, high))
        return tuple(tensor[::-1]), tuple(box[::-1])

    def fetch(self, tensor: Any, start: tuple[int, ...]) -> Array:
        """The box at ``start`` as ``[rows, row bytes]`` uint8; fill where it is out of bounds.
        ``tensor`` is from ``elements``, or takes the same indices."""
        if self.held is not self:
            bits = _PACKED[self.dtype]
            data = self.held.fetch(tensor, (start[0] * bits // 8, *start[1:]))
            groups: Array = np.full((self.rows, self.counts[0] // _GROUP, _GROUP), _GAP, np.uint8)
            groups[..., : 2 * bits] = data.reshape(self.rows, -1, 2 * bits)
            return groups.reshape(self.rows, self.row_bytes)
        shape = self.counts[::-1]
        inside = self.window(start)
        part = None if inside is None else tensor[inside[0]]
        if part is not None and self.dtype.startswith("tf32"):
            part = _to_tf32(part)  # the fill is not rounded
        if inside is None:
            data: Array = np.full(shape, self._fill, tensor.dtype)
        elif all(s.start == 0 and s.stop == n for s, n in zip(inside[1], shape, strict=True)):
            data = np.ascontiguousarray(part)
        else:
            data = np.full(shape, self._fill, tensor.dtype)
            data[inside[1]] = part
        return data.view(np.uint8).reshape(self.rows, self.row_bytes)

    def pixels(
        self, tensor: Array, start: tuple[int, ...], offsets: tuple[int, ...]
    ) -> Array | str:
        """The pixels from ``start`` on as ``[pixels, row bytes]`` uint8, those of the bounding box
        in order, each moved by ``offsets``; or what is wrong with the start. Behind a row comes the
        next one, behind an image the next one, and what lies outside of the tensor is filled.
        """
        first, *middle, image = start
        steps = self.element_strides[1:-1]
        number = image
        place: list[int] = []
        counts: list[int] = []
        for at, low, high, extent, step in zip(
            middle, self.lower, self.upper, self.dims[1:-1], steps, strict=True
        ):
            last = extent - 1 + high
            if not low <= at <= last or (at - low) % step:
                return f"a pixel of the bounding box {low}..{last} in steps of {step}, got {at}"
            place.append((at - low) // step)
            counts.append((last - low) // step + 1)
        for at, count in zip(reversed(place), reversed(counts), strict=True):
            number = number * count + at
        walk: Array = number + np.arange(self.box[1])
        index: list[Array] = []
        inside: Array = np.ones(len(walk), bool)
        facts = zip(counts, self.lower, offsets, steps, self.dims[1:-1], strict=True)
        for count, low, offset, step, extent in facts:
            at = walk % count * step + low + offset
            inside &= (at >= 0) & (at < extent)
            index.append(at)
            walk = walk // count
        inside &= (walk >= 0) & (walk < self.dims[-1])
        index.append(walk)
        data = np.full((self.box[1], self.box[0]), self._fill, tensor.dtype)
        low, high = max(0, -first), min(self.box[0], self.dims[0] - first)
        if high > low and anywhere(inside):
            pixels = tensor[tuple(at[inside] for at in reversed(index))]
            part = pixels[:, first + low : first + high]
            data[inside, low:high] = _to_tf32(part) if self.dtype.startswith("tf32") else part
        return data.view(np.uint8).reshape(self.rows, self.row_bytes)

    @property
    def _fill(self) -> int:
        """Sixteen bits of 0x7FF7 over and over, as an H100 fills with NaN."""
        if not self.nan_fill:
            return 0
        return 0x7FF7_7FF7_7FF7_7FF7 & ((1 << (8 * self.element_bytes)) - 1)

    def elements(self, data: Array, offset: int) -> Array:
        """The tensor as unsigned words over an allocation's bytes, outermost dimension first."""
        if self.held is not self:
            return self.held.elements(data, offset)
        size = self.element_bytes
        word = data[offset : offset + size].view(f"u{size}")
        steps = (size, *self.strides)
        return np.lib.stride_tricks.as_strided(
            word, self.dims[::-1], steps[::-1], writeable=bool(data.flags.writeable)
        )

    @property
    def reach(self) -> int:
        """Bytes from the address to the end of the last element."""
        if self.held is not self:
            return self.held.reach
        steps = (self.element_bytes, *self.strides)
        return sum((n - 1) * s for n, s in zip(self.dims, steps, strict=True)) + steps[0]

    @property
    def goes_around(self) -> bool:
        """Whether coordinates reach all addresses: those of a copy add up modulo 2^64."""
        return self.reach >= _ADDRESSES

    def place(self, parts: tuple[slice, ...]) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """Address, bytes, shape and steps of a part of the tensor, outermost dimension first."""
        steps = (*self.strides[::-1], self.element_bytes)
        shape = tuple(len(range(p.start, p.stop, p.step)) for p in parts)
        first = sum(p.start * step for p, step in zip(parts, steps, strict=True))
        moves = tuple(
            step * p.step if n > 1 else 0 for p, n, step in zip(parts, shape, steps, strict=True)
        )
        size = sum((n - 1) * move for n, move in zip(shape, moves, strict=True))
        return (self.address + first) % _ADDRESSES, size + self.element_bytes, shape, moves

    def chunks(self, address: int) -> Array:
        """Where the 16-byte chunks of a box lie in shared memory, ``[rows * row bytes / 16]``, as
        differences of chunk numbers from that of ``address`` (absolute)."""
        return _chunk_pattern(
            address & 1023, self.rows, self.row_bytes, self.pitch, (self.span, self.unit)
        )

    # The opaque form.

    def encode(self) -> bytes:
        """128 bytes."""

        def pad(values: tuple[int, ...], count: int) -> tuple[int, ...]:
            return (*values, *(0,) * (count - len(values)))

        return _FORMAT.pack(
            _MAGIC, self.address, *pad(self.dims, 5), *pad(self.strides, 4),
            *pad(self.box, 5), *pad(self.element_strides, 5),
            self.rank, _NAMES.index(self.dtype), self.span, int(self.nan_fill), self.unit,
            len(self.lower), *pad(self.lower, 3), *pad(self.upper, 3),
        ).ljust(SIZE, b"\0")  # fmt: skip


@functools.lru_cache(maxsize=4096)
def decode(raw: bytes) -> TensorMap | None:
    """The map of an opaque form, None if it is none."""
    values: tuple[int, ...] = _FORMAT.unpack_from(raw)
    magic, address, rest = values[0], values[1], values[2:]
    if magic != _MAGIC:
        return None
    dims, strides, box, steps = rest[:5], rest[5:9], rest[9:14], rest[14:19]
    rank, kind, span, fill, unit, walked = rest[19:25]
    return TensorMap(
        address, _NAMES[kind], dims[:rank], strides[: rank - 1], box[:rank], steps[:rank],
        span, bool(fill), unit, rest[25 : 25 + walked], rest[28 : 28 + walked],
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _chunk_pattern(
    phase: int, rows: int, row_bytes: int, pitch: int, swizzle: tuple[int, int]
) -> Array:
    at = phase + np.arange(rows)[:, None] * pitch + np.arange(0, row_bytes, 16)[None, :]
    mask, shift = _XOR[swizzle]
    at = at ^ (at >> shift & mask)
    return (at.reshape(-1) >> 4) - (phase >> 4)


def _to_tf32(words: Array) -> Array:
    """f32 bits rounded to the nearest tf32, ties to even; NaN becomes 0x7FFFE000."""
    nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    odd = words >> np.uint32(13) & np.uint32(1)
    rounded = (words + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)
    return np.where(nan, np.uint32(0x7FFFE000), rounded)


# What a host passes.


def is_map(value: Any) -> bool:
    """Has the value the attributes (or keys) of a tensor map?"""
    if isinstance(value, np.ndarray | np.generic | bytes | int | float):
        return False
    if isinstance(value, Mapping):
        return all(name in value for name in ATTRIBUTES)
    return all(hasattr(value, name) for name in ATTRIBUTES)


def field(value: Any, name: str, default: Any = None) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name, default)
    return getattr(value, name, default)


def from_argument(what: str, value: Any, address: int, size: int) -> TensorMap:
    """A host's description, checked against the driver's rules. ``address`` is that of the array in
    global memory, ``size`` the bytes from there to its end. ``EmulatorError`` CD-E1."""
    kind = _type_name(what, field(value, "dtype"))
    dims = _numbers(what, "dims", field(value, "dims"))
    rank = len(dims)
    strides = _numbers(what, "strides", field(value, "strides"))
    box = _numbers(what, "box", field(value, "box"))
    steps = _numbers(what, "element_strides", field(value, "element_strides") or (1,) * rank)
    swizzle = str(field(value, "swizzle", "none"))
    fill = str(field(value, "oob_fill", "zero"))
    interleave = str(field(value, "interleave", "none") or "none")
    _expect(what, 1 <= rank <= 5, f"1 to 5 dimensions, got {rank}")
    for name, found, count in (("strides", strides, rank - 1), ("box", box, rank),
                               ("element_strides", steps, rank)):  # fmt: skip
        _expect(what, len(found) == count, f"{count} numbers in {name}, got {len(found)}")
    _expect(what, swizzle in _SPANS, f"swizzle {', '.join(_SPANS)}, got {swizzle!r}")
    _expect(what, interleave == "none", f"interleave none, got {interleave!r}")
    _expect(what, fill in ("zero", "nan"), f"oob_fill zero or nan, got {fill!r}")
    lower, upper = (_numbers(what, name, field(value, name) or ()) for name in ("lower", "upper"))
    if lower or upper:
        _expect_walk(what, rank, (lower, upper), box)
    width, _, is_float = _TYPES[kind]
    _expect(what, is_float or fill == "zero", f"a floating-point type to fill with NaN, got {kind}")
    for i, extent in enumerate(dims):
        _expect(what, 1 <= extent <= 1 << 32, f"dims[{i}] of 1 to 2^32, got {extent}")
    each = 16
    if kind in _PACKED:
        each = 32
        _expect_packed(what, (dims[0], box[0]), swizzle, is_walk=bool(lower or upper))
    for i, stride in enumerate(strides):
        fine = stride % each == 0 and 0 <= stride < 1 << 40
        _expect(what, fine, f"strides[{i}] to be a multiple of {each} below 2^40, got {stride}")
    for i, extent in enumerate(box):
        _expect(what, 1 <= extent <= 256, f"box[{i}] of 1 to 256, got {extent}")
    for i, step in enumerate(steps):
        _expect(what, 1 <= step <= 8, f"element_strides[{i}] of 1 to 8, got {step}")
    row = box[0] * width
    span, unit = _SPANS[swizzle]
    _expect(what, row % 16 == 0, f"box[0] to span a multiple of 16 bytes, got {row}")
    _expect(what, not span or row <= span, f"box[0] of at most {span} bytes (swizzle {swizzle}), "
            f"got {row}")  # fmt: skip
    fine = address % each == 0
    _expect(what, fine, f"an array at a multiple of {each} bytes, got {address:#x}")
    found = TensorMap(
        address, kind, dims, strides, box, steps, span, fill == "nan", unit, lower, upper
    )
    inside = found.goes_around or found.reach <= size
    _expect(what, inside, f"a tensor within the array's {size} bytes, "
            f"got one that reaches to byte {found.reach}")  # fmt: skip
    return found


def _expect_packed(what: str, extents: tuple[int, int], swizzle: str, *, is_walk: bool) -> None:
    """The rules of packed elements."""
    extent, row = extents
    _expect(what, extent % _PACKED_EXTENT == 0, f"dims[0] of {_PACKED_EXTENT} times, got {extent}")
    _expect(what, row == _PACKED_EXTENT, f"box[0] of {_PACKED_EXTENT}, got {row}")
    _expect(what, swizzle in ("none", "128B"), f"swizzle none or 128B, got {swizzle!r}")
    _expect(what, not is_walk, "no corners of pixels with packed elements")


def _expect_walk(
    what: str, rank: int, corners: tuple[tuple[int, ...], ...], box: tuple[int, ...]
) -> None:
    """The rules of cuTensorMapEncodeIm2col."""
    _expect(what, 3 <= rank <= 5, f"3 to 5 dimensions with corners of pixels, got {rank}")
    bits = {3: 16, 4: 8, 5: 5}[rank]
    most = 1 << (bits - 1)
    for corner in corners:
        _expect(what, len(corner) == rank - 2, f"corners of {rank - 2} dimensions, got {corner}")
        fine = all(-most <= at < most for at in corner)
        _expect(what, fine, f"corners in {-most}..{most - 1}, got {corner}")
    _expect(what, set(box[2:]) <= {1}, f"a box of channels and pixels, got {box}")


def _expect(what: str, condition: bool, wanted: str) -> None:
    if not condition:
        raise EmulatorError(f"{what}: expected {wanted}", code="CD-E1")


def _numbers(what: str, name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(int(value) for value in values)
    except (TypeError, ValueError):
        raise EmulatorError(
            f"{what}: expected integers in {name}, got {values!r}", code="CD-E1"
        ) from None


def _type_name(what: str, dtype: Any) -> str:
    name = str(dtype) if isinstance(dtype, str) else ""
    if not name:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            name = str(dtype)
    name = _ALIASES.get(name.lower(), name.lower())
    if name not in _TYPES:
        raise EmulatorError(
            f"{what}: expected an element type such as {', '.join(_TYPES)}, got {dtype!r}",
            code="CD-E1",
        )
    return name


# Reductions.

# What an H100 carries out; other pairs assemble and are an illegal instruction.
_REDUCIBLE = {
    "add": ("u32", "s32", "u64", "f16", "f32", "f64", "bf16", "f32ftz"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",), "dec": ("u32",),
    "and": ("u32", "s32", "u64"), "or": ("u32", "s32", "u64"), "xor": ("u32", "s32", "u64"),
}  # fmt: skip


def reducible(operation: str, dtype: str) -> bool:
    return dtype in _REDUCIBLE[operation]


def combine(operation: str, number: Any) -> Callable[[Array, Array], Array]:
    """``new(old, value)`` on arrays of a NumPy number type."""
    if operation == "inc":
        return lambda old, b: where(old >= b, 0, old + np.uint32(1)).astype(np.uint32)
    if operation == "dec":
        return lambda old, b: where((old == 0) | (old > b), b, old - np.uint32(1)).astype(np.uint32)
    half = np.dtype(number).itemsize == 2
    if operation == "add":
        if half:
            return lambda old, b: (old.astype(np.float32) + b.astype(np.float32)).astype(number)
        return lambda old, b: old + b
    if operation in ("min", "max"):
        if half:
            pick: Any = np.fmin if operation == "min" else np.fmax

            def halves(old: Array, b: Array) -> Array:
                picked: Array = pick(old.astype(np.float32), b.astype(np.float32))
                return picked.astype(number)

            return halves
        return np.minimum if operation == "min" else np.maximum
    return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[operation]

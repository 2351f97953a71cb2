"""The TMA descriptor as data, with every rule of `cuTensorMapEncodeTiled` and
`cuTensorMapEncodeIm2col`, checked without CUDA.
Everything is in the driver's order: the contiguous dimension first, strides in bytes of the others.
Sources: CUDA driver API 13.1, "Tensor Map Object Management"; PTX ISA 9.1, "Tensors"; what an H100
does with coordinates and reductions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from cutedialect.atoms import smem_layouts
from cutedialect.atoms.smem_layouts import ATOM_32B, SWIZZLE_32B
from cutedialect.layout import Swizzle


class _Type(NamedTuple):
    """`code` is the driver's CUtensorMapDataType, `bits` those of an element in shared memory,
    `packed` those in global memory where 16 of them lie there without gaps, and in 16 bytes of
    shared memory with what is left over at the end.
    """

    code: int
    bits: int
    is_float: bool
    packed: int = 0


# 8-bit floats and signed bytes are copied as bytes, signed 16-bit integers as u16.
_TYPES = {
    "u8": _Type(0, 8, False),
    "s8": _Type(0, 8, False),
    "b8": _Type(0, 8, False),
    "e4m3": _Type(0, 8, False),
    "e5m2": _Type(0, 8, False),
    "u16": _Type(1, 16, False),
    "s16": _Type(1, 16, False),
    "b16": _Type(1, 16, False),
    "u32": _Type(2, 32, False),
    "b32": _Type(2, 32, False),
    "s32": _Type(3, 32, False),
    "u64": _Type(4, 64, False),
    "b64": _Type(4, 64, False),
    "s64": _Type(5, 64, False),
    "f16": _Type(6, 16, True),
    "f32": _Type(7, 32, True),
    "f64": _Type(8, 64, True),
    "bf16": _Type(9, 16, True),
    "f32ftz": _Type(10, 32, True),
    "tf32": _Type(11, 32, True),
    "tf32ftz": _Type(12, 32, True),
    "b4x16_p64": _Type(14, 8, False, packed=4),
    "b6x16_p32": _Type(15, 8, False, packed=6),
}
# Elements in the innermost dimension of a tensor, and of a box, whose elements are packed.
PACKED_EXTENT = 128
_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3, ATOM_32B: 4}
_INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
_FILLS = {"zero": 0, "nan": 1}
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
# Bits of a corner of the pixels' bounding box by rank, signed; offsets have as many, unsigned (CUDA
# driver API, cuTensorMapEncodeIm2col).
_CORNER_BITS = {3: 16, 4: 8, 5: 5}
# The reductions that an H100 carries out; others encode and assemble, and then are an illegal
# instruction. Types by the driver's code.
_REDUCIBLE = {
    "add": (2, 3, 4, 6, 7, 8, 9, 10),
    "min": (2, 3, 4, 5, 6, 9),
    "max": (2, 3, 4, 5, 6, 9),
    "inc": (2,),
    "dec": (2,),
    "and": (2, 3, 4),
    "or": (2, 3, 4),
    "xor": (2, 3, 4),
}


class Window(NamedTuple):
    """How copies walk over the pixels of images: along each dimension of an image, in any one order
    of these, from its first pixel plus `lower` to its last one plus `upper`, `steps` at a time.

    >>> Window((-1, -1), (-1, -1), (1, 1)).counts((56, 56))
    (56, 56)
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]

    def counts(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Places of the walk along each dimension of an image of such extents."""
        return tuple(
            (extent - 1 + upper - lower) // step + 1
            for extent, lower, upper, step in zip(extents, *self, strict=True)
        )

    def reversed(self) -> Window:
        """The same with the dimensions in the other order."""
        return Window(self.lower[::-1], self.upper[::-1], self.steps[::-1])

    def check(self, offsets: Sequence[int] = ()) -> None:
        """`ValueError` where a tensor map has no such walk, or a copy of it no such largest offsets
        (PTX ISA 5.5.4, "Im2col mode").
        """
        rank = len(self.lower) + 2
        if rank not in _CORNER_BITS or not len(self.upper) == len(self.steps) == rank - 2:
            raise ValueError(f"expected corners and steps along 1 to 3 dimensions, got {self}")
        most = 1 << (_CORNER_BITS[rank] - 1)
        for corner in (*self.lower, *self.upper):
            if not -most <= corner < most:
                raise ValueError(
                    f"expected corners of pixels in {-most}..{most - 1} with {rank} dimensions, "
                    f"got {corner}"
                )
        for step in self.steps:
            if not 1 <= step <= 8:
                raise ValueError(f"expected steps of pixels of 1 to 8, got {step}")
        for offset in offsets:
            if not 0 <= offset < 2 * most:
                raise ValueError(
                    f"expected offsets of pixels in 0..{2 * most - 1} with {rank} dimensions, got "
                    f"{offset}"
                )


@dataclass(frozen=True)
class TensorMap:
    """One tensor map of `len(dims)` dimensions, innermost first.

    `dims` are extents in elements, `strides` bytes from one index to the next of dims 1 and up,
    `box` the extents of what one copy moves, `element_strides` the steps inside the box (a copy
    loads ceil(box / step) elements; without interleave that of dimension 0 is ignored). `swizzle`
    is `none`, `32B`, `64B`, `128B` or, from sm_100 on, `128B_32B`, `interleave` `none`, `16B` or
    `32B`, `oob_fill` `zero` or `nan`, `l2_promotion` `none`, `64B`, `128B` or `256B`. With the
    corners `lower` and `upper` (of the dimensions between the first and the last one) a copy moves
    `box[0]` channels of `box[1]` pixels in a row of a `Window`, whose steps are element strides
    (PTX ISA 5.5.4, im2col mode). Nothing is checked before `check`.
    """

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    interleave: str = "none"
    oob_fill: str = "zero"
    l2_promotion: str = "128B"
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.dims))

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        return _type(self.dtype).bits // 8

    @property
    def alignment(self) -> int:
        """Bytes that the address in global memory has to be a multiple of."""
        return 32 if self.interleave == "32B" or _type(self.dtype).packed else 16

    @property
    def smem_alignment(self) -> int:
        """Bytes that the address in shared memory has to be a multiple of, for the swizzle pattern
        to start there: 128 without one, eight spans with one."""
        return max(128, 8 * span_of(self.swizzle))

    @property
    def loaded(self) -> tuple[int, ...]:
        """Elements that one copy moves along each dimension: ceil(box / element stride), or the
        channels and the pixels."""
        if self.lower:
            return self.box
        steps = self.element_strides
        if self.interleave == "none":
            steps = (1, *steps[1:])
        return tuple(-(-extent // step) for extent, step in zip(self.box, steps, strict=True))

    @property
    def box_bytes(self) -> int:
        """What one copy adds to the transaction count: the whole box, parts out of bounds and all,
        of packed elements without the gaps that they get.

        >>> TensorMap("f16", (4096, 4096), (8192,), (64, 128), swizzle="128B").box_bytes
        16384
        >>> TensorMap("b6x16_p32", (4096, 4096), (3072,), (128, 64), swizzle="128B").box_bytes
        6144
        """
        kind = _type(self.dtype)
        return prod(self.loaded) * (kind.packed or kind.bits) // 8

    @property
    def smem_bytes(self) -> int:
        """Bytes of shared memory from the first to the end of the last row of a box. With a
        swizzle rows lie one span apart, also when the box is narrower."""
        row = self.loaded[0] * self.element_bytes
        pitch = row if self.swizzle == "none" else span_of(self.swizzle)
        return pitch * prod(self.loaded[1:])

    @property
    def codes(self) -> tuple[int, int, int, int, int]:
        """The driver's enumerators of data type, interleave, swizzle, L2 promotion and fill."""
        return (
            _type(self.dtype).code,
            _code("interleave", self.interleave, _INTERLEAVES),
            _code("swizzle", self.swizzle, _SWIZZLES),
            _code("L2 promotion", self.l2_promotion, _PROMOTIONS),
            _code("out-of-bounds fill", self.oob_fill, _FILLS),
        )

    def check(self, address: int = 0) -> None:
        """`ValueError` for the first rule that this map, at a global address, does not keep."""
        self.check_box()
        if len(self.strides) != self.rank - 1:
            raise ValueError(
                f"expected {self.rank - 1} strides (of dimensions 1 and up) for {self.rank} "
                f"dimensions, got {len(self.strides)}"
            )
        for i, extent in enumerate(self.dims):
            if not 1 <= extent <= 1 << 32:
                raise ValueError(f"expected dimension {i} of 1 to 2^32 elements, got {extent}")
        if _type(self.dtype).packed and self.dims[0] % PACKED_EXTENT:
            raise ValueError(
                f"expected dimension 0 of a multiple of {PACKED_EXTENT} elements of {self.dtype}, "
                f"got {self.dims[0]}; cute.pack fills rows up"
            )
        unit = self.alignment
        for i, stride in enumerate(self.strides, start=1):
            if stride % unit:
                raise ValueError(
                    f"expected a stride of dimension {i} that is a multiple of {unit} bytes, "
                    f"got {stride} bytes"
                )
            if not 0 <= stride < 1 << 40:
                raise ValueError(
                    f"expected a stride of dimension {i} below 2^40 bytes and not negative, "
                    f"got {stride} bytes"
                )
        if address % unit:
            raise ValueError(
                f"expected a global address that is a multiple of {unit} bytes, got {address:#x}"
            )

    def check_box(self) -> None:
        """`check` for what is known before extents, strides and address are."""
        kind = _type(self.dtype)
        _ = self.codes
        self._check_ranks()
        for i, extent in enumerate(self.box):
            if not 1 <= extent <= 256:
                raise ValueError(f"expected box extent {i} of 1 to 256 elements, got {extent}")
        for i, step in enumerate(self.element_strides):
            if not 1 <= step <= 8:
                raise ValueError(f"expected element stride {i} of 1 to 8, got {step}")
        if self.lower or self.upper:
            Window(self.lower, self.upper, self.element_strides[1:-1]).check()
            if self.rank != len(self.lower) + 2 or any(extent != 1 for extent in self.box[2:]):
                raise ValueError(
                    f"expected corners of {self.rank - 2} dimensions, and a box of channels and "
                    f"pixels, got {self.lower} and {self.box}"
                )
        self._check_inner(kind)
        if kind.packed and (self.interleave != "none" or self.lower):
            raise ValueError(f"expected neither interleave nor pixels with {self.dtype}")
        if self.oob_fill == "nan" and not kind.is_float:
            raise ValueError(
                f"expected a floating-point type for the fill with NaN, got {self.dtype}; "
                f"fill with zero"
            )

    def _check_ranks(self) -> None:
        if not 1 <= self.rank <= 5:
            raise ValueError(f"expected a tensor map of 1 to 5 dimensions, got {self.rank}")
        if self.interleave != "none" and self.rank < 3:
            raise ValueError(
                f"expected at least 3 dimensions with interleave {self.interleave}, got {self.rank}"
            )
        lengths = (
            ("box extents", self.box, self.rank),
            ("element strides", self.element_strides, self.rank),
        )
        for what, values, count in lengths:
            if len(values) != count:
                raise ValueError(
                    f"expected {count} {what} for {self.rank} dimensions, got {len(values)}"
                )

    def _check_inner(self, kind: _Type) -> None:
        """Rules of the innermost row of the box."""
        if kind.packed and (self.box[0] != PACKED_EXTENT or self.swizzle not in ("none", "128B")):
            raise ValueError(
                f"expected box extent 0 of {PACKED_EXTENT} elements of {self.dtype}, with swizzle "
                f"128B or none, got {self.box[0]} with swizzle {self.swizzle}"
            )
        row = self.box[0] * kind.bits // 8
        if self.interleave == "none" and row % 16:
            each = max(1, 128 // kind.bits)
            raise ValueError(
                f"expected box extent 0 times the element size to be a multiple of 16 bytes "
                f"({each} elements of {self.dtype}), got {self.box[0]} elements ({row} bytes)"
            )
        if self.interleave == "32B" and self.swizzle != "32B":
            raise ValueError(
                f"expected swizzle 32B with interleave 32B, got swizzle {self.swizzle}"
            )
        if self.interleave == "none" and self.swizzle != "none" and row > span_of(self.swizzle):
            span = span_of(self.swizzle)
            raise ValueError(
                f"expected box extent 0 of at most {span} bytes ({span * 8 // kind.bits} elements "
                f"of {self.dtype}) with swizzle {self.swizzle}, got {self.box[0]} elements "
                f"({row} bytes)"
            )

    def check_coordinates(self, coordinates: Sequence[int], *, store: bool = False) -> None:
        """`ValueError` for constant coordinates that stop an H100 with an illegal instruction.

        The innermost has to be a multiple of 16 bytes; loads may start before the tensor, stores
        and reductions may not.
        """
        if len(coordinates) != self.rank:
            raise ValueError(f"expected {self.rank} coordinates, got {len(coordinates)}")
        offset = coordinates[0] * self.element_bytes
        if offset % 16:
            raise ValueError(
                f"expected coordinate 0 at a multiple of 16 bytes "
                f"({16 // self.element_bytes} elements of {self.dtype}), got {coordinates[0]}"
            )
        if store and min(coordinates) < 0:
            raise ValueError(
                f"expected coordinates of a store of at least 0, got {min(coordinates)}"
            )

    def check_reduction(self, operation: str) -> None:
        """`ValueError` for a `cp.reduce.async.bulk.tensor` that hardware does not carry out."""
        check_reduction(operation, self.dtype)


def check_reduction(operation: str, dtype: str) -> None:
    """`ValueError` for a reduction that a tensor copy does not carry out on elements of a type.

    >>> check_reduction("add", "bf16")
    """
    legal = _REDUCIBLE.get(operation)
    if legal is None:
        raise ValueError(f"expected a reduction of {', '.join(REDUCTIONS)}, got {operation!r}")
    if _type(dtype).code not in legal:
        names = [name for name, kind in _TYPES.items() if kind.code in legal]
        raise ValueError(
            f"expected a type that a tensor copy can {operation}: {', '.join(names)}; got {dtype}"
        )


def _type(dtype: str) -> _Type:
    found = _TYPES.get(dtype)
    if found is None:
        raise ValueError(
            f"expected an element type of a tensor map ({', '.join(_TYPES)}), got {dtype!r}"
        )
    return found


def _code(what: str, value: str, codes: dict[str, int]) -> int:
    if value not in codes:
        raise ValueError(f"expected {what} {', '.join(codes)}, got {value!r}")
    return codes[value]


# Maps of slices (`slice_map_of`): the most rows of a slice, and what the offset counts in.
SLICE_ROWS = 1 << 30
SLICE_UNIT = 16
SLICE_UNITS = 1 << 31
# A stride that SLICE_ROWS times is all addresses.
SLICE_TURN = (1 << 64) // SLICE_ROWS
# So many times 2^35 bytes are more than a device has memory.
_SLICE_REACH = 1 << 14


def swizzle_mode(swizzle: Swizzle | None) -> str:
    """The mode in which TMA writes a swizzle of byte addresses; `ValueError` where it has none.

    >>> swizzle_mode(Swizzle(3, 4, 3)), swizzle_mode(Swizzle(2, 5, 2))
    ('128B', '128B_32B')
    """
    return ATOM_32B if swizzle == SWIZZLE_32B else smem_layouts.swizzle_mode(swizzle)


def span_of(mode: str) -> int:
    """Bytes in one row of a mode's pattern; 16 without a swizzle."""
    return smem_layouts.span_of("128B" if mode == ATOM_32B else mode)


def slice_map_of(
    dtype: str,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    swizzle: Swizzle | None = None,
    *,
    sliced: int,
) -> TensorMap:
    """The map for boxes of slices along one mode of a tensor, given as for `tensor_map_of`: rows
    behind a slice's end are out of bounds, though the tensor has them.

    Its dimensions are the contiguous mode, SLICE_ROWS rows of which the slice's are the last ones,
    and three whose coordinates say how far the end of the slice lies behind the tensor's address:
    SLICE_ROWS (rows are counted back from there: with this stride the product with the coordinate
    and that of SLICE_ROWS rows are 2^64, a whole turn), and the distance's digits, in units of 16
    bytes and in SLICE_UNITS of these. So Triton and Quack keep ragged batches apart; a base address
    before the tensor would save a dimension, but an H100 loads nothing from there.

    >>> slice_map_of("f16", (8, 512, 64), (32768, 64, 1), (1, 128, 64), sliced=1).strides
    (128, 17179869056, 16, 34359738368)
    """
    order = dim_order(strides)
    size = _type(dtype).bits // 8
    row = strides[sliced] * size
    if shape[sliced] < 2:
        # It moves nothing: any stride may be given.
        row -= row % SLICE_UNIT
    if not 0 <= row < SLICE_TURN:
        raise ValueError(f"expected rows of slices that are less than 2^34 bytes apart, got {row}")
    if shape[sliced] > SLICE_ROWS:
        raise ValueError(f"expected a slice of at most 2^30 rows, got {shape[sliced]}")
    for mode in order[1:]:
        step = strides[mode] * size
        if shape[mode] > 1 and (step % SLICE_UNIT or step < 0):
            raise ValueError(
                f"expected a stride of mode {mode} that is a multiple of {SLICE_UNIT} bytes and "
                f"not negative, got {step} bytes"
            )
    return TensorMap(
        dtype,
        (max(1, shape[order[0]]), SLICE_ROWS, SLICE_UNITS, SLICE_UNITS, _SLICE_REACH),
        (row, SLICE_TURN - row, SLICE_UNIT, SLICE_UNIT * SLICE_UNITS),
        (box[order[0]], box[sliced], 1, 1, 1),
        swizzle=swizzle_mode(swizzle),
    )


def dim_order(strides: Sequence[object]) -> tuple[int, ...]:
    """The modes of a tensor in the driver's order: the contiguous one, then the others from last to
    first. A stride that is not an int is only known at run time, so never the contiguous one; of
    several modes of stride 1 (all but one have a single element) the last counts.

    >>> dim_order(("?", "?", 1)), dim_order((1, "?"))
    ((2, 1, 0), (0, 1))
    """
    ones = [mode for mode, stride in enumerate(strides) if isinstance(stride, int) and stride == 1]
    if not ones:
        shown = ", ".join(map(str, strides))
        raise ValueError(f"expected a tensor with one contiguous mode (stride 1), got ({shown})")
    first = ones[-1]
    return (first, *(mode for mode in reversed(range(len(strides))) if mode != first))


def tensor_map_of(
    dtype: str,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    swizzle: Swizzle | None = None,
    *,
    oob_fill: str = "zero",
    l2_promotion: str = "128B",
    window: Window | None = None,
) -> TensorMap:
    """The map of a tensor given mode by mode: extents, strides and box in elements, in the order of
    `dim_order(strides)`; `swizzle` acts on byte addresses. With a `window` of the modes between the
    first and the last one, copies move the pixels that it walks over. Not yet checked.

    A mode of no element is encoded as one of a single element (such a tensor is never read), and
    the stride of a mode of one element, which moves nothing, as the next multiple of 16 bytes.

    >>> found = tensor_map_of("f16", (512, 256), (256, 1), (128, 64), Swizzle(3, 4, 3))
    >>> found.dims, found.strides, found.box, found.swizzle
    ((256, 512), (512,), (64, 128), '128B')

    Of packed elements shape and strides are those of the bytes that hold them, and the box counts
    elements:

    >>> found = tensor_map_of("b6x16_p32", (512, 192), (192, 1), (128, 128), Swizzle(3, 4, 3))
    >>> found.dims, found.strides, found.box
    ((256, 512), (192,), (128, 128))
    """
    if not len(shape) == len(strides) == len(box):
        raise ValueError(
            f"expected as many extents as strides and box extents, got {len(shape)}, "
            f"{len(strides)} and {len(box)}"
        )
    order = dim_order(strides)
    kind = _type(dtype)
    size = kind.bits // 8
    unit = 2 * 16 if kind.packed else 16
    steps = [
        strides[mode] * size if shape[mode] > 1 else -(-max(strides[mode], 0) * size // unit) * unit
        for mode in order[1:]
    ]
    dims = [max(1, shape[mode]) for mode in order]
    if kind.packed:
        # The tensor is one of the bytes that hold the elements.
        dims[0] = max(PACKED_EXTENT, shape[order[0]] * 8 // kind.packed)
    return TensorMap(
        dtype,
        tuple(dims),
        tuple(steps),
        tuple(box[mode] for mode in order),
        swizzle=swizzle_mode(swizzle),
        oob_fill=oob_fill,
        l2_promotion=l2_promotion,
        **_corners(window),
    )


def _corners(window: Window | None) -> dict[str, Any]:
    """The fields of a tensor map that say how copies walk over pixels."""
    if window is None:
        return {}
    lower, upper, steps = window.reversed()
    return {"lower": lower, "upper": upper, "element_strides": (1, *steps, 1)}

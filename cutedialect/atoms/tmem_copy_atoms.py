"""Copies of tensor memory as data: `tcgen05.ld` and `st` between it and the registers of a warp,
`cp` from shared memory. The tile of a load or store is (lanes, columns), column-major, columns of
32 bits, or of 16 for the packing forms; all threads pass one address, which names its corner.
Source: PTX ISA 9.1, "Data Movement Shape", "tcgen05.ld", "tcgen05.st", "tcgen05.cp".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from cutedialect.atoms.copy_atoms import CopyAtom
from cutedialect.layout import Layout

_TARGETS = "sm_100f sm_110f"


@dataclass(frozen=True)
class TmemCopyAtom(CopyAtom):
    """`lanes` and `columns` are the extent of what one instruction moves in tensor memory, columns
    of 32 bits; `registers` of each thread hold it. `packed`: two columns of 16 bits to a register.
    """

    shape: str = ""
    repeat: int = 1
    lanes: int = 32
    columns: int = 1
    packed: bool = False

    @property
    def threads(self) -> int:
        """A warp loads or stores; one thread starts a copy from shared memory."""
        return 1 if self.kind == "tcgen05.cp" else 32


# Shape to (registers of .x1, columns of .x1, lanes, most repeats).
_SHAPES = {
    "32x32b": (1, 1, 32, 128),
    "16x64b": (1, 2, 16, 128),
    "16x128b": (2, 4, 16, 64),
    "16x256b": (4, 8, 16, 32),
    "16x32bx2": (1, 1, 16, 128),
}
SHAPES = tuple(_SHAPES)
# Those of one address; `16x32bx2` has a second one, as an immediate.
WHOLE_SHAPES = tuple(shape for shape in SHAPES if shape != "16x32bx2")


def fragment(shape: str, repeat: int, packed: bool = False) -> Layout:
    """(thread, value) of the registers to the element of the tile; register order, low half first
    where two elements share one. The halves of `16x32bx2` lie side by side in the tile.

    >>> print(fragment("32x32b", 4))
    (32,4):(1,32)
    >>> print(fragment("16x256b", 2))
    ((4,8),(2,2,2)):((32,1),(16,8,128))
    """
    column = 2 if packed else 1  # columns of the tile to one of the shape
    if shape == "32x32b":
        threads, values = (32, 1), [(repeat, 32 * column)]
    elif shape == "16x64b":
        threads = ((2, 2, 8), (8, 16 * column, 1))
        values = [(repeat, 32 * column)]
    elif shape == "16x128b":
        threads = ((4, 8), (16 * column, 1))
        values = [(2, 8), (repeat, 64 * column)]
    elif shape == "16x256b":
        threads = ((4, 8), (32 * column, 1))
        values = [(2, 16 * column), (2, 8), (repeat, 128 * column)]
    elif shape == "16x32bx2":
        threads = ((16, 2), (1, 16 * repeat * column))
        values = [(repeat, 16 * column)]
    else:
        raise ValueError(f"expected a shape of {', '.join(SHAPES)}, got {shape!r}")
    if packed:
        lanes = _SHAPES[shape][2]
        values.insert(0, (2, lanes))
    shapes, strides = tuple(v[0] for v in values), tuple(v[1] for v in values)
    if len(values) == 1:
        return Layout((threads[0], shapes[0]), (threads[1], strides[0]))
    return Layout((threads[0], shapes), (threads[1], strides))


@cache
def unit_places(shape: str, bits: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """[value][thread]: (lane, column) of the elements of `bits` bits that one instruction without
    repeats moves; those that share a column of 32 bits are neighbors in a register.

    >>> unit_places("32x32b", 16)[1][:3]
    ((0, 1), (1, 1), (2, 1))
    """
    held, lanes, packed = fragment(shape, 1), _SHAPES[shape][2], 32 // bits
    return tuple(
        tuple(
            (held(thread, register) % lanes, held(thread, register) // lanes * packed + part)
            for thread in range(32)
        )
        for register in range(held[1].size())
        for part in range(packed)
    )


def _transfer(load: bool, shape: str, repeat: int, packed: bool) -> TmemCopyAtom:
    each, wide, lanes, _ = _SHAPES[shape]
    kind = "ld" if load else "st"
    pack = (".pack::16b" if load else ".unpack::16b") if packed else ""
    columns = wide * repeat * (2 if packed else 1) * (2 if shape == "16x32bx2" else 1)
    # Every thread's address stands for the whole tile.
    tile = f"(32,({lanes},{columns})):(0,(1,{lanes}))"
    registers = str(fragment(shape, repeat, packed))
    return TmemCopyAtom(
        name=f"tcgen05_{kind}_{shape}_x{repeat}{'_16b' if packed else ''}",
        ptx=f"tcgen05.{kind}.sync.aligned.{shape}.x{repeat}{pack}.b32",
        kind=f"tcgen05.{kind}",
        src_space="tmem" if load else "rmem",
        dst_space="rmem" if load else "tmem",
        bits=32 * each * repeat,
        unit_bits=16 if packed else 32,
        requires=_TARGETS,
        ptx_version=(8, 6),
        src_text=tile if load else registers,
        dst_text=registers if load else tile,
        alignment=0,
        element_bits=(16,) if packed else (32,),
        asynchronous=True,
        shape=shape,
        repeat=repeat,
        lanes=lanes,
        columns=columns,
        packed=packed,
    )


# Shape with its multicast to (rows, bits of a row, (row, copy) to lane).
_COPIES = {
    "128x256b": (128, 256, "(128,1):(1,0)"),
    "4x256b": (4, 256, "(4,1):(32,0)"),
    "128x128b": (128, 128, "(128,1):(1,0)"),
    "64x128b.warpx2::02_13": (64, 128, "(64,2):(1,64)"),
    "64x128b.warpx2::01_23": (64, 128, "((32,2),2):((1,64),32)"),
    "32x128b.warpx4": (32, 128, "(32,4):(1,32)"),
}
COPIES = tuple(_COPIES)


def copy_lanes(shape: str) -> Layout:
    """(row, copy) of what `tcgen05.cp` moves to its lane of tensor memory.

    >>> print(copy_lanes("32x128b.warpx4"))
    (32,4):(1,32)
    """
    from cutedialect.layout.text import parse_layout

    if shape not in _COPIES:
        raise ValueError(f"expected a shape of {', '.join(COPIES)}, got {shape!r}")
    return parse_layout(_COPIES[shape][2])


def _copy(shape: str, cta_group: int) -> TmemCopyAtom:
    rows, bits, _ = _COPIES[shape]
    words = bits // 32
    tile = f"(1,({rows},{words})):(0,(1,{rows}))"
    name = shape.replace(".", "_").replace("::", "_")
    return TmemCopyAtom(
        name=f"tcgen05_cp_cg{cta_group}_{name}",
        ptx=f"tcgen05.cp.cta_group::{cta_group}.{shape}",
        kind="tcgen05.cp",
        src_space="smem",
        dst_space="tmem",
        bits=rows * bits,
        unit_bits=32,
        requires=_TARGETS,
        ptx_version=(8, 6),
        src_text=tile,
        dst_text=tile,
        alignment=16,
        element_bits=(8, 16, 32),
        asynchronous=True,
        thr_text="1:0",
        shape=shape,
        lanes=rows,
        columns=words,
    )


def repeats(shape: str) -> tuple[int, ...]:
    """How often a shape may be repeated along the columns."""
    return tuple(1 << i for i in range(8) if 1 << i <= _SHAPES[shape][3])


@cache
def tmem_copies() -> tuple[TmemCopyAtom, ...]:
    """Every copy from and to tensor memory."""
    transfers = [
        _transfer(load, shape, repeat, packed)
        for load in (True, False)
        for shape in SHAPES
        for packed in (False, True)
        for repeat in repeats(shape)
    ]
    return (*transfers, *(_copy(shape, group) for group in (1, 2) for shape in COPIES))


def find_tmem_copy(load: bool, columns: int, shape: str = "32x32b") -> TmemCopyAtom:
    """The widest unpacked `ld` or `st` of a shape whose columns divide `columns`; `ValueError` when
    there is none.

    >>> find_tmem_copy(True, 96).name
    'tcgen05_ld_32x32b_x32'
    """
    if shape not in _SHAPES:
        raise ValueError(f"expected a shape of {', '.join(SHAPES)}, got {shape!r}")
    found = [_transfer(load, shape, repeat, False) for repeat in repeats(shape)]
    fitting = [atom for atom in found if columns % atom.columns == 0]
    if not fitting:
        raise ValueError(
            f"expected columns that are a multiple of {found[0].columns} for {shape}, got {columns}"
        )
    return fitting[-1]

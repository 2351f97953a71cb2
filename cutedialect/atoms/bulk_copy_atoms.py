"""Bulk copies as data: `cp.async.bulk`, the tensor copies of TMA, their reductions and prefetches.
One thread starts a copy of any number of 16-byte granules, and the layouts of an atom show one of
them; what a tensor copy moves is the box of its tensor map (tensor_map.py).
Source: PTX ISA 9.1, "Data Movement and Conversion: Bulk copy" and "Tensor copy".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from cutedialect.atoms.capability import GATHER4, INSTRUCTIONS
from cutedialect.atoms.copy_atoms import CopyAtom
from cutedialect.atoms.tensor_map import REDUCTIONS

GRANULE = 16
RANKS = (1, 2, 3, 4, 5)
_TX = "mbarrier::complete_tx::bytes"
# Copies of four rows of a matrix (PTX ISA 5.5.3.4): the dimensions of its map.
_ROWS_RANK, _ROWS_VERSION = 2, (8, 6)

# `cp.reduce.async.bulk` to global memory: operation to element types, in the spelling of PTX.
_BULK_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}


@dataclass(frozen=True)
class BulkCopyAtom(CopyAtom):
    """One copy that the asynchronous proxy carries out; `bits` is one granule.

    `rank` is that of the tensor map, 0 for a copy of consecutive bytes. `completion` is `mbarrier`
    (the bytes count on a barrier in shared memory), `bulk_group` (of the thread that started it) or
    empty for a prefetch. `takes_cache_hint` says whether `.L2::cache_hint` and a policy may follow.
    `dsmem` as a space is the shared memory of another CTA of the cluster, `l2` the cache.
    """

    rank: int = 0
    completion: str = ""
    operation: str = ""
    multicasts: bool = False
    takes_cache_hint: bool = True

    @property
    def threads(self) -> int:
        """The thread that starts the copy."""
        return 1


def _bulk(
    name: str,
    ptx: str,
    kind: str,
    spaces: tuple[str, str],
    completion: str = "",
    rank: int = 0,
    operation: str = "",
    multicasts: bool = False,
    takes_cache_hint: bool = True,
) -> BulkCopyAtom:
    text = f"(1,{GRANULE}):(0,1)"
    of_rows = kind == "tma_gather"
    return BulkCopyAtom(
        name=name,
        ptx=ptx,
        kind=kind,
        src_space=spaces[0],
        dst_space=spaces[1],
        bits=8 * GRANULE,
        unit_bits=8,
        requires=INSTRUCTIONS[GATHER4] if of_rows else "sm_90+",
        ptx_version=_ROWS_VERSION if of_rows else (8, 0),
        src_text=text,
        dst_text=text,
        # A box of a tensor copy starts at a multiple of 128 bytes of shared memory.
        alignment=128 if rank and "smem" in spaces else GRANULE,
        element_bits=(8, 16, 32, 64) if rank else (8, 16, 32, 64, 128),
        zero_fills=kind == "tma_load" or of_rows,
        asynchronous=True,
        thr_text="1:0",
        rank=rank,
        completion=completion,
        operation=operation,
        multicasts=multicasts,
        takes_cache_hint=takes_cache_hint,
    )


_LOAD, _STORE = ("gmem", "smem"), ("smem", "gmem")


def _consecutive() -> list[BulkCopyAtom]:
    """Copies of consecutive bytes."""
    head, reduce = "cp.async.bulk", "cp.reduce.async.bulk.global.shared::cta.bulk_group"
    load = f"{head}.shared::cluster.global.{_TX}"
    atoms = [
        _bulk("bulk_load", load, "bulk_load", _LOAD, "mbarrier"),
        _bulk(
            "bulk_load_multicast",
            f"{load}.multicast::cluster",
            "bulk_load",
            _LOAD,
            "mbarrier",
            multicasts=True,
        ),
        _bulk(
            "bulk_store",
            f"{head}.global.shared::cta.bulk_group",
            "bulk_store",
            _STORE,
            "bulk_group",
        ),
        _bulk(
            "bulk_send",
            f"{head}.shared::cluster.shared::cta.{_TX}",
            "bulk_send",
            ("smem", "dsmem"),
            "mbarrier",
            takes_cache_hint=False,
        ),
        _bulk(
            "bulk_prefetch",
            f"{head}.prefetch.L2.global",
            "bulk_prefetch",
            ("gmem", "l2"),
        ),
    ]
    for operation, types in _BULK_REDUCTIONS.items():
        for each in types:
            atoms.append(
                _bulk(
                    f"bulk_reduce_{operation}_{each.rpartition('.')[2]}",
                    f"{reduce}.{operation}.{each}",
                    "bulk_reduce",
                    _STORE,
                    "bulk_group",
                    operation=operation,
                )
            )
    return atoms


def _tensor(rank: int) -> list[BulkCopyAtom]:
    """Copies of a box of a tensor of `rank` dimensions."""
    head = f"cp.async.bulk.tensor.{rank}d"
    load = f"{head}.shared::cluster.global.tile.{_TX}"
    tail = "tile.bulk_group"
    rows = _bulk("tma_gather4", GATHER4, "tma_gather", _LOAD, "mbarrier", rank)
    return [
        _bulk(f"tma_load_{rank}d", load, "tma_load", _LOAD, "mbarrier", rank),
        *((rows,) if rank == _ROWS_RANK else ()),
        _bulk(
            f"tma_load_{rank}d_multicast",
            f"{load}.multicast::cluster",
            "tma_load",
            _LOAD,
            "mbarrier",
            rank,
            multicasts=True,
        ),
        _bulk(
            f"tma_store_{rank}d",
            f"{head}.global.shared::cta.{tail}",
            "tma_store",
            _STORE,
            "bulk_group",
            rank,
        ),
        *(
            _bulk(
                f"tma_reduce_{operation}_{rank}d",
                f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}.{tail}",
                "tma_reduce",
                _STORE,
                "bulk_group",
                rank,
                operation=operation,
            )
            for operation in REDUCTIONS
        ),
        _bulk(
            f"tma_prefetch_{rank}d",
            f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile",
            "tma_prefetch",
            ("gmem", "l2"),
            rank=rank,
        ),
    ]


@cache
def bulk_copies() -> tuple[BulkCopyAtom, ...]:
    """Every bulk copy of the registry."""
    return (*_consecutive(), *(atom for rank in RANKS for atom in _tensor(rank)))

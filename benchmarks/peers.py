"""Other kernel generators on the same case, where they are installed: Triton's matrix multiply as
its tutorial builds it, pyptx's Hopper GEMM, which is an example of its repository, and torch's
multiplies of groups.

A maker raises where the case is none that the peer is written for.
"""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .case import Call, Maker

if TYPE_CHECKING:
    from .gemm_case import Gemm, Products

# What the tiles and clusters of pyptx's kernel divide, in M, N and K.
_PYPTX_TILE = (256, 256, 64)
_PYPTX_EXAMPLE = "examples.hopper.gemm_highperf_hopper"


def peers_of(torch: Any, case: Gemm) -> dict[str, Maker]:
    """Name to maker of each peer that is installed."""
    known = {
        "Triton": ("triton", _triton),
        "pyptx": ("pyptx", _pyptx),
        "grouped_mm": ("torch", _grouped_mm),
    }
    return {
        name: lambda make=make: make(torch, case)
        for name, (package, make) in known.items()
        if importlib.util.find_spec(package) is not None
    }


def _triton(torch: Any, case: Gemm) -> Call:
    if case.batch > 1 or case.group:
        raise NotImplementedError("one product only")
    matmul = import_module("benchmarks.triton_matmul").matmul
    return lambda operands: matmul(operands.a, operands.b, operands.out)


def _pyptx(torch: Any, case: Gemm) -> Call:
    plain = case.dtype == "bf16" and case.majors == "TN" and case.batch == 1 and not case.group
    if not plain or any(
        extent % tile for extent, tile in zip(case.sizes, _PYPTX_TILE, strict=True)
    ):
        raise NotImplementedError("bf16 TN in multiples of 256x256x64 only")
    example = import_module(_PYPTX_EXAMPLE)
    m, n, _ = case.sizes
    tiles = example.create_hilbert_schedule(m // _PYPTX_TILE[0], n // _PYPTX_TILE[1])
    order = torch.tensor(tiles, device="cuda", dtype=torch.int32)

    def call(operands: Products) -> Any:
        # The kernel takes b as (N, K) and gives the transposed product in an array of its own.
        return example.gemm_warp_specialized(
            operands.a, operands.b.transpose(-1, -2), order
        ).transpose(-1, -2)

    return call


def _grouped_mm(torch: Any, case: Gemm) -> Call:
    """One launch for problems that share N and K: torch takes the rows of all in one array, where
    each problem's end, and an array of all b. Both are made before anything is timed.
    """
    shared = {sizes[1:] for sizes in case.group}
    if len(shared) != 1 or case.dtype != "bf16" or case.majors != "TN":
        raise NotImplementedError("groups of bf16 TN with one N and K only")
    multiply = torch._grouped_mm
    packed: dict[int, Any] = {}

    def call(operands: Products) -> Any:
        if id(operands) not in packed:
            rows = torch.tensor([len(a) for a in operands.a], device="cuda", dtype=torch.int32)
            b = torch.stack([each.transpose(0, 1) for each in operands.b]).transpose(-1, -2)
            # The key holds only while the operands live.
            packed[id(operands)] = (
                operands, torch.cat(operands.a), b, rows.cumsum(0).to(torch.int32),
            )  # fmt: skip
        _, a, b, ends = packed[id(operands)]
        return multiply(a, b, offs=ends).split([len(each) for each in operands.a])

    return call

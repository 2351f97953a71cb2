"""Who takes part in a case: cuBLAS through torch, `cute.gemm` under a schedule, and peers.

A contender is a function of one set of operands that queues one call on torch's current stream and
writes `out`, or returns an array of its own instead; it raises what its library raises when it
refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cases import Case
from .inputs import Operands

Call = Callable[[Operands], Any]
CUBLAS = "cuBLAS"
OURS = "cutedialect"


def cublas(torch: Any, case: Case) -> Call:
    """The product as torch computes it: a loop of calls for a grouped case."""
    if case.dtype == "tf32":
        torch.set_float32_matmul_precision("high")
    multiply = _products(torch)[
        case.dtype if case.dtype in ("e4m3", "s8") else "batched" if case.batch > 1 else "plain"
    ]

    def call(operands: Operands) -> None:
        for a, b, out in operands.products:
            multiply(a, b, out)

    return call


def _products(torch: Any) -> dict[str, Callable[[Any, Any, Any], object]]:
    one = torch.ones((), dtype=torch.float32, device="cuda")
    return {
        "plain": lambda a, b, out: torch.mm(a, b, out=out),
        "batched": lambda a, b, out: torch.bmm(a, b, out=out),
        "s8": lambda a, b, out: torch._int_mm(a, b, out=out),
        "e4m3": lambda a, b, out: torch._scaled_mm(
            a, b, one, one, out_dtype=out.dtype, use_fast_accum=True, out=out
        ),
    }


def ours(case: Case, schedule: str | None = None) -> Call:
    """`cute.gemm`, or `cute.grouped_gemm` for a grouped case."""
    import cutedialect as cute

    if case.group:
        grouped: Any = cute.grouped_gemm

        def call_grouped(operands: Operands) -> None:
            grouped(list(operands.a), list(operands.b), out=list(operands.out), schedule=schedule)

        return call_grouped

    def call(operands: Operands) -> None:
        cute.gemm(operands.a, operands.b, out=operands.out, schedule=schedule)

    return call


def make_contenders(
    torch: Any, case: Case, schedules: dict[str, str | None], *, peers: bool
) -> dict[str, Callable[[], Call]]:
    """Name to maker, cuBLAS first; a maker raises where its library is missing or refuses."""
    makers: dict[str, Callable[[], Call]] = {CUBLAS: lambda: cublas(torch, case)}
    for name, schedule in schedules.items():
        makers[name] = lambda schedule=schedule: ours(case, schedule)
    if peers:
        from .peers import peers_of

        makers.update(peers_of(torch, case))
    return makers

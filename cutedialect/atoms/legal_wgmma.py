"""Forms of `wgmma`: for every N the dense and the sparse product, A from shared memory or from
registers. Source: PTX ISA 9.1, "wgmma", confirmed with ptxas 13.
"""

from __future__ import annotations

from typing import NamedTuple

from cutedialect.atoms.forms import Form, parse_forms

_ON = "sm_90a"


class _Row(NamedTuple):
    """`k` of the dense product; immediates after scale-d: `scales` negate A and B, `transposes`
    give A and B the other major (A only when it is in shared memory)."""

    k: int
    d: str
    ab: str
    every_n: bool
    scales: bool
    transposes: bool


_FP8 = "<e4m3|e5m2>.<e4m3|e5m2>"
_ROWS = (
    _Row(16, "f16", "f16.f16", True, True, True),
    _Row(16, "f32", "f16.f16", True, True, True),
    _Row(16, "f32", "bf16.bf16", True, True, True),
    _Row(8, "f32", "tf32.tf32", True, True, False),
    _Row(32, "f16", _FP8, True, True, False),
    _Row(32, "f32", _FP8, True, True, False),
    _Row(32, "s32", "<s8|u8>.<s8|u8>", False, False, False),
    _Row(256, "s32", "b1.b1", False, False, False),
)
_EVERY_N = tuple(range(8, 257, 8))
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))

_GROUPS = """
wgmma.fence.sync.aligned ; ; sm_90a
wgmma.commit_group.sync.aligned ; ; sm_90a
wgmma.wait_group.sync.aligned ; i{0..2147483647} ; sm_90a
"""


def _of_row(row: _Row, n: int) -> list[Form]:
    registers = n // (4 if row.d == "f16" else 2)
    suffix = {"b1.b1": ".and.popc"}.get(row.ab, "")
    saturating = row.ab.startswith("<s8")
    forms: list[Form] = []
    for sparse in (False, True):
        if sparse and row.ab == "b1.b1":
            continue
        head = "wgmma.mma_async.sp" if sparse else "wgmma.mma_async"
        k = row.k * (2 if sparse else 1)
        stem = f"{head}.sync.aligned.m64n{n}k{k}"
        types = f"{row.d}.{row.ab}{suffix}"
        spellings = [f"{stem}.{types}"]
        if saturating:
            spellings += [f"{stem}.satfinite.{types}", f"{stem}.{types}.satfinite"]
        # Which pair of lanes of a quad supplies the metadata; 8-bit elements need all four.
        metadata = f"r i{{0..{1 if row.k < 32 else 0}}}" if sparse else ""
        scales = "i{-1,1} i{-1,1}" if row.scales else ""
        for a, transposes in (("r", "i{0,1} i{0,1}"), ("v4", "i{0,1}")):
            trans = transposes if row.transposes else ""
            operands = f"v{registers} {a} r {metadata} p{{0,1}} {scales} {trans}"
            forms += [Form(each, tuple(operands.split()), _ON) for each in spellings]
    return forms


def forms() -> list[Form]:
    """Every form of `wgmma`."""
    result = parse_forms(_GROUPS)
    for row in _ROWS:
        for n in _EVERY_N if row.every_n else _INTEGER_N:
            result += _of_row(row, n)
    return result

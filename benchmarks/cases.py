"""The problems of `benchmarks.gemm` and `benchmarks.attention` as data, with gates and goals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .attention_backward_case import AttentionBackward, backward_of
from .attention_case import Attention
from .attention_edits import Edited
from .case import Case
from .gemm_case import Gemm
from .streaming_case import Streaming

EXTRA = "extra"


def _cube(edge: int) -> tuple[int, int, int]:
    return (edge, edge, edge)


_SIZES = (
    (_cube(1024), True),
    (_cube(2048), True),
    (_cube(4096), True),
    (_cube(8192), True),
    (_cube(16384), False),
    ((4096, 14336, 4096), True),
    ((4096, 4096, 14336), True),
    ((8192, 1280, 8192), True),
    ((65536, 1024, 1024), True),
    ((2048, 2048, 16384), True),
    ((4095, 4097, 4104), False),
)
_UNEVEN = (
    (2048, 2048, 2048),
    (1024, 4096, 2048),
    (512, 4096, 4096),
    (3072, 1536, 2048),
    (256, 8192, 1024),
    (776, 2312, 4096),
    (1536, 1024, 8192),
    (128, 4096, 4096),
)

GEMMS: tuple[Gemm, ...] = (
    *[Gemm("main", "bf16", sizes, quick=quick) for sizes, quick in _SIZES],
    *[Gemm("main", "f16", sizes) for sizes, _ in _SIZES],
    Gemm("integers", "f16", _cube(4096), values="integers", gate=1.0, goal=1.03, quick=True),
    Gemm("integers", "f16", _cube(8192), values="integers", gate=1.1, goal=1.2, quick=True),
    *[
        Gemm("majors", "bf16", _cube(edge), majors, quick=edge == 4096)
        for edge in (4096, 8192)
        for majors in ("TT", "NT", "NN")
    ],
    *[
        Gemm("skinny", "bf16", (m, n, 4096), gate=1.0, goal=1.2, quick=n == 14336 and m != 64)
        for n in (14336, 4096)
        for m in (1, 16, 64, 128)
    ],
    *[
        Gemm("fp8", "e4m3", sizes, quick=quick)
        for sizes, quick in (
            (_cube(4096), False),
            (_cube(8192), True),
            ((4096, 14336, 4096), False),
        )
    ],
    Gemm("other", "s8", _cube(8192), gate=1.0, goal=1.1, quick=True),
    Gemm("other", "tf32", _cube(4096), gate=1.0, goal=1.1, quick=True),
    Gemm("other", "bf16", _cube(2048), batch=16, gate=1.0, goal=1.1, quick=True),
    Gemm("other", "bf16", group=_UNEVEN, gate=1.0, goal=1.1, quick=True),
)

# Extents that cuBLAS multiplies in 8 bits.
_UNEVEN_BYTES = tuple((m, n // 16 * 16, k) for m, n, k in _UNEVEN)
EXTRAS: tuple[Gemm, ...] = (
    *[
        Gemm(EXTRA, "e4m3", _cube(edge), sums=sums, gate=0.0)
        for sums in ("promoted", "blocks")
        for edge in (4096, 8192)
    ],
    *[
        Gemm(EXTRA, dtype, _cube(edge), majors, gate=0.0)
        for dtype, edge in (("e4m3", 4096), ("e4m3", 8192), ("s8", 8192))
        for majors in ("TT", "NT", "NN")
    ],
    *[
        Gemm(EXTRA, "bf16", _cube(4096), majors, align=align, gate=0.0)
        for align in (8, 4, 2)
        for majors in ("TN", "TT")
    ],
    Gemm(EXTRA, "e4m3", group=_UNEVEN_BYTES, gate=0.0),
)
"""Rows without a gate, which no table has unless it is asked for them."""


# In all problems but those of `gqa` and `decode` as many tokens, and heads times depth.
_TOKENS, _WIDTH = 16384, 2048


def _square(
    section: str, length: int, depth: int, heads: tuple[int, int] | None = None, **more: Any
) -> Attention:
    """As many rows as keys, and as many sequences as make the usual number of tokens."""
    many = heads or (_WIDTH // depth, _WIDTH // depth)
    return Attention(
        section, more.pop("dtype", "bf16"), batch=_TOKENS // length, heads=many, rows=length,
        keys=length, depth=depth, **more,
    )  # fmt: skip


_LENGTHS = (1024, 2048, 4096, 8192, 16384)
# (batch, heads, rows, head dimension, causal)
_SHORT = (
    (16, 16, 128, 64, True),
    (16, 16, 256, 64, False),
    (4, 16, 512, 64, False),
    (1, 16, 1024, 64, False),
    (16, 16, 512, 256, True),
)
_PACKED = (4096, 64, 777, 2600, 512, 1024, 96, 1536, 385, 640, 160, 1984, 257, 896, 1277, 80)

ATTENTIONS: tuple[Attention, ...] = (
    *[
        _square("d128 full", length, 128, gate=0.95, goal=1.05, quick=length in (1024, 4096, 16384))
        for length in _LENGTHS
    ],
    *[
        _square("d128 causal", length, 128, causal=True, gate=0.95, goal=1.08,
                quick=length in (1024, 4096, 16384))
        for length in _LENGTHS
    ],
    *[
        _square(f"d64 {name}", length, 64, causal=name == "causal", gate=0.95, goal=1.08,
                quick=length in (1024, 8192))
        for name in ("full", "causal")
        for length in (512, *_LENGTHS)
    ],
    *[
        _square("d256", length, 256, causal=causal, gate=0.93, goal=1.0, quick=length == 4096)
        for causal in (False, True)
        for length in (4096, 16384)
    ],
    *[
        _square("gqa", length, 128, (32, 8), causal=True, gate=0.97, goal=1.05,
                quick=length == 4096)
        for length in (4096, 8192)
    ],
    *[
        Attention("short", "bf16", batch=batch, heads=(heads, heads), rows=rows, keys=rows,
                  depth=depth, causal=causal, label=f"batch {batch}", gate=1.0, goal=1.2,
                  quick=rows == 256)
        for batch, heads, rows, depth, causal in _SHORT
    ],
    _square("window", 16384, 128, causal=True, window=1024, gate=1.0, goal=1.2, quick=True),
    _square("own window", 16384, 128, causal=True, window=1024, of_ours=True, gate=0.8, goal=0.9,
            quick=True),
    *[
        Attention("packed", "bf16", packed=_PACKED, causal=causal, gate=0.9, goal=0.97,
                  quick=not causal)
        for causal in (False, True)
    ],
    *[
        Attention("decode", "bf16", batch=16, heads=(32, 8), rows=1, keys=keys, page=page,
                  gate=0.7, goal=0.88, quick=keys == 8192 and page != 16)
        for keys in (8192, 65536)
        for page in (0, 16, 64)
    ],
    *[
        Edited("edited", "bf16", batch=4, heads=(_WIDTH // depth, _WIDTH // depth), rows=4096,
               keys=4096, depth=depth, causal=True, edit=edit, gate=0.95, goal=1.0,
               way="exact" if (depth, edit) == (128, "alibi") else "guessed", quick=depth == 128)
        for depth in (64, 128)
        for edit in ("alibi", "documents")
    ],
    *[
        Edited("edited", "bf16", batch=4, heads=(_WIDTH // tile[2], _WIDTH // tile[2]), rows=4096,
               keys=4096, depth=tile[2], causal=True, tile=tile[:2], gate=0.95, goal=1.0)
        for tile in ((192, 96, 64), (128, 128, 128))
    ],
    *[
        _square("e4m3", length, 128, dtype="e4m3", gate=1.3, goal=1.5, quick=length == 4096)
        for length in (4096, 16384)
    ],
)  # fmt: skip

# (length, head dimension, causal, gate, goal)
_BACKWARD = (
    (4096, 128, False, 1.12, 1.25),
    (4096, 128, True, 1.15, 1.25),
    (16384, 128, False, 1.17, 1.25),
    (16384, 128, True, 1.03, 1.15),
    (4096, 64, True, 1.25, 1.35),
    (16384, 64, False, 1.18, 1.35),
    (4096, 256, True, 1.0, 1.15),
    (512, 128, True, 1.05, 1.3),
    (1024, 128, True, 1.05, 1.3),
)
BACKWARDS: tuple[AttentionBackward, ...] = (
    *[
        backward_of(_square("backward", length, depth, causal=causal, gate=gate, goal=goal,
                            quick=length != 16384))
        for length, depth, causal, gate, goal in _BACKWARD
    ],
    backward_of(_square("backward", 4096, 128, causal=True, gate=0.85, goal=0.95, quick=True),
                deterministic=True),
)  # fmt: skip

CASES: tuple[Case, ...] = (*GEMMS, *ATTENTIONS, *BACKWARDS)


def select(only: str | None = None, *, kind: str = "", quick: bool = False) -> tuple[Case, ...]:
    """The cases of a kind (all, if empty) whose name, or `section name` with or without the kind
    before it, matches a regular expression. Those of the section `extra` are chosen by
    what matches that word as well: `extra`, or `extra .* TT`.

    Raises ValueError for a bad expression and for one that nothing matches.
    """
    try:
        pattern = re.compile(only or "")
    except re.error as error:
        raise ValueError(f"expected a regular expression, got '{only}': {error}") from None
    among = [case for case in CASES if kind in ("", case.kind) and (case.quick or not quick)]
    chosen = tuple(case for case in among if any(map(pattern.search, _titles(case))))
    if only:
        chosen += tuple(
            case
            for case in EXTRAS
            if kind in ("", case.kind)
            and any(
                found.start() == 0 and found.end() >= len(EXTRA)
                for found in pattern.finditer(_titles(case)[0])
            )
        )
    if not chosen:
        listed = (*among, *(case for case in EXTRAS if kind in ("", case.kind)))
        names = "\n  ".join(f"{case.section}: {case.name}" for case in listed)
        raise ValueError(f"expected to match a case, got '{only}'; the cases are\n  {names}")
    return chosen


def _titles(case: Case) -> tuple[str, str]:
    title = f"{case.section} {case.name}"
    return title, f"{case.kind} {title}"


def named(name: str) -> Case:
    """The case of that name."""
    return next(case for case in (*CASES, *EXTRAS) if case.name == name)


def described(case: Case) -> str | dict[str, Any]:
    """A case as a request names it: a listed one by its name, a drawn one by its fields."""
    if any(case is other for other in (*CASES, *EXTRAS)):
        return case.name
    assert isinstance(case, Gemm | Streaming | Attention)
    return asdict(case) | {"kind": case.kind}


def case_of(description: str | Mapping[str, Any]) -> Case:
    """The inverse of `described`, also after JSON made lists of tuples."""
    if isinstance(description, str):
        return named(description)
    kind = {each.kind: each for each in (Gemm, Streaming, Attention, AttentionBackward)}[
        description["kind"]
    ]
    fields = {name: _hashable(value) for name, value in description.items() if name != "kind"}
    return kind(**fields)


def _hashable(value: Any) -> Any:
    """Lists as tuples."""
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value

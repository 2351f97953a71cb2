"""Small matrix multiplies that together reach every way `cute.gemm` can go on sm_90a: as data, as
arrays on the host, and as one call on any backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import cutedialect as cute
from cutedialect.choosing.choose import choose
from cutedialect.choosing.gemm_problem import Problem as CostProblem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE, gemm_schedules

from .probe import Place, Probe

TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
_WIDTHS = {16: ("bf16", "f16"), 8: ("e4m3", "s8"), 32: ("tf32",)}
_OUT = {"e4m3": "bf16", "e5m2": "bf16", "s8": "s32", "u8": "s32"}
_HOST = {**TYPES, "s32": np.int32}
# Units in the last place by which approximated functions may differ between backends.
_ACTIVATION_ULPS = 2
_ACTIVATIONS = {"relu", "gelu", "silu"}


@dataclass(frozen=True)
class Problem:
    """Arrays of one call: positional and keyword arguments of `cute.gemm`, and the exact result
    (float64; None where an activation makes it no simple sum).
    """

    a: Any
    b: Any
    out: Any
    options: dict[str, Any] = field(default_factory=dict)
    exact: Any = None


@dataclass(frozen=True)
class GemmProbe(Probe):
    """`pads` are elements by which the rows of A, B and D are longer and begin later; `epilogue`
    names what follows the product. The outputs have to be equal bit for bit on all backends, but
    for activations, whose approximations the hardware does not specify.
    """

    sizes: tuple[int, int, int]
    dtype: str = "bf16"
    majors: str = "TN"
    schedule: str | None = None
    pads: tuple[int, int, int] = (0, 0, 0)
    values: str = "normal"
    epilogue: tuple[str, ...] = ()
    group: tuple[tuple[int, int, int], ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the result has to be that of exact arithmetic, rounded once."""
        return self.values == "integers" and not self.epilogue

    def make(self, place: Place, seed: int = 0) -> list[Problem]:
        rng = np.random.default_rng(seed)
        return [_problem(self, sizes, place, rng) for sizes in self.group or (self.sizes,)]

    def run(self, given: list[Problem], backend: str) -> list[Any]:
        """Every output, an auxiliary one behind its own."""
        common: dict[str, Any] = {"arch": "sm_90a", "backend": backend, "schedule": self.schedule}
        if self.group:
            cute.grouped_gemm(
                [each.a for each in given], [each.b for each in given],
                out=[each.out for each in given], **common,
            )  # fmt: skip
            return [each.out for each in given]
        (problem,) = given
        cute.gemm(problem.a, problem.b, out=problem.out, **problem.options, **common)
        aux = problem.options.get("aux")
        return [problem.out] if aux is None else [problem.out, aux]

    def wrong(self, given: list[Problem], outputs: list[np.ndarray]) -> str | None:
        for output, wanted in zip(outputs, (each.exact for each in given), strict=False):
            if wanted is None or not output.size:
                continue
            if self.is_exact:
                if not np.array_equal(output, wanted.astype(output.dtype)):
                    return "expected exact sums, got others"
                continue
            error = np.abs(output.astype(np.float64) - wanted).max()
            # Half a unit of the output for rounding, as much for the sums of operands of few bits.
            unit = float(ml_dtypes.finfo(output.dtype).eps) if output.dtype.kind != "i" else 0.0
            operand = 2.0**-10 if self.dtype == "tf32" else 2.0**-12 if "e" in self.dtype[:1] else 0
            allowed = np.abs(wanted).max() * (unit + operand) + 1e-5
            if error > allowed:
                return (
                    f"expected an error of at most {allowed:.3g} against float64, got {error:.3g}"
                )
        return None

    def apart(self, outputs: list[np.ndarray], others: list[np.ndarray]) -> str | None:
        furthest = max((_ulps(x, y) for x, y in zip(outputs, others, strict=True)), default=0)
        allowed = _ACTIVATION_ULPS if _ACTIVATIONS & set(self.epilogue) else 0
        if furthest <= allowed:
            return None
        return f"expected the emulator's result, got one {furthest} units apart"


def gemm_probes() -> list[Probe]:
    """All of them; the names are unique."""
    found: list[Probe] = [
        GemmProbe(f"{dtype} {schedule.text()}", _beyond(schedule), dtype, schedule=schedule.text(),
              values="integers")
        for bits, dtypes in _WIDTHS.items()
        for schedule in gemm_schedules(bits)
        for dtype in dtypes
    ]  # fmt: skip
    sizes = ((200, 312, 136), (1, 8, 64), (129, 65, 1000), (384, 264, 64))
    # The emulator rounds sums of mma.sync once, the hardware more often: exact ones are the same.
    found += [
        GemmProbe(f"{dtype} {majors} {m}x{n}x{k}", (m, n, k), dtype, majors,
              values="integers" if dtype == "tf32" and majors != "TN" else "normal")
        for dtype in TYPES
        for majors in ("TN", "NT", "TT", "NN")
        for m, n, k in sizes
    ]  # fmt: skip
    for majors in ("NT", "TT", "NN"):
        # What large problems of bytes get, whose operands warps transpose in shared memory.
        across = (majors[0] == "N", majors[1] == "T")
        large = choose(GEMM_SPACE, (CostProblem(4096, 4096, 4096, 1, 8, 16, transposed=across),))
        found += [
            GemmProbe(f"{dtype} {majors} {large.text()}", _beyond(large), dtype, majors,
                      schedule=large.text(), values="integers")
            for dtype in _WIDTHS[8]
        ]  # fmt: skip
    found += [
        GemmProbe(f"pads {a} {b} {d} {dtype}", (150, 140, 264), dtype, pads=(a, b, d))
        for dtype in ("bf16", "e4m3", "tf32")
        for a, b, d in ((0, 0, 1), (1, 0, 0), (0, 2, 0), (4, 2, 0), (2, 4, 3), (1, 1, 1))
    ]
    epilogues = (
        ("alpha",), ("bias",), ("c",), ("bias", "relu"), ("alpha", "c", "bias", "gelu"),
        ("silu",), ("bias", "aux", "gelu"), ("rows", "columns"),
    )  # fmt: skip
    found += [
        GemmProbe(f"{dtype} {' '.join(parts)}", (300, 264, 200), dtype, epilogue=parts)
        for dtype in ("bf16", "e4m3")
        for parts in epilogues
    ]
    found += [
        GemmProbe("e4m3 blocks of 128", (300, 256, 512), "e4m3", epilogue=("blocks",)),
        GemmProbe("e4m3 promoted", (300, 264, 520), "e4m3", epilogue=("promoted",)),
        GemmProbe("K = 0", (130, 70, 0)),
        GemmProbe("no rows", (0, 70, 64)),
        GemmProbe("groups", (0, 0, 0), group=((256, 512, 128), (1, 64, 520), (300, 136, 0),
                                          (0, 8, 8), (77, 264, 1000))),
    ]  # fmt: skip
    return found


def _beyond(schedule: cute.Schedule) -> tuple[int, int, int]:
    """A bit more than a cluster's tiles, and more steps than a ring has stages."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    (rows, columns, depth), (across, along) = schedule.tile, schedule.cluster
    m, n = rows * across + 8, columns * along + 8
    return (n, m, 9 * depth + 16) if schedule.swap_ab == "yes" else (m, n, 9 * depth + 16)


def _problem(probe: GemmProbe, sizes: tuple[int, int, int], place: Place, rng: Any) -> Problem:
    (m, n, k), kind = sizes, TYPES[probe.dtype]
    a, a_host = _operand(rng, probe, (m, k), kind, probe.majors[0] == "T", probe.pads[0], place)
    b, b_host = _operand(rng, probe, (k, n), kind, probe.majors[1] == "T", probe.pads[1], place)
    out_kind = _HOST[_OUT.get(probe.dtype, probe.dtype)]
    out = place(_padded(np.zeros((m, n), out_kind), probe.pads[2]))
    exact = a_host.astype(np.float64) @ b_host.astype(np.float64)
    options, exact = _options(probe.epilogue, (m, n, k), out_kind, exact, place, rng)
    return Problem(a, b, out, options, exact)


def _options(
    parts: Sequence[str], sizes: tuple[int, int, int], kind: Any, exact: Any, place: Any, rng: Any
) -> tuple[dict[str, Any], Any]:
    """Keyword arguments of an epilogue, and the exact result with it."""
    m, n, k = sizes
    options: dict[str, Any] = {}
    for part in parts:
        if part == "alpha":
            options["alpha"] = 0.375
            exact = exact * 0.375
        elif part == "c":
            c = rng.integers(-4, 5, (m, n)).astype(kind)
            options |= {"c": place(c), "beta": -1.5}
            exact = exact - 1.5 * c.astype(np.float64)
        elif part == "bias":
            bias = rng.integers(-4, 5, n).astype(kind)
            options["bias"] = place(bias)
            exact = exact + bias.astype(np.float64)
        elif part == "aux":
            options["aux"] = place(np.zeros((m, n), kind))
        elif part in ("rows", "columns"):
            scale = rng.uniform(0.5, 2, m if part == "rows" else n).astype(np.float32)
            options["scale_a" if part == "rows" else "scale_b"] = place(scale)
            scale64 = scale.astype(np.float64)
            exact = exact * (scale64[:, None] if part == "rows" else scale64)
        elif part == "blocks":
            blocks = -(-k // 128)
            options["scale_a"] = place(rng.uniform(0.5, 2, (m, blocks)).astype(np.float32))
            options["scale_b"] = place(
                rng.uniform(0.5, 2, (blocks, -(-n // 128))).astype(np.float32)
            )
            exact = None
        elif part == "promoted":
            options["fast_accum"] = False
        else:
            options["activation"] = part
            exact = None
    return options, exact


def _operand(
    rng: Any, probe: GemmProbe, shape: tuple[int, int], kind: Any, rows: bool, pad: int, place: Any
) -> tuple[Any, Any]:
    """A random matrix with contiguous rows, or columns: where `place` puts it, and on the host."""
    stored = shape if rows else shape[::-1]
    if probe.values == "integers" or np.dtype(kind).kind in "iu":
        low = 0 if np.dtype(kind).kind == "u" else -2
        values = rng.integers(low, 3, stored).astype(kind)
    else:
        values = rng.standard_normal(stored).astype(np.float32).astype(kind)
    host = _padded(values, pad)
    placed = place(host)
    return (placed, host) if rows else (placed.T, host.T)


def _padded(values: np.ndarray, pad: int) -> np.ndarray:
    """The same values in rows that are `pad` elements longer, and begin so many later."""
    if not pad:
        return values
    rows, columns = values.shape
    pitch = columns + pad
    storage = np.zeros(rows * pitch + pad, values.dtype)
    view = np.lib.stride_tricks.as_strided(
        storage[pad:], values.shape, (pitch * values.itemsize, values.itemsize)
    )
    view[...] = values
    return view


def _ulps(left: np.ndarray, right: np.ndarray) -> int:
    """The largest distance in representable numbers."""
    if not left.size:
        return 0
    kind = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[left.dtype.itemsize]
    x, y = (np.ascontiguousarray(each).view(kind).astype(np.int64) for each in (left, right))
    if left.dtype.kind not in "iu":
        lowest = -(2 ** (8 * left.dtype.itemsize - 1))
        x, y = (np.where(each < 0, lowest - each, each) for each in (x, y))
    return int(np.abs(x - y).max())

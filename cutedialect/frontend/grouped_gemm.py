"""`cute.grouped_gemm`: several matrix multiplies of different sizes in one call.

Every argument that is an array in `cute.gemm` is a list with one entry for each problem here; all
problems share types and options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cutedialect.schedule import Schedule

from .gemm import gemm


def grouped_gemm(
    as_: Sequence[Any],
    bs: Sequence[Any],
    *,
    c: Sequence[Any] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Sequence[Any] | None = None,
    activation: str | Callable[..., Any] | None = None,
    acc_dtype: object = None,
    out: Sequence[Any] | None = None,
    out_dtype: object = None,
    arch: str | None = None,
    schedule: Schedule | str | None = None,
    backend: str = "auto",
    stream: Any = None,
) -> list[Any]:
    """activation(alpha A B + beta C + bias) for each a (M, K) of `as_` and b (K, N) of `bs`.

    Sizes differ freely from problem to problem; `c`, `bias` and `out` are lists as long as `as_`
    or None. The other options are those of `cute.gemm`. Wrong arguments raise TypeError or
    ValueError naming the argument, as in `bs[3]`. Returns the outputs in order: the arrays of
    `out`, or new ones where the `as_` live.
    """
    problems = _problems(as_, bs, c, bias, out)
    results: list[Any] = []
    for number, (a, b, addend, vector, target) in enumerate(problems):
        try:
            result = gemm(
                a,
                b,
                c=addend,
                alpha=alpha,
                beta=beta,
                bias=vector,
                activation=activation,
                acc_dtype=acc_dtype,
                out=target,
                out_dtype=out_dtype,
                arch=arch,
                schedule=schedule,
                backend=backend,
                stream=stream,
            )
        except (TypeError, ValueError) as error:
            raise _of_problem(error, number) from None
        results.append(result)
    return results


# What `cute.gemm` calls its arrays, to what they are here.
_LISTS = {"a": "as_", "b": "bs", "c": "c", "bias": "bias", "out": "out"}


def _of_problem(error: TypeError | ValueError, number: int) -> TypeError | ValueError:
    """The error of one problem, its argument named as here: `b: ...` is `bs[2]: ...`."""
    name, colon, rest = str(error).partition(":")
    if not colon or name not in _LISTS:
        return error
    return type(error)(f"{_LISTS[name]}[{number}]:{rest}")


def _problems(
    as_: Sequence[Any], bs: Sequence[Any], *others: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    """The arrays of each problem: a, b, c, bias, out."""
    given = dict(zip(_LISTS.values(), (as_, bs, *others), strict=True))
    for name, values in given.items():
        required = name in ("as_", "bs")
        if values is None and not required:
            continue
        if not isinstance(values, list | tuple):
            raise TypeError(f"{name}: expected a list of arrays, got {type(values).__name__}")
        if len(values) != len(as_):
            raise ValueError(f"{name}: expected {len(as_)} arrays as in as_, got {len(values)}")
    columns = [(None,) * len(as_) if values is None else values for values in given.values()]
    return list(zip(*columns, strict=True))

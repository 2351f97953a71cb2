"""The space of programs of attention: the facts of a call from the arguments of its program, by the
names that `library/attention.py` gives them, and the values of its parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from cutedialect.choosing.attention_parameters import open_parameters
from cutedialect.choosing.attention_problem import (
    RULES,
    WARPGROUP_TARGETS,
    WIDE,
    AttentionFacts,
    AttentionProblem,
)
from cutedialect.choosing.attention_space import ATTENTION
from cutedialect.schedule import Schedule

from .attention_splits import processors_of
from .attention_variants import tuned_schedules
from .declared_spaces import DeclaredSpace
from .dtypes import f16
from .kernel import TensorSpec
from .launch import spec_of
from .rules import Operand, as_operand

# Columns that two warpgroups share, each whole lines of shared memory, and those of 16 bits of a
# span of the widest swizzle.
_WIDE_UNIT, _SPAN = 128, 64
# Bytes that divide the strides of what TMA copies, and of what asynchronous copies do.
_BOX_ALIGN, _WORD_BYTES = 16, 4
Shape = tuple[int | None, ...]
# Facts on which no kernel depends beside its schedule, and those of a kernel that follow from them.
_OPEN = ("rows", "keys", "sequences", "processors", "sees", "arch")
_FOLLOWING = ("has_many_keys", "sums_few")
# Modes of an argument whose heads share no keys.
_RANK = 4
_NEEDED = ("Q", "K", "V", "out", "lse", "cap", "left", "right", "lengths", "items", "table")


def problem_of(named: Mapping[str, Any], arch: str, backend: str) -> AttentionProblem:
    """The facts of a call, from its arguments and given parameters by name. Raises TypeError for a
    program without the arguments that they follow from.
    """
    missing = [name for name in _NEEDED if name not in named]
    if missing:
        raise TypeError(
            "expected a program of the space 'attention' with the arguments of "
            f"library/attention.py, got none of the name {missing[0]}"
        )
    q, k, out = (as_operand(named[name], name) for name in ("Q", "K", "out"))
    v = k if named["V"] is None else as_operand(named["V"], "V")
    width = out.shape[-1]
    left, right, returns_lse = named["left"], named["right"], named["lse"] is not None
    is_packed, is_paged = named["items"] is not None, named["table"] is not None
    is_sliced = is_packed or is_paged or named["lengths"] is not None
    # Rows that are brought together first: no keys of theirs have a mode of the group.
    gathers = len(q.shape) > len(k.shape)
    scales_keys = _has_scaled_keys(named, k)
    loads_boxes = all(map(is_boxes, (q, k, v))) and not (is_paged and scales_keys)
    given = named.get("dims")
    dims = dims_of(q, width, arch, v is k, loads_boxes) if given is None else given
    count, rows, keys = _lengths(named, q.shape[:1], q.shape[2 if gathers else -2 : -1], k)
    return AttentionProblem(
        dims,
        rows=rows,
        keys=keys,
        bits=k.dtype.bits,
        loads_boxes=loads_boxes and not gathers,
        is_uneven=is_sliced or left is not None or right is not None,
        keeps_more=is_sliced or left is not None or returns_lse,
        is_paged=is_paged,
        bits_q=q.dtype.bits,
        is_sliced=is_sliced,
        is_packed=is_packed,
        group=_group(q, rows, named.get("queries")),
        has_window=left is not None,
        stores_boxes=is_boxes(out),
        bits_out=out.dtype.bits,
        is_capped=named["cap"] is not None,
        is_f16=q.dtype == f16,
        returns_lse=returns_lse,
        is_latent=named["V"] is None,
        sequences=_product((count, *q.shape[1 : 2 if gathers else -2])),
        processors=processors_of(arch, backend),
        is_padded=dims != (q.shape[-1], width),
        sees=_sees(left, right),
        is_shifted=any(_alignment(each) < _WORD_BYTES for each in (q, k, v)),
        is_integer=k.dtype.kind != "f",
        scales_keys=scales_keys,
        arch=arch,
    )


def _has_scaled_keys(named: Mapping[str, Any], k: Operand) -> bool:
    """Whether keys have scales of their own: in pages these come by other copies."""
    return any(
        len(as_operand(named[name], name).shape) == len(k.shape) - 1
        for name in ("scale_k", "scale_v")
        if named.get(name) is not None
    )


def _lengths(
    named: Mapping[str, Any], batch: Shape, rows_along: Shape, k: Operand
) -> tuple[int | None, int | None, int | None]:
    """How many sequences a head has, the rows of one, and its keys: those of packed sequences are
    a mean, and not known.
    """
    rows = _product(rows_along)
    if named["items"] is not None:
        ends = as_operand(named["q_offsets"], "q_offsets").shape[0]
        if ends is None or rows is None:
            return None if ends is None else ends - 1, None, None
        return ends - 1, -(-rows // max(1, ends - 1)), None
    if named["table"] is None:
        return batch[0], rows, k.shape[-2]
    pages = as_operand(named["table"], "table").shape[1]
    return batch[0], rows, _product((pages, k.shape[-2]))


def _product(extents: Iterable[int | None]) -> int | None:
    """None where an extent is not known."""
    listed = list(extents)
    known = [extent for extent in listed if extent is not None]
    return prod(known) if len(known) == len(listed) else None


def _group(q: Operand, rows: int | None, queries: object) -> int:
    """Heads that share keys: a mode of their own, or the rows of one, of `queries` each."""
    if len(q.shape) > _RANK:
        return q.shape[2] or 1
    if rows is None or not hasattr(queries, "__index__"):
        return 1
    return rows // int(queries)  # pyright: ignore[reportArgumentType]


def _sees(left: object, right: object) -> int | None:
    """The keys of a window; None where its sides are not known."""
    if not (hasattr(left, "__index__") and hasattr(right, "__index__")):
        return None
    return int(left) + int(right) + 1  # pyright: ignore[reportArgumentType]


def dims_of(
    q: Operand, width: int | None, arch: str, is_latent: bool, loads_boxes: bool
) -> tuple[int, int]:
    """The head dimensions as tiles have them; `width` is that of values."""
    takes_boxes = arch in WARPGROUP_TARGETS and loads_boxes
    depth, columns = (
        tile_columns(each or 0, q.dtype.bits, takes_boxes) for each in (q.shape[-1], width)
    )
    if max(depth, columns) <= WIDE:
        return depth, columns
    columns = -(-columns // _WIDE_UNIT) * _WIDE_UNIT
    # So wide that they hold values which are columns of keys.
    least = columns if is_latent else 0
    return max(least, -(-depth // (_WIDE_UNIT // 2)) * (_WIDE_UNIT // 2)), columns


def tile_columns(depth: int, bits: int, on_groups: bool) -> int:
    """The columns of a tile for a head dimension, a multiple of what a multiply takes: boxes of 64
    columns of 16 bits, which warpgroups load, come faster than those of 48, zeros included.
    """
    unit = 256 // bits
    columns = -(-depth // unit) * unit
    return _SPAN if on_groups and bits == 16 and _SPAN // 2 < columns < _SPAN else columns


def is_boxes(operand: Operand) -> bool:
    """Whether TMA takes boxes of an argument; an array without elements may have any strides."""
    spec = spec_of(operand.value, operand.name)
    has_rows = isinstance(spec, TensorSpec) and spec.contiguous == len(spec.shape) - 1
    return has_rows and _alignment(operand) == _BOX_ALIGN


def _alignment(operand: Operand) -> int:
    """Bytes that divide an argument's address and strides."""
    spec = spec_of(operand.value, operand.name)
    return spec.align if isinstance(spec, TensorSpec) else _BOX_ALIGN


def kernel_class(problem: AttentionFacts) -> str:
    """All of a problem that a kernel depends on beside its schedule, readable."""
    facts = {name: value for name, value in vars(problem).items() if name not in _OPEN}
    if isinstance(problem, AttentionProblem):
        facts |= {name: getattr(RULES, name).first(problem) for name in _FOLLOWING}
    else:
        # How many heads share keys is told at run time.
        facts |= {"group": 0, "shares": problem.shares}
    return ", ".join(
        name if value is True else f"{name} {value}" for name, value in facts.items() if value
    )


def _parameters(problem: AttentionProblem, schedule: Schedule) -> dict[str, object]:
    return open_parameters(problem, schedule) | {"dims": problem.dims}


SPACE = DeclaredSpace(ATTENTION, problem_of, kernel_class, _parameters, tuned_schedules)

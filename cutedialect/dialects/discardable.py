"""Discardable attributes: what a pass, or whoever edits a stage, notes on an op for later passes,
beside the op's own attributes. The table says which ops of ours, and loops and branches, have which;
they read no other one, unless its name has the prefix of a dialect that is not ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation
from xdsl.irdl import AttrSizedSegments, IRDLOperation

BOUNDED = "bounded"
"""On `math.exp2`: x is less than 127, and a NaN may give infinity."""
LOST = "lost"
"""On a bounded `math.exp2`: a NaN may give 0, since the caller tells such rows by another value, and
an absolute error of 2^-16 in x does not matter.
"""

_OURS = ("cute", "cute_nvgpu", "pipeline", "ptx")
_SCHEDULED = ("cute", "cute_nvgpu", "pipeline", "scf")
# The name of each, and the ops that have it: by their own names, or all of a dialect.
_HOLDERS = {
    "ahead": ("cute.stage",),
    "atom": ("cute.load",),
    "crowded": ("scf.for",),
    "cute.arch": ("cute.kernel",),
    "few_trips": ("scf.for",),
    "fills": _SCHEDULED,
    "from": ("ptx",),
    "guard": ("cute.local_tile", "cute.indexed_tile", "cute.slice"),
    "in_bounds": ("cute.kernel",),
    "in_place": ("cute.kernel",),
    "one_stage": ("cute.alloc_smem",),
    "operand": ("cute.alloc_smem",),
    "position": _SCHEDULED,
    "pair": ("cute.alloc_smem",),
    "reads": _SCHEDULED,
    "reads_earlier": _SCHEDULED,
    "reads_early": _SCHEDULED,
    "reduce": ("cute.copy",),
    "role": _SCHEDULED,
    "roles": ("cute.kernel",),
    "scratch": ("cute.alloc_smem",),
    "stage": _SCHEDULED,
    "tiled": ("cute.local_tile",),
    "turns": ("scf.for",),
    "work_items": ("scf.for", "scf.while"),
}


def unknown_attribute(op: Operation) -> str | None:
    """The name of the first attribute of an op that nothing reads, or None."""
    if not op.attributes or op.dialect_name() not in (*_OURS, "scf"):
        return None
    own = op.get_irdl_definition().attributes if isinstance(op, IRDLOperation) else {}
    for name in op.attributes:
        prefix, dot, _ = name.partition(".")
        is_foreign = dot and prefix not in _OURS
        if not (is_foreign or name in own or _may_have(op, name)):
            return name
    return None


def known_attributes(op: Operation) -> Iterator[str]:
    """The names of the attributes that an op may have: its own ones, then those of passes."""
    if isinstance(op, IRDLOperation):
        definition = op.get_irdl_definition()
        sizes = [
            each.attribute_name
            for each in definition.options
            if isinstance(each, AttrSizedSegments)
        ]
        own = (*definition.properties, *definition.attributes)
        yield from (name for name in own if name not in sizes)
    yield from (name for name in _HOLDERS if _may_have(op, name))


def _may_have(op: Operation, name: str) -> bool:
    holders = _HOLDERS.get(name, ())
    return op.name in holders or op.dialect_name() in holders

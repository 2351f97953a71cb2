"""Ops of the package's dialects are made, and their fields read, as xDSL's own classes do it."""

from random import Random

import pytest
import xdsl.irdl
from xdsl.dialects import test as generic
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, f32, i32
from xdsl.ir import Region
from xdsl.irdl import AttrSizedSegments, OptionalDef, VariadicDef
from xdsl.irdl.operations import get_accessors_from_op_def

from cutedialect.dialects import all_dialects
from cutedialect.dialects.definition import IRDLOperation, created

OURS = [
    op
    for name, load in all_dialects().items()
    if name in ("cute", "cute_nvgpu", "pipeline", "ptx", "gpu")
    for op in load().operations
    if issubclass(op, IRDLOperation)
]


def values(count):
    return list(generic.TestOp(result_types=[i32] * count).results)


def drawn(rng, definition, make):
    """One argument of a constructor: what the definition allows, now and then what it does not."""
    many = isinstance(definition, VariadicDef)
    if isinstance(definition, OptionalDef):
        kinds = [None, make(1)[0], make(1), []]
    elif many:
        kinds = [make(1)[0], make(0), make(1), make(3), tuple(make(2))]
    else:
        kinds = [make(1)[0]] * 8 + [make(1)]
    return rng.choice([*kinds * 4, None, make(2)])


def attempt(function):
    try:
        return function(), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def told(op):
    """All that there is of an op, with what its operands know of it."""
    places = [
        [use.index for use in each.uses if use.operation is op]
        for each in dict.fromkeys(op.operands)
    ]
    return (
        [*op.operands], [each.type for each in op.results],
        [(each.op is op, each.index, each.first_use) for each in op.results],
        list(op.properties.items()), list(op.attributes.items()), op.location, places,
        [each.parent is op for each in op.regions], op.parent, op.next_op, op.successors == (),
    )  # fmt: skip


def fields(op):
    return get_accessors_from_op_def(op.get_irdl_definition(), None)


def read(function):
    found, error = attempt(function)
    return (list(found) if isinstance(found, tuple) else found), error.split(":")[0]


def check_fields(op):
    for name, accessor in fields(type(op)).items():
        if name not in ("traits", "get_irdl_definition", "verify_", "parse", "print"):
            assert read(lambda name=name: getattr(op, name)) == read(
                lambda accessor=accessor: accessor.__get__(op, type(op))
            ), (op.name, name)


def test_all_ops_are_of_the_class():
    assert len(OURS) > 150


@pytest.mark.parametrize("kind", OURS, ids=lambda op: op.name)
def test_made_and_read_as_by_xdsl(kind):
    rng, definition = Random(kind.name), kind.get_irdl_definition()
    counts = {"made": 0, "refused": 0}
    for _ in range(6):
        arguments = {
            "operands": [drawn(rng, each, values) for _, each in definition.operands],
            "result_types": [
                drawn(rng, each, lambda count: [f32] * count) for _, each in definition.results
            ],
            "properties": {name: rng.choice([None, UnitAttr()]) for name in definition.properties},
            "attributes": {"more": IntegerAttr(1, i32), "none": None},
        }
        if rng.random() < 0.1:
            arguments["operands"] = [*arguments["operands"], None]

        def make(init, arguments=arguments):
            regions = [Region() for _ in definition.regions]
            op = kind.__new__(kind)
            init(op, **arguments, regions=regions)
            return op

        theirs, refused = attempt(lambda: make(xdsl.irdl.IRDLOperation.__init__))
        wanted = None if theirs is None else told(theirs)
        if theirs is not None:
            theirs.drop_all_references()
        ours, also_refused = attempt(lambda: make(IRDLOperation.__init__))
        assert also_refused == refused
        counts["refused" if ours is None else "made"] += 1
        if ours is not None:
            assert told(ours) == wanted
            check_fields(ours)
            again = created(
                kind, [*ours.operands], [each.type for each in ours.results], ours.properties,
                ours.attributes, ours.location, [Region() for _ in ours.regions],
            )  # fmt: skip
            ours.drop_all_references()
            assert told(again) == wanted
            again.drop_all_references()
    assert counts["made"]


def test_sizes_are_told_by_a_property():
    sized = [
        op
        for op in OURS
        if any(isinstance(each, AttrSizedSegments) for each in op.get_irdl_definition().options)
    ]
    assert len(sized) > 20

"""How the ops of this package's dialects are defined: by xDSL's declarations, with constructors and
accessors that take less time. Half of what a compilation does to IR is to make ops and to read
their operands; xDSL's own ways to do so ask of each op anew what its class says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import unpack
from typing import Any, NamedTuple, TypeVar

import xdsl.irdl
from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase, LocationAttr, i32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, Use
from xdsl.ir.core import SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    OptionalDef,
    ParsePropInAttrDict,
    VariadicDef,
)
from xdsl.irdl.operations import (
    BaseAccessor,
    BeforeVariadicSingleAccessor,
    OptionalAttrAccessor,
    SingleAttrAccessor,
    UniqueVariadicAccessor,
    VariadicAttrAccessor,
    VarIRConstruct,
)
from xdsl.irdl.operations import BaseAttrAccessor as SizedAccessor

__all__ = ["IRDLOperation", "created", "irdl_op_definition"]

_OpT = TypeVar("_OpT", bound=Operation)
_IRDLOpT = TypeVar("_IRDLOpT", bound=xdsl.irdl.IRDLOperation)
_NOTHING: Mapping[str, Attribute] = {}
_VALUES, _SEQUENCES = frozenset((OpResult, BlockArgument)), frozenset((list, tuple, SSAValues))
_BYTES_OF_A_SIZE = 4
_item: Callable[[tuple[Any, ...], int], Any] = tuple.__getitem__
_part: Callable[[tuple[Any, ...], slice], tuple[Any, ...]] = tuple.__getitem__


class _Plan(NamedTuple):
    """What a class says of its ops: of each operand and result whether it may be none or several,
    the properties that hold how many these are, and whether there are values by default. What is
    not plain is left to xDSL.
    """

    operands: tuple[tuple[bool, bool], ...] = ()
    results: tuple[tuple[bool, bool], ...] = ()
    regions: int = 0
    sizes_of_operands: bool = False
    sizes_of_results: bool = False
    has_defaults: bool = True
    is_plain: bool = False


class _Plans(dict[type[Operation], _Plan]):
    """The plan of each class."""

    def __missing__(self, kind: type[Operation]) -> _Plan:
        plan = _Plan()
        if issubclass(kind, xdsl.irdl.IRDLOperation):
            plan = _plan_of(kind.get_irdl_definition())
        self[kind] = plan
        return plan


def _plan_of(definition: xdsl.irdl.OpDef) -> _Plan:
    defaults = (*definition.properties.values(), *definition.attributes.values())
    sized = {
        type(option)
        for option in definition.options
        if isinstance(option, AttrSizedOperandSegments | AttrSizedResultSegments)
        and option.as_property
    }
    others = [
        option
        for option in definition.options
        if type(option) not in sized and not isinstance(option, ParsePropInAttrDict)
    ]
    is_plain = (
        not others
        and not definition.successors
        and not any(isinstance(each, VariadicDef) for _, each in definition.regions)
    )
    return _Plan(
        tuple(_counts(each) for _, each in definition.operands),
        tuple(_counts(each) for _, each in definition.results),
        len(definition.regions),
        AttrSizedOperandSegments in sized,
        AttrSizedResultSegments in sized,
        any(
            not isinstance(each, OptionalDef) and each.default_value is not None
            for each in defaults
        ),
        is_plain,
    )


def _counts(definition: object) -> tuple[bool, bool]:
    """Whether there may be none of an operand or result, and whether there may be several."""
    is_optional = isinstance(definition, OptionalDef)
    return is_optional, isinstance(definition, VariadicDef) and not is_optional


_plans = _Plans()


def created(
    kind: type[_OpT],
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = _NOTHING,
    attributes: Mapping[str, Attribute] = _NOTHING,
    location: LocationAttr = UNKNOWN_LOC,
    regions: Sequence[Region] = (),
) -> _OpT:
    """An op of any class without successors, as xDSL's `create` makes it, in a third of the time."""
    op = kind.__new__(kind)
    _fill(op, operands, result_types, {**properties}, {**attributes}, location, regions)
    if _plans[kind].has_defaults:
        op.__post_init__()
    return op


def _fill(
    op: Operation,
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    properties: dict[str, Attribute],
    attributes: dict[str, Attribute],
    location: LocationAttr,
    regions: Sequence[Region],
) -> None:
    """Fill in a new op what xDSL's constructor does."""
    op._operands = SSAValues(operands)
    uses: list[Use] = []
    for index, operand in enumerate(operands):
        use = Use(op, index)
        following = operand.first_use
        if following is not None:
            use._next_use = following
            following._prev_use = use
        operand.first_use = use
        uses.append(use)
    op._operand_uses = tuple(uses)
    op.results = SSAValues([OpResult(type_, op, at) for at, type_ in enumerate(result_types)])
    op.properties, op.attributes, op.location = properties, attributes, location
    op.regions = ()
    for region in regions:
        op.add_region(region)


class IRDLOperation(xdsl.irdl.IRDLOperation):
    """xDSL's class of ops that are declared, with a constructor that looks up what the class says,
    and is xDSL's own for what is rare or wrong.
    """

    def __init__(
        self,
        *,
        operands: Sequence[Any] | None = None,
        result_types: Sequence[Any] | None = None,
        properties: Mapping[str, Attribute | None] | None = None,
        attributes: Mapping[str, Attribute | None] | None = None,
        successors: Sequence[Block | Sequence[Block] | None] | None = None,
        regions: Sequence[Any] | None = None,
    ) -> None:
        plan = _plans[type(self)]
        values = _flat(operands or (), plan.operands, _is_value)
        types = _flat(result_types or (), plan.results, _is_type)
        held = regions or ()
        is_usual = plan.is_plain and not successors and len(held) == plan.regions
        if not is_usual or values is None or types is None or {*map(type, held)} - {Region}:
            super().__init__(
                operands=operands,
                result_types=result_types,
                properties=properties,
                attributes=attributes,
                successors=successors,
                regions=regions,
            )
            return
        kept = {name: each for name, each in (properties or _NOTHING).items() if each is not None}
        if plan.sizes_of_operands:
            kept[AttrSizedOperandSegments.attribute_name] = _sizes(values[1])
        if plan.sizes_of_results:
            kept[AttrSizedResultSegments.attribute_name] = _sizes(types[1])
        more = {name: each for name, each in (attributes or _NOTHING).items() if each is not None}
        _fill(self, values[0], types[0], kept, more, UNKNOWN_LOC, held)
        if plan.has_defaults:
            self.__post_init__()

    @classmethod
    def create(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls: type[_IRDLOpT],
        *,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] = _NOTHING,
        attributes: Mapping[str, Attribute] = _NOTHING,
        location: LocationAttr | None = None,
        successors: Sequence[Block] = (),
        regions: Sequence[Region] = (),
    ) -> _IRDLOpT:
        """An op of operands, types of results and properties as they are (`created`)."""
        at = UNKNOWN_LOC if location is None else location
        op = created(cls, operands, result_types, properties, attributes, at, regions)
        if successors:
            op.successors = successors
        return op


def _flat(
    given: Sequence[Any], counts: Sequence[tuple[bool, bool]], is_one: Callable[[Any], bool]
) -> tuple[list[Any], tuple[int, ...]] | None:
    """Arguments one behind the other, and how many each is; None for what is rare or wrong."""
    if len(given) != len(counts):
        return None
    flat: list[Any] = []
    sizes: list[int] = []
    for each, (may_be_none, may_be_several) in zip(given, counts, strict=True):
        if each is None:
            if not may_be_none:
                return None
            sizes.append(0)
        elif is_one(each):
            flat.append(each)
            sizes.append(1)
        elif type(each) in _SEQUENCES and all(map(is_one, each)):
            if not may_be_several and (len(each) > 1 or not (each or may_be_none)):
                return None
            flat += each
            sizes.append(len(each))
        else:
            return None
    return flat, tuple(sizes)


def _is_value(given: object) -> bool:
    return type(given) in _VALUES


class _Types(dict[type, bool]):
    """Whether classes are those of attributes."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, Attribute) and not issubclass(kind, Sequence)
        return self[kind]


_types = _Types()


def _is_type(given: object) -> bool:
    return _types[type(given)]


@lru_cache(maxsize=256)
def _sizes(sizes: tuple[int, ...]) -> DenseArrayBase:
    """The property that says how many values each operand or result is."""
    return DenseArrayBase.from_list(i32, sizes)


def irdl_op_definition(cls: type[_IRDLOpT]) -> type[_IRDLOpT]:
    """xDSL's decorator; the names of operands and results are read from the op at once then."""
    made = xdsl.irdl.irdl_op_definition(cls)
    for name, value in list(vars(made).items()):
        if isinstance(value, BaseAccessor | SizedAccessor):
            read = _reader(value)
            if read is not None:
                setattr(made, name, _quick(value, read))
    return made


def _quick(accessor: Any, read: Callable[..., Any]) -> Any:
    """An accessor of the same class, which xDSL's formats ask for, that reads in its own way."""
    like = type(accessor)
    made = object.__new__(type(like.__name__, (like,), {"__get__": read}))
    vars(made).update(vars(accessor))
    return made


_FIELDS = {VarIRConstruct.OPERAND: "_operands", VarIRConstruct.RESULT: "results"}


def _reader(accessor: BaseAccessor | SizedAccessor) -> Callable[..., Any] | None:
    """How to read what an accessor of xDSL does, as its `__get__`; None for those that are rare."""
    at = accessor.idx
    is_of_results = accessor.construct is VarIRConstruct.RESULT
    if accessor.construct not in _FIELDS:
        is_region = accessor.construct is VarIRConstruct.REGION
        is_first = is_region and isinstance(accessor, BeforeVariadicSingleAccessor)
        return (lambda _, op, owner=None: op.regions[at]) if is_first else None
    match accessor:
        case BeforeVariadicSingleAccessor():
            if is_of_results:
                return lambda _, op, owner=None: _item(op.results, at)
            return lambda _, op, owner=None: _item(op._operands, at)
        case UniqueVariadicAccessor():
            behind = accessor.num_defs - at - 1
            if is_of_results:
                return lambda _, op, owner=None: SSAValues(
                    _part(op.results, slice(at, len(op.results) - behind))
                )
            return lambda _, op, owner=None: SSAValues(
                _part(op._operands, slice(at, len(op._operands) - behind))
            )
        case SingleAttrAccessor() | VariadicAttrAccessor() | OptionalAttrAccessor():
            return _sized_reader(accessor)
        case _:
            return None


def _sized_reader(accessor: SizedAccessor) -> Callable[..., Any] | None:
    """The same where a property says how many values each operand or result is."""
    at, name, field = accessor.idx, accessor.option.attribute_name, _FIELDS[accessor.construct]
    if not accessor.option.as_property:
        return None

    def part(op: Any) -> tuple[Any, ...]:
        start, end = _places(op.properties[name].data.data)[at]
        return _part(getattr(op, field), slice(start, end))

    if isinstance(accessor, VariadicAttrAccessor):
        return lambda _, op, owner=None: SSAValues(part(op))
    if isinstance(accessor, OptionalAttrAccessor):
        return lambda _, op, owner=None: next(iter(part(op)), None)
    return lambda _, op, owner=None: part(op)[0]


@lru_cache(maxsize=1024)
def _places(sizes: bytes) -> tuple[tuple[int, int], ...]:
    """Where each operand or result begins and ends, of the i32 that say how many values it is."""
    counts = unpack(f"<{len(sizes) // _BYTES_OF_A_SIZE}i", sizes)
    return tuple(pairwise(accumulate(counts, initial=0)))

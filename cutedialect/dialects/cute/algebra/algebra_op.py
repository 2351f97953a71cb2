"""`AlgebraOp`: what the ops of the layout algebra have in common. A row of `table.py` says what an op
takes, gives and prints, and which function of `cutedialect.layout` it is; types of results follow from
that function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, UnitAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute.attributes import QuotedData
from cutedialect.dialects.definition import IRDLOperation
from cutedialect.layout import LayoutError

from .values import named_leaves

Kinds = tuple[type[Attribute], ...]
Results = Callable[[Sequence[Attribute], Any, Mapping[str, Any]], "list[Attribute]"]


@dataclass(frozen=True)
class Operand:
    """A name and the types it may have; `optional` ones and `variadic` ones come last."""

    name: str
    kinds: Kinds
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, eq=False)
class Row:
    """One op.

    `rule` names the function of `cutedialect.layout`, called with the operands and attributes that
    `arguments` name, and `results` makes the result types of what it gives; without `rule` they are
    declared. `types` is how the types are written: "functional" `(A, B) -> R`, "arrow" `A -> R`,
    "operands" `A, B`, or "result" `R`. `attributes` are those in angle brackets: names of ints, "mode"
    in brackets of its own, or a flag. `short` names the
    operands, and "result", whose types are written without their name. `requires` checks the types of
    operands before the rule does, `check` the whole op. `does` is "pure", "divides" (so it may not be moved) or "writes".
    """

    name: str
    summary: str
    operands: tuple[Operand, ...] = ()
    result: Kinds = ()
    rule: str = ""
    arguments: tuple[str, ...] = ()
    results: Results | None = None
    types: str = "functional"
    ints: tuple[str, ...] = ()
    mode: str = ""
    flag: str = ""
    variadic_result: bool = False
    example_results: int = 1
    does: str = "pure"
    short: tuple[str, ...] = ()
    example: str = ""
    requires: Callable[[Sequence[Attribute]], None] | None = None
    check: Callable[[AlgebraOp], None] | None = None

    @property
    def class_name(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_")) + "Op"


class AlgebraOp(IRDLOperation):
    """An op of the layout algebra."""

    ROW: ClassVar[Row]

    @classmethod
    def parse(cls, parser: Parser) -> Operation:
        row, start = cls.ROW, parser.pos
        properties = _parse_attributes(parser, row)
        unresolved: list[UnresolvedOperand] = []
        if row.types != "result":
            unresolved = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_unresolved_operand
            )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.pos
        operand_types, result_types = _parse_types(parser, row, len(unresolved))
        if len(operand_types) != len(unresolved):
            parser.raise_error(
                f"expected {len(unresolved)} operand types, got {len(operand_types)}",
                at,
                parser.pos,
            )
        if row.name == "print":
            attributes |= parser.parse_optional_attr_dict()
        if result_types is None:
            try:
                check_operands(row, operand_types)
                result_types = infer(cls, operand_types, properties)
            except VerifyException as error:
                parser.raise_error(str(error), start, parser.pos)
        operands = parser.resolve_operands(unresolved, operand_types, start)
        return cls.create(
            operands=operands,
            result_types=result_types,
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        row = self.ROW
        _print_attributes(printer, row, self)
        if row.types != "result":
            with printer.in_parens():
                printer.print_list(self.operands, printer.print_ssa_value)
        if row.name != "print":
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        self._print_types(printer)
        if row.name == "print":
            printer.print_op_attributes(self.attributes)

    def _print_types(self, printer: Printer) -> None:
        row = self.ROW
        operands = [
            (operand.type, number < len(row.operands) and row.operands[number].name in row.short)
            for number, operand in enumerate(self.operands)
        ]
        results = [(result.type, "result" in row.short) for result in self.results]

        def print_type(typed: tuple[Attribute, bool]) -> None:
            type_, short = typed
            if short and isinstance(type_, QuotedData):
                type_.print_parameter(printer)
            else:
                printer.print_attribute(type_)

        if row.types == "functional":
            with printer.in_parens():
                printer.print_list(operands, print_type)
        elif row.types != "result":
            printer.print_list(operands, print_type)
        if row.types in ("functional", "arrow"):
            printer.print_string(" -> ")
        if row.types != "operands":
            printer.print_list(results, print_type)

    def verify_(self) -> None:
        row = self.ROW
        types = [operand.type for operand in self.operands]
        check_operands(row, types)
        if row.check is not None:
            row.check(self)
        if not row.rule and row.results is None:
            return
        inferred = infer(type(self), types, self.properties)
        declared = [result.type for result in self.results]
        if inferred != declared:
            raise VerifyException(
                f"expected the result types {_shown(inferred)}, got {_shown(declared)}"
            )


def _shown(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types)) or "none"


def check_operands(row: Row, types: Sequence[Attribute]) -> None:
    """As many operands as an op takes, of the types it takes, or `VerifyException`."""
    least = sum(not (one.optional or one.variadic) for one in row.operands)
    variadic = any(one.variadic for one in row.operands)
    if len(types) < least or (len(types) > len(row.operands) and not variadic):
        most = f" to {len(row.operands)}" if least != len(row.operands) else ""
        raise VerifyException(f"expected {least}{most} operands, got {len(types)}")
    for number, type_ in enumerate(types):
        operand = row.operands[min(number, len(row.operands) - 1)]
        if not isinstance(type_, operand.kinds):
            raise VerifyException(
                f"expected {operand.name} to be {_names(operand.kinds)}, got {type_}"
            )
    if row.requires is not None:
        row.requires(types)


def _names(kinds: Kinds) -> str:
    names = [f"!{kind.name}" if "." in kind.name else "an integer" for kind in kinds]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


def infer(
    op: type[AlgebraOp], types: Sequence[Attribute], properties: dict[str, Attribute]
) -> list[Attribute]:
    """The result types of an op; `VerifyException` where its function has no result."""
    row = op.ROW
    known = _known(properties)
    value = evaluate_rule(row, tuple(types), known)
    assert row.results is not None
    try:
        return row.results(types, value, dict(known))
    except LayoutError as error:
        raise VerifyException(str(error)) from error


def outcome(op: AlgebraOp) -> Any:
    """The value that an op computes, with leaves named (operand, position)."""
    types = tuple(operand.type for operand in op.operands)
    return evaluate_rule(op.ROW, types, _known(op.properties))


def _known(properties: dict[str, Attribute]) -> tuple[tuple[str, Any], ...]:
    """Attributes as numbers, hashable."""
    known: list[tuple[str, Any]] = []
    for name, attribute in properties.items():
        match attribute:
            case IntegerAttr():
                known.append((name, attribute.value.data))
            case DenseArrayBase():
                known.append((name, tuple(attribute.get_values())))
            case _:
                known.append((name, True))
    return tuple(known)


@lru_cache(maxsize=2048)
def evaluate_rule(
    row: Row, types: tuple[Attribute, ...], properties: tuple[tuple[str, Any], ...]
) -> Any:
    """What the rule of an op gives for operands of some types, or `VerifyException`."""
    known = dict(properties)
    for operand, value in zip(row.operands, named_leaves(types), strict=False):
        known[operand.name] = value
    arguments = [known.get(name, () if name == "mode" else None) for name in row.arguments]
    while arguments and arguments[-1] is None:
        arguments.pop()
    try:
        return _function(row.rule)(*arguments)
    except LayoutError as error:
        raise VerifyException(str(error)) from error


@cache
def _function(name: str) -> Callable[..., Any]:
    """A function of `cutedialect.layout`, or of the rules that CuTe IR states otherwise."""
    import cutedialect.layout

    from . import rules

    return getattr(rules, name, None) or getattr(cutedialect.layout, name)


def _parse_attributes(parser: Parser, row: Row) -> dict[str, Attribute]:
    properties: dict[str, Attribute] = {}
    if row.flag:
        if parser.parse_optional_punctuation("<"):
            parser.parse_punctuation("{")
            parser.parse_keyword(row.flag)
            parser.parse_punctuation("}")
            parser.parse_punctuation(">")
            properties[row.flag] = UnitAttr()
    elif row.mode and (parser.parse_optional_punctuation("<") if row.mode == "optional" else True):
        if row.mode == "required":
            parser.parse_punctuation("<")
        modes = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        parser.parse_punctuation(">")
        properties["mode"] = DenseArrayBase.from_list(i32, modes)
    elif row.ints:
        parser.parse_punctuation("<")
        for position, name in enumerate(row.ints):
            if position:
                parser.parse_punctuation(",")
            properties[name] = IntegerAttr(parser.parse_integer(allow_boolean=False), i32)
        parser.parse_punctuation(">")
    return properties


def _print_attributes(printer: Printer, row: Row, op: AlgebraOp) -> None:
    if row.flag and row.flag in op.properties:
        printer.print_string(f"<{{{row.flag}}}>")
    elif row.mode and "mode" in op.properties:
        modes = op.properties["mode"]
        assert isinstance(modes, DenseArrayBase)
        printer.print_string(f"<[{', '.join(map(str, modes.get_values()))}]>")
    elif row.ints:
        numbers = [op.properties[name] for name in row.ints]
        values = [str(number.value.data) for number in numbers if isinstance(number, IntegerAttr)]
        printer.print_string(f"<{', '.join(values)}>")
    if row.flag or row.mode or row.ints:
        printer.print_string(" ")


def _parse_types(
    parser: Parser, row: Row, operands: int
) -> tuple[list[Attribute], list[Attribute] | None]:
    """The types of operands and of results, None of results that follow from the operands."""
    if row.types == "result":
        return [], [parser.parse_type()]

    def operand_type() -> Attribute:
        number = min(len(types), len(row.operands) - 1)
        types.append(
            _parse_type(parser, row, row.operands[number].name, row.operands[number].kinds)
        )
        return types[-1]

    types: list[Attribute] = []
    if row.types == "functional":
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, operand_type)
    else:
        for position in range(operands):
            if position:
                parser.parse_punctuation(",")
            operand_type()
    if row.types == "operands":
        return types, None if row.result else []
    parser.parse_punctuation("->")
    return types, [_parse_type(parser, row, "result", row.result)]


def _parse_type(parser: Parser, row: Row, name: str, kinds: Kinds) -> Attribute:
    """A type, of which the text may leave out the name where only one kind can stand there."""
    here = parser.lexer.input.content[parser.pos : parser.pos + 1]
    if here == "<" and name in row.short:
        kind = kinds[0]
        assert issubclass(kind, QuotedData)
        return kind(kind.parse_parameter(parser))
    return parser.parse_type()


def is_integer(type_: Attribute) -> bool:
    """Whether a type is one that a run-time leaf may be given as."""
    return isinstance(type_, IntegerType) and type_.width.data in (32, 64)


def types_of(values: Sequence[SSAValue]) -> list[Attribute]:
    """The types of values."""
    return [value.type for value in values]

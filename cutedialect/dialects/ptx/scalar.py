"""Scalar instructions: one op for each PTX instruction family, made from one table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, f32, f64, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from .registers import B32, RegType, check, reg, result_class

# Family to (number of operands, or None for several; one line of meaning; PTX ISA section).
FAMILIES: dict[str, tuple[int | None, str, str]] = {
    "mov": (1, "copy a register", "9.7.9.1"),
    "add": (2, "sum", "9.7.1.1"),
    "sub": (2, "difference", "9.7.1.2"),
    "mul": (2, "product: lo, hi or wide for integers", "9.7.1.3"),
    "mad": (3, "product and sum", "9.7.1.4"),
    "fma": (3, "product and sum with one rounding", "9.7.3.6"),
    "div": (2, "quotient", "9.7.1.8"),
    "rem": (2, "remainder", "9.7.1.9"),
    "min": (2, "minimum", "9.7.1.12"),
    "max": (2, "maximum", "9.7.1.13"),
    "neg": (1, "negation", "9.7.1.11"),
    "abs": (1, "absolute value", "9.7.1.10"),
    "and": (2, "bitwise and", "9.7.8.1"),
    "or": (2, "bitwise or", "9.7.8.2"),
    "xor": (2, "bitwise exclusive or", "9.7.8.3"),
    "not": (1, "bitwise complement", "9.7.8.4"),
    "shl": (2, "shift left", "9.7.8.8"),
    "shr": (2, "shift right", "9.7.8.9"),
    "setp": (2, "compare into a predicate", "9.7.6.2"),
    "selp": (3, "choose by a predicate", "9.7.6.3"),
    "cvt": (None, "convert; two sources for packed types", "9.7.9.21"),
    "rcp": (1, "reciprocal", "9.7.3.13"),
    "sqrt": (1, "square root", "9.7.3.15"),
    "rsqrt": (1, "reciprocal square root", "9.7.3.16"),
    "ex2": (1, "power of two", "9.7.3.20"),
    "lg2": (1, "logarithm to base 2", "9.7.3.19"),
    "sin": (1, "sine", "9.7.3.18"),
    "cos": (1, "cosine", "9.7.3.17"),
    "tanh": (1, "hyperbolic tangent", "9.7.3.21"),
    "prmt": (3, "choose bytes", "9.7.9.7"),
    "lop3": (4, "any bitwise function of three", "9.7.8.6"),
    "bfe": (3, "extract a bit field", "9.7.1.20"),
    "bfi": (4, "insert a bit field", "9.7.1.21"),
    "popc": (1, "number of ones", "9.7.1.15"),
    "clz": (1, "number of leading zeros", "9.7.1.16"),
    "cvta": (1, "convert an address between spaces", "9.7.9.20"),
    "copysign": (2, "sign of one, magnitude of the other", "9.7.3.2"),
}


class ScalarOp(IRDLOperation):
    """Base of the families: registers in, one register out, `modifiers` after the family's name.

    Example:

        ptx.kernel @k(%a: b32, %b: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %wide = ptx.mul "wide.u32" %a, %b : (b32, b32) -> b64
        }
    """

    args = var_operand_def(RegType)
    modifiers = prop_def(StringAttr)
    res = var_result_def(RegType)
    traits = traits_def(Pure())

    @property
    def family(self) -> str:
        return self.name[len("ptx.") :]

    @property
    def mnemonic(self) -> str:
        return f"{self.family}.{self.modifiers.data}"

    @classmethod
    def parse(cls, parser: Parser):
        modifiers = parser.parse_str_literal()
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(":")
        classes = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_reg(parser)
        )
        parser.parse_punctuation("->")
        results = [_parse_reg(parser)]
        while parser.parse_optional_punctuation(","):
            results.append(_parse_reg(parser))
        return cls.create(
            operands=parser.resolve_operands(operands, classes, parser.pos),
            result_types=results,
            properties={"modifiers": StringAttr(modifiers)},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.modifiers.data)
        printer.print_string(" ")
        printer.print_list(self.args, printer.print_ssa_value)
        printer.print_string(" : (" + ", ".join(_class_of(v) for v in self.args) + ") -> ")
        printer.print_string(", ".join(_class_of(v) for v in self.res))

    def verify_(self) -> None:
        wanted = FAMILIES[self.family][0]
        if wanted is not None:
            check(
                len(self.args) == wanted,
                f"expected {wanted} operands of {self.mnemonic}, got {len(self.args)}",
            )
        check(
            len(self.res) == 1 or (self.family == "setp" and len(self.res) == 2),
            f"expected one result of {self.mnemonic}, got {len(self.res)}",
        )
        expected = result_class(self.mnemonic)
        check(
            _class_of(self.res[0]) == expected,
            f"expected a result of class {expected} for {self.mnemonic}, "
            f"got {_class_of(self.res[0])}",
        )


def _parse_reg(parser: Parser) -> RegType:
    return RegType(parser.parse_identifier())


def _class_of(value: SSAValue) -> str:
    assert isinstance(value.type, RegType)
    return value.type.data


def _family_op(family: str) -> type[ScalarOp]:
    count, meaning, section = FAMILIES[family]
    del count
    body = {
        "name": f"ptx.{family}",
        "__doc__": f"`{family}`: {meaning} (PTX ISA {section}).",
        "__module__": __name__,
    }
    made = type(f"{family.capitalize()}Op", (ScalarOp,), body)
    return irdl_op_definition(made)


SCALAR_OPS: dict[str, type[ScalarOp]] = {family: _family_op(family) for family in FAMILIES}


@lru_cache(maxsize=2048)
def _spelling(mnemonic: str) -> tuple[type[ScalarOp], dict[str, Attribute], tuple[RegType]]:
    family, _, modifiers = mnemonic.partition(".")
    check(family in SCALAR_OPS, f"expected a scalar instruction, got '{mnemonic}'")
    return SCALAR_OPS[family], {"modifiers": StringAttr(modifiers)}, (reg(result_class(mnemonic)),)


def scalar(mnemonic: str, *args: SSAValue) -> Operation:
    """The op of one scalar instruction, e.g. `scalar("mul.wide.u32", a, b)`."""
    made, properties, results = _spelling(mnemonic)
    return made.create(operands=args, result_types=results, properties=dict(properties))


_FLOATS = {"f32": f32, "f64": f64}


@irdl_op_definition
class ImmOp(IRDLOperation):
    """A literal. It prints nothing: its uses print the literal.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          %c = ptx.imm 5 : b32
        }
    """

    name = "ptx.imm"
    value = prop_def()
    res = result_def(RegType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ImmOp:
        number = parser.parse_number(allow_boolean=False)
        parser.parse_punctuation(":")
        return imm(number, parser.parse_identifier())

    def print(self, printer: Printer) -> None:
        value = self.value
        assert isinstance(value, IntegerAttr | FloatAttr)
        shown = value.value.data
        printer.print_string(f" {shown!r} : {_class_of(self.res)}")


def imm(value: float, register_class: str) -> ImmOp:
    """A literal of a register class."""
    if register_class in _FLOATS:
        attribute: Attribute = FloatAttr(float(value), _FLOATS[register_class])
    else:
        attribute = IntegerAttr(int(value), i64)
    return ImmOp.create(result_types=[reg(register_class)], properties={"value": attribute})


@irdl_op_definition
class SpecialOp(IRDLOperation):
    """Read a special register (PTX ISA 10), as 32 bits.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          %t = ptx.special "tid.x" : b32
        }
    """

    name = "ptx.special"
    register = prop_def(StringAttr)
    res = result_def(RegType)
    traits = traits_def(Pure())

    def __init__(self, register: str) -> None:
        super().__init__(properties={"register": StringAttr(register)}, result_types=[B32])

    @classmethod
    def parse(cls, parser: Parser) -> SpecialOp:
        register = parser.parse_str_literal()
        parser.parse_punctuation(":")
        parser.parse_keyword("b32")
        return cls(register)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.register.data)
        printer.print_string(" : b32")


@irdl_op_definition
class SmemBaseOp(IRDLOperation):
    """The shared-memory address at which the kernel's dynamic buffers start.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32, smem = 1024 : i32} {
          %s = ptx.smem_base : b32
        }
    """

    name = "ptx.smem_base"
    res = result_def(RegType)
    traits = traits_def(Pure())

    def __init__(self) -> None:
        super().__init__(result_types=[B32])

    @classmethod
    def parse(cls, parser: Parser) -> SmemBaseOp:
        parser.parse_punctuation(":")
        parser.parse_keyword("b32")
        return cls()

    def print(self, printer: Printer) -> None:
        printer.print_string(" : b32")


def _width(type_: Attribute) -> int:
    assert isinstance(type_, RegType)
    return {"b16": 16, "b32": 32, "f32": 32, "b64": 64, "f64": 64}.get(type_.data, 0)


@irdl_op_definition
class PackOp(IRDLOperation):
    """Registers side by side in a wider one, the first in the low bits (PTX ISA 9.7.9.2).

    Example:

        ptx.kernel @k(%a: b16, %b: b16) attributes {target = "sm_80", threads = 32 : i32} {
          %r = ptx.pack %a, %b : (b16, b16) -> b32
        }
    """

    name = "ptx.pack"
    args = var_operand_def(RegType)
    res = result_def(RegType)
    traits = traits_def(Pure())

    def __init__(self, args: Sequence[SSAValue], register_class: str = "b32") -> None:
        super().__init__(operands=[list(args)], result_types=[reg(register_class)])

    @classmethod
    def parse(cls, parser: Parser) -> PackOp:
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(":")
        classes = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_reg(parser)
        )
        parser.parse_punctuation("->")
        args = parser.resolve_operands(operands, classes, parser.pos)
        return cls(args, parser.parse_identifier())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.args, printer.print_ssa_value)
        printer.print_string(" : (" + ", ".join(_class_of(v) for v in self.args) + ") -> ")
        printer.print_string(_class_of(self.res))

    def verify_(self) -> None:
        total = sum(_width(v.type) for v in self.args)
        check(
            total == _width(self.res.type),
            f"expected parts of {_width(self.res.type)} bits in all, got {total}",
        )


@irdl_op_definition
class UnpackOp(IRDLOperation):
    """The parts of a wide register, the low bits first (PTX ISA 9.7.9.2).

    Example:

        ptx.kernel @k(%a: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %lo, %hi = ptx.unpack %a : b32 -> (b16, b16)
        }
    """

    name = "ptx.unpack"
    arg = operand_def(RegType)
    res = var_result_def(RegType)
    traits = traits_def(Pure())

    def __init__(self, arg: SSAValue, parts: int, register_class: str) -> None:
        super().__init__(operands=[arg], result_types=[[reg(register_class)] * parts])

    @classmethod
    def parse(cls, parser: Parser) -> UnpackOp:
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        arg = parser.resolve_operand(unresolved, _parse_reg(parser))
        parser.parse_punctuation("->")
        classes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
        return cls(arg, len(classes), classes[0])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.arg)
        printer.print_string(f" : {_class_of(self.arg)} -> (")
        printer.print_string(", ".join(_class_of(v) for v in self.res) + ")")

    def verify_(self) -> None:
        total = sum(_width(v.type) for v in self.res)
        check(
            total == _width(self.arg.type),
            f"expected parts of {_width(self.arg.type)} bits in all, got {total}",
        )

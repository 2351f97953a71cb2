"""Scalar instructions: one op for each PTX instruction family, made from one table."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, f32, f64, i64
from xdsl.ir import Attribute, ErasedSSAValue, Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.definition import IRDLOperation, created, irdl_op_definition

from .mnemonics import operand_classes, result_class
from .registers import B32, RegType, check, parse_class, reg, width_of
from .syntax import class_of, parse_extra, parse_reg, print_extra

# Family to (one line of meaning, PTX ISA section, modifiers of the docstring's example).
FAMILIES: dict[str, tuple[str, str, str]] = {
    "mov": ("copy a register", "9.7.9.1", "b32"),
    "add": ("sum", "9.7.1.1", "s32"),
    "sub": ("difference", "9.7.1.2", "f32"),
    "mul": ("product: lo, hi or wide for integers", "9.7.1.3", "wide.u32"),
    "mad": ("product and sum", "9.7.1.4", "lo.s32"),
    "fma": ("product and sum with one rounding", "9.7.3.6", "rn.f32"),
    "mul24": ("product of 24-bit integers", "9.7.1.5", "lo.u32"),
    "mad24": ("product and sum of 24-bit integers", "9.7.1.6", "lo.s32"),
    "sad": ("sum of absolute differences", "9.7.1.7", "u32"),
    "div": ("quotient", "9.7.1.8", "u32"),
    "rem": ("remainder", "9.7.1.9", "s32"),
    "min": ("minimum", "9.7.1.12", "s32"),
    "max": ("maximum", "9.7.1.13", "f32"),
    "neg": ("negation", "9.7.1.11", "f32"),
    "abs": ("absolute value", "9.7.1.10", "s32"),
    "and": ("bitwise and", "9.7.8.1", "b32"),
    "or": ("bitwise or", "9.7.8.2", "pred"),
    "xor": ("bitwise exclusive or", "9.7.8.3", "b64"),
    "not": ("bitwise complement", "9.7.8.4", "b32"),
    "cnot": ("one if zero, else zero", "9.7.8.5", "b32"),
    "lop3": ("any bitwise function of three", "9.7.8.6", "b32"),
    "shf": ("funnel shift", "9.7.8.7", "l.wrap.b32"),
    "shl": ("shift left", "9.7.8.8", "b64"),
    "shr": ("shift right", "9.7.8.9", "u32"),
    "setp": ("compare into a predicate, and its complement", "9.7.6.2", "lt.s32"),
    "selp": ("choose by a predicate", "9.7.6.3", "f32"),
    "slct": ("choose by a sign", "9.7.6.4", "f32.s32"),
    "cvt": ("convert; two sources for packed types", "9.7.9.21", "rn.f16x2.f32"),
    "rcp": ("reciprocal", "9.7.3.13", "approx.ftz.f32"),
    "sqrt": ("square root", "9.7.3.15", "rn.f32"),
    "rsqrt": ("reciprocal square root", "9.7.3.16", "approx.f32"),
    "ex2": ("power of two", "9.7.3.20", "approx.ftz.f32"),
    "lg2": ("logarithm to base 2", "9.7.3.19", "approx.f32"),
    "sin": ("sine", "9.7.3.18", "approx.f32"),
    "cos": ("cosine", "9.7.3.17", "approx.f32"),
    "tanh": ("hyperbolic tangent", "9.7.3.21", "approx.f32"),
    "prmt": ("choose bytes", "9.7.9.7", "b32"),
    "bfe": ("extract a bit field", "9.7.1.20", "u32"),
    "bfi": ("insert a bit field", "9.7.1.21", "b32"),
    "popc": ("number of ones", "9.7.1.15", "b64"),
    "clz": ("number of leading zeros", "9.7.1.16", "b32"),
    "brev": ("bits in reverse", "9.7.1.19", "b32"),
    "dp4a": ("dot product of four bytes, and sum", "9.7.1.23", "s32.s32"),
    "cvta": ("convert an address between spaces", "9.7.9.20", "to.global.u64"),
    "createpolicy": ("make an L2 policy", "9.7.9.18", "fractional.L2::evict_first.b64"),
    "copysign": ("sign of the first, magnitude of the second", "9.7.3.2", "f32"),
}


class ScalarOp(IRDLOperation):
    """Base of the families: registers in, one register out, `modifiers` after the family's name."""

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
        extra = parse_extra(parser)
        parser.parse_punctuation(":")
        start = parser.pos
        classes = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_reg(parser)
        )
        parser.parse_punctuation("->")
        results = [parse_reg(parser)]
        while parser.parse_optional_punctuation(","):
            results.append(parse_reg(parser))
        return cls.create(
            operands=parser.resolve_operands(operands, classes, start),
            result_types=results,
            properties={"modifiers": StringAttr(modifiers)},
            attributes=extra,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.modifiers.data)
        printer.print_string(" ")
        printer.print_list(self.args, printer.print_ssa_value)
        print_extra(printer, self.attributes)
        printer.print_string(" : (" + ", ".join(class_of(v) for v in self.args) + ") -> ")
        printer.print_string(", ".join(class_of(v) for v in self.res))

    def verify(self, verify_nested_ops: bool = True) -> None:
        """All rules, those of any op included. Most ops of a kernel are of this class, so one that
        is plainly right takes a short way: the long one is there to say what is wrong.
        """
        if not self._is_plain():
            super().verify(verify_nested_ops)

    def _is_plain(self) -> bool:
        """Whether it is one instruction with operands and a result of the classes that it takes,
        in front of others.
        """
        modifiers = self.properties.get("modifiers")
        if (
            len(self.properties) != 1
            or not isinstance(modifiers, StringAttr)
            or self.next_op is None
            or self.regions
            or self.successors
            or len(self.results) != 1
        ):
            return False
        try:
            expected, made = _signature(self.name, modifiers.data, len(self._operands))
        except VerifyException:
            return False
        types = [operand.type for operand in self._operands]
        return (
            self.results[0].type == made
            and len(types) == len(expected)
            and all(type_ in allowed for type_, allowed in zip(types, expected, strict=True))
            and not any(isinstance(operand, ErasedSSAValue) for operand in self._operands)
        )

    def verify_(self) -> None:
        mnemonic = self.mnemonic
        expected = operand_classes(mnemonic, len(self.args))
        check(
            len(self.args) == len(expected),
            f"expected {len(expected)} operands of {mnemonic}, got {len(self.args)}",
        )
        for position, (arg, classes) in enumerate(zip(self.args, expected, strict=True)):
            check(
                class_of(arg) in classes,
                f"expected operand {position} of {mnemonic} of class {' or '.join(classes)}, "
                f"got {class_of(arg)}",
            )
        check(
            len(self.res) == 1 or (self.family == "setp" and len(self.res) == 2),
            f"expected one result of {mnemonic}, got {len(self.res)}",
        )
        wanted = result_class(mnemonic)
        for result in self.res:
            check(
                class_of(result) == wanted,
                f"expected a result of class {wanted} for {mnemonic}, got {class_of(result)}",
            )


@lru_cache(maxsize=2048)
def _signature(
    name: str, modifiers: str, count: int
) -> tuple[tuple[tuple[RegType, ...], ...], RegType]:
    """The types that each of so many operands of an instruction may have, and its result's."""
    mnemonic = f"{name[len('ptx.') :]}.{modifiers}"
    operands = tuple(tuple(map(reg, classes)) for classes in operand_classes(mnemonic, count))
    return operands, reg(result_class(mnemonic))


def _example(family: str, modifiers: str) -> str:
    mnemonic = f"{family}.{modifiers}"
    classes = [choices[0] for choices in operand_classes(mnemonic)]
    given = dict.fromkeys(classes)
    lines = [f"%{name}v = ptx.imm {'1.0' if name[0] == 'f' else 1} : {name}" for name in given]
    operands = ", ".join(f"%{name}v" for name in classes)
    lines.append(
        f'%r = ptx.{family} "{modifiers}" {operands} : ({", ".join(classes)}) -> '
        f"{result_class(mnemonic)}"
    )
    body = "\n".join(f"          {line}" for line in lines)
    head = 'ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {'
    return f"        {head}\n{body}\n        }}\n"


def _family_op(family: str) -> type[ScalarOp]:
    meaning, section, modifiers = FAMILIES[family]
    doc = (
        f"`{family}`: {meaning} (PTX ISA {section}).\n\n    Example:\n\n"
        f"{_example(family, modifiers)}    "
    )
    body = {"name": f"ptx.{family}", "__doc__": doc, "__module__": __name__}
    return irdl_op_definition(type(f"{family.capitalize()}Op", (ScalarOp,), body))


SCALAR_OPS: dict[str, type[ScalarOp]] = {family: _family_op(family) for family in FAMILIES}


@lru_cache(maxsize=2048)
def _spelling(mnemonic: str) -> tuple[type[ScalarOp], dict[str, Attribute], tuple[RegType]]:
    family, _, modifiers = mnemonic.partition(".")
    check(family in SCALAR_OPS, f"expected a scalar instruction, got '{mnemonic}'")
    return SCALAR_OPS[family], {"modifiers": StringAttr(modifiers)}, (reg(result_class(mnemonic)),)


def scalar(mnemonic: str, *args: SSAValue) -> Operation:
    """The op of one scalar instruction, e.g. `scalar("mul.wide.u32", a, b)`."""
    made, properties, results = _spelling(mnemonic)
    return created(made, args, results, properties)


_FLOATS = {"f32": (f32, "f"), "f64": (f64, "d")}


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
        start = parser.pos
        number = parser.parse_number(allow_boolean=False)
        spelled = parser.lexer.input.slice(start, parser.pos) or ""
        extra = parse_extra(parser)
        parser.parse_punctuation(":")
        register_class = parse_class(parser)
        wrong = ""
        if register_class not in _FLOATS:
            wrong = "an integer" if isinstance(number, float) else ""
        elif "0x" in spelled:
            code = _FLOATS[register_class][1]
            size = struct.calcsize(code)
            if 0 <= number < 1 << 8 * size:
                number = struct.unpack(f">{code}", int(number).to_bytes(size))[0]
            else:
                wrong = f"{8 * size} bits"
        elif not _fits(number, register_class):
            wrong = "a float in the range"
        if wrong:
            parser.raise_error(
                f"expected {wrong} of class {register_class}, got {spelled.strip()}",
                start,
                parser.pos,
            )
        made = imm(number, register_class)
        made.attributes |= extra
        return made

    def print(self, printer: Printer) -> None:
        register_class = class_of(self.res)
        value = self.value
        assert isinstance(value, IntegerAttr | FloatAttr)
        shown = value.value.data
        printer.print_string(f" {_shown(shown, register_class)}")
        print_extra(printer, self.attributes)
        printer.print_string(f" : {register_class}")

    def verify_(self) -> None:
        register_class = class_of(self.res)
        wanted = FloatAttr if register_class in _FLOATS else IntegerAttr
        if not isinstance(self.value, wanted):
            raise VerifyException(
                f"expected {'a float' if wanted is FloatAttr else 'an integer'} "
                f"of class {register_class}, got {self.value}"
            )
        if isinstance(self.value, IntegerAttr):
            bits = width_of(self.res.type)
            value = self.value.value.data
            check(
                -(1 << max(bits - 1, 0)) <= value < 1 << bits,
                f"expected an integer of {bits} bits, got {value}",
            )


def _shown(value: float, register_class: str) -> str:
    """Floats as decimals that MLIR reads (`1.0e-05`), or by their bits when not finite."""
    if register_class not in _FLOATS:
        return str(value)
    if not math.isfinite(value):
        return "0x" + struct.pack(f">{_FLOATS[register_class][1]}", value).hex().upper()
    mantissa, exponent, power = repr(value).partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + exponent + power


def _fits(value: float, register_class: str) -> bool:
    """Whether a number rounds to a finite float of the class, or is not finite itself."""
    try:
        struct.pack(f">{_FLOATS[register_class][1]}", value)
    except OverflowError:
        return False
    return True


def imm(value: float, register_class: str) -> ImmOp:
    """A literal of a register class; VerifyException when a float is out of its range."""
    if register_class in _FLOATS:
        attribute: Attribute = _float(struct.pack(">d", value), register_class)
    else:
        attribute = _integer(int(value))
    return created(ImmOp, (), (reg(register_class),), {"value": attribute})


@lru_cache(maxsize=1024)
def _float(bits: bytes, register_class: str) -> FloatAttr:
    # Keyed by bits: as numbers, 0.0 and -0.0 are one and nan is none.
    [value] = struct.unpack(">d", bits)
    check(
        _fits(value, register_class),
        f"expected a float in the range of class {register_class}, got {value}",
    )
    return FloatAttr(value, _FLOATS[register_class][0])


@lru_cache(maxsize=1024)
def _integer(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


# Special registers of 32 bits (PTX ISA 10); those of clusters exist from sm_90 on.
_SPECIAL = re.compile(
    r"(tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyz]"
    r"|cluster_n?ctarank|laneid|n?warpid|n?smid|gridid|clock(_hi)?|globaltimer_(lo|hi)"
    r"|lanemask_(eq|le|lt|ge|gt)|(total|dynamic|aggr)_smem_size"
)


@irdl_op_definition
class SpecialOp(IRDLOperation):
    """Read a special register of 32 bits (PTX ISA 10).

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
        made = cls(parser.parse_str_literal())
        made.attributes |= parse_extra(parser)
        parser.parse_punctuation(":")
        parser.parse_keyword("b32")
        return made

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.register.data)
        print_extra(printer, self.attributes)
        printer.print_string(" : b32")

    def verify_(self) -> None:
        name = self.register.data
        check(
            _SPECIAL.fullmatch(name) is not None,
            f"expected a special register of 32 bits, such as 'tid.x' or 'laneid', got '{name}'",
        )


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
        extra = parse_extra(parser)
        parser.parse_punctuation(":")
        parser.parse_keyword("b32")
        return cls.create(result_types=[B32], attributes=extra)

    def print(self, printer: Printer) -> None:
        print_extra(printer, self.attributes)
        printer.print_string(" : b32")


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
        extra = parse_extra(parser)
        parser.parse_punctuation(":")
        start = parser.pos
        classes = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_reg(parser)
        )
        parser.parse_punctuation("->")
        args = parser.resolve_operands(operands, classes, start)
        return cls.create(operands=args, result_types=[parse_reg(parser)], attributes=extra)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.args, printer.print_ssa_value)
        print_extra(printer, self.attributes)
        printer.print_string(" : (" + ", ".join(class_of(v) for v in self.args) + ") -> ")
        printer.print_string(class_of(self.res))

    def verify_(self) -> None:
        total = sum(width_of(v.type) for v in self.args)
        check(
            total == width_of(self.res.type),
            f"expected parts of {width_of(self.res.type)} bits in all, got {total}",
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
        extra = parse_extra(parser)
        parser.parse_punctuation(":")
        arg = parser.resolve_operand(unresolved, parse_reg(parser))
        parser.parse_punctuation("->")
        parts = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_reg(parser))
        return cls.create(operands=[arg], result_types=parts, attributes=extra)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.arg)
        print_extra(printer, self.attributes)
        printer.print_string(f" : {class_of(self.arg)} -> (")
        printer.print_string(", ".join(class_of(v) for v in self.res) + ")")

    def verify_(self) -> None:
        total = sum(width_of(v.type) for v in self.res)
        check(
            total == width_of(self.arg.type),
            f"expected parts of {width_of(self.arg.type)} bits in all, got {total}",
        )

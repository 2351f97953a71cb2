"""Types of the `ptx` dialect: a scalar register is written once, an array of registers is mutable,
a tensor map is an address.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

CLASSES: tuple[str, ...] = ("pred", "b16", "b32", "b64", "f32", "f64")


def check(condition: bool, message: str) -> None:
    """Raise `VerifyException(message)` unless `condition`."""
    if not condition:
        raise VerifyException(message)


def parse_class(parser: AttrParser) -> str:
    """The name of a register class."""
    start = parser.pos
    name = parser.parse_identifier()
    if name not in CLASSES:
        parser.raise_error(
            f"expected a register class ({', '.join(CLASSES)}), got {name}", start, parser.pos
        )
    return name


@irdl_attr_definition
class RegType(Data[str], TypeAttribute):
    """A scalar register, written once: `!ptx.reg<b32>`."""

    name = "ptx.reg"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parse_class(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @property
    def cls(self) -> str:
        return self.data

    def verify(self) -> None:
        check(
            self.data in CLASSES,
            f"expected a register class ({', '.join(CLASSES)}), got {self.data}",
        )


@irdl_attr_definition
class RegsType(Data[tuple], TypeAttribute):
    """A mutable array of registers of one class: `!ptx.regs<f32 x 64>`."""

    name = "ptx.regs"

    @classmethod
    def get(cls, register_class: str, count: int) -> RegsType:
        return cls((register_class, count))

    @property
    def cls(self) -> str:
        return self.data[0]

    @property
    def count(self) -> int:
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            register_class = parse_class(parser)
            parser.parse_keyword("x")
            return register_class, parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.cls} x {self.count}")

    def verify(self) -> None:
        check(
            self.cls in CLASSES,
            f"expected a register class ({', '.join(CLASSES)}), got {self.cls}",
        )
        check(self.count > 0, f"expected at least one register, got {self.count}")


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """The generic address of a tensor map among the kernel's parameters: `!ptx.tensor_map`.

    A kernel's parameter of this type is 128 opaque bytes, aligned to 64 (PTX ISA 5.5.8).
    """

    name = "ptx.tensor_map"


TENSOR_MAP = TensorMapType()

PRED, B16, B32, B64, F32, F64 = (RegType(name) for name in CLASSES)
_OF_CLASS: dict[str, RegType] = dict(zip(CLASSES, (PRED, B16, B32, B64, F32, F64), strict=True))


def reg(register_class: str) -> RegType:
    """The shared RegType of a class."""
    return _OF_CLASS[register_class]  # pyright: ignore[reportArgumentType]


_WIDTHS: dict[str, int] = {"pred": 1, "b16": 16, "b32": 32, "f32": 32, "b64": 64, "f64": 64}


def width_of(type_: Attribute) -> int:
    """Bits of a scalar register."""
    assert isinstance(type_, RegType)
    return _WIDTHS[type_.data]

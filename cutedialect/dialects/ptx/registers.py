"""Register types of the `ptx` dialect, and what a mnemonic says about its result."""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

CLASSES = ("pred", "b16", "b32", "b64", "f32", "f64")


def check(condition: bool, message: str) -> None:
    """Raise `VerifyException(message)` unless `condition`."""
    if not condition:
        raise VerifyException(message)


def _parse_class(parser: AttrParser) -> str:
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
            return _parse_class(parser)

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
            register_class = _parse_class(parser)
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


PRED, B16, B32, B64, F32, F64 = (RegType(name) for name in CLASSES)
_OF_CLASS = dict(zip(CLASSES, (PRED, B16, B32, B64, F32, F64), strict=True))


def reg(register_class: str) -> RegType:
    """The shared RegType of a class."""
    return _OF_CLASS[register_class]


_CLASS_OF_TYPE = {
    "pred": "pred",
    "f32": "f32",
    "f64": "f64",
    "tf32": "b32",
    "f16": "b16",
    "bf16": "b16",
    "f16x2": "b32",
    "bf16x2": "b32",
    "e4m3x2": "b16",
    "e5m2x2": "b16",
} | {
    f"{kind}{bits}": {8: "b16", 16: "b16", 32: "b32", 64: "b64"}[bits]
    for kind in "bus"
    for bits in (8, 16, 32, 64)
}


@lru_cache(maxsize=1024)
def result_class(mnemonic: str) -> str:
    """Register class of the result of `family.modifiers`.

    >>> result_class("mul.wide.u32"), result_class("setp.lt.s32"), result_class("cvt.f32.f16")
    ('b64', 'pred', 'f32')
    """
    family, *modifiers = mnemonic.split(".")
    if family == "setp":
        return "pred"
    types = [m for m in modifiers if m in _CLASS_OF_TYPE]
    check(bool(types), f"expected a type in the mnemonic, got '{mnemonic}'")
    if family in ("mul", "mad") and "wide" in modifiers:
        return {"b16": "b32", "b32": "b64"}[_CLASS_OF_TYPE[types[-1]]]
    if family in ("cvt", "set"):
        return _CLASS_OF_TYPE[types[0]]
    if family in ("popc", "clz", "bfind"):
        return "b32"
    return _CLASS_OF_TYPE[types[-1]]

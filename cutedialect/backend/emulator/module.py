"""What a PTX text declares: variables, functions, instructions and their operands. All of it is
immutable after parsing and is shared by every launch of the same text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import EmulatorError, UnsupportedInstruction
from .types import TYPES, ScalarType


@dataclass(frozen=True)
class Reg:
    """A register; ``slot`` is its index among all registers of the module."""

    slot: int
    name: str
    type: ScalarType

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Imm:
    """A constant. ``kind`` is ``int``, ``f32`` (``value`` is the bit pattern) or ``f64`` (a
    float).
    """

    kind: str
    value: int | float

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Variable:
    """A variable of a state space; ``size`` in bytes, -1 when declared without an extent.

    ``function`` is the owner's name for variables declared inside a function. ``init`` holds
    ``(byte offset, byte width, value)`` with a number, a ``Sym`` or a function as value.
    """

    name: str
    space: str
    type: ScalarType
    size: int
    align: int
    uid: int
    function: str | None = None
    extern: bool = False
    init: tuple[tuple[int, int, int | float | Sym | FunctionRef], ...] = ()
    line: int | None = None


@dataclass(frozen=True)
class Sym:
    variable: Variable
    offset: int = 0

    def __str__(self) -> str:
        return self.variable.name + (f"+{self.offset}" if self.offset else "")


@dataclass(frozen=True)
class FunctionRef:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Special:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Sink:
    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class Address:
    base: Reg | Sym | Imm | Special
    offset: int = 0

    def __str__(self) -> str:
        return f"[{self.base}+{self.offset}]" if self.offset else f"[{self.base}]"


@dataclass(frozen=True)
class Vector:
    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.items)) + "}"


@dataclass(frozen=True)
class Bracket:
    """``[a, {x, y}]``: a bracket with several operands (tensor copies, multimem)."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        first, *rest = (str(item) for item in self.items)
        return "[" + ", ".join([first.removeprefix("[").removesuffix("]"), *rest]) + "]"


@dataclass(frozen=True)
class Group:
    """A parenthesized list: the parameters of a call."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.items)) + ")"


@dataclass(frozen=True)
class Not:
    operand: Operand

    def __str__(self) -> str:
        return f"!{self.operand}"


@dataclass(frozen=True)
class Pair:
    """``p|q``: the two results of setp, shfl, elect and friends."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True)
class Label:
    """A code position, as an index into ``Module.code``; ``targets`` for a branch table."""

    name: str
    pc: int
    targets: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name


Operand = (
    Reg | Imm | Sym | FunctionRef | Special | Sink | Address | Vector | Bracket | Group | Not | Pair
    | Label
)  # fmt: skip


class Modifiers:
    """The dotted parts of an opcode after its head, consumed one by one; ``done`` rejects the
    rest.
    """

    def __init__(self, instruction: Instruction, parts: tuple[str, ...]) -> None:
        self._instruction = instruction
        self._parts = list(parts)

    def take(self, *names: str) -> str | None:
        """Consume and return the first part that is one of ``names``, or None."""
        for index, part in enumerate(self._parts):
            if part in names:
                return self._parts.pop(index)
        return None

    def has(self, name: str) -> bool:
        return self.take(name) is not None

    def drop(self, *prefixes: str) -> None:
        """Consume every part that starts with one of ``prefixes`` (hints without effect here)."""
        self._parts = [p for p in self._parts if not p.startswith(prefixes)]

    def types(self) -> list[ScalarType]:
        """Consume all scalar types, in order."""
        found = [TYPES[p] for p in self._parts if p in TYPES]
        self._parts = [p for p in self._parts if p not in TYPES]
        return found

    def type(self, *allowed: str) -> ScalarType:
        """Consume exactly one scalar type, one of ``allowed`` if any are given."""
        found = self.types()
        if len(found) != 1 or (allowed and found[0].name not in allowed):
            names = ", ".join("." + name for name in allowed) or "one type"
            got = "".join("." + t.name for t in found) or "none"
            raise self._instruction.unsupported(f"expected {names}, got {got}")
        return found[0]

    def done(self) -> None:
        if self._parts:
            raise self._instruction.unsupported(f"unknown modifier .{self._parts[0]}")


@dataclass(frozen=True, eq=False)
class Instruction:
    """One statement. ``guard`` is ``(predicate, negated)``; ``loc`` is ``file:line`` of the
    source.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: tuple[Reg, bool] | None
    line: int
    pc: int
    function: str
    loc: str | None
    ir: str | None

    def __str__(self) -> str:
        guard = "" if self.guard is None else f"@{'!' * self.guard[1]}{self.guard[0]} "
        return f"{guard}{self.opcode} {', '.join(map(str, self.operands))}".rstrip() + ";"

    def modifiers(self, head: str) -> Modifiers:
        """The parts after ``head`` (a dotted prefix of the opcode)."""
        rest = self.opcode[len(head) :]
        return Modifiers(self, tuple(rest.split(".")[1:]))

    def expect(self, *counts: int) -> None:
        if len(self.operands) not in counts:
            raise self.malformed(
                f"expected {' or '.join(map(str, counts))} operands, got {len(self.operands)}"
            )

    def unsupported(self, why: str) -> UnsupportedInstruction:
        error = UnsupportedInstruction(f"{self.opcode}: {why}", ptx_line=self.line)
        error.ir, error.python, error.instruction = self.ir, self.loc, str(self)
        return error

    def malformed(self, why: str) -> EmulatorError:
        return self.error("CD-PTX", f"{self.opcode}: {why}")

    def error(self, code: str, message: str, notes: tuple[str, ...] = ()) -> EmulatorError:
        return EmulatorError(
            message, code=code, ptx_line=self.line, ir=self.ir, python=self.loc,
            instruction=str(self), notes=notes,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel or device function; ``start`` and ``end`` delimit its part of ``Module.code``.

    ``params`` and ``results`` are variables in ``.param`` space or registers. ``tuning`` holds the
    numbers of ``.reqntid`` and its kind. A prototype without body has ``start == end``.
    """

    name: str
    is_entry: bool
    params: tuple[Variable | Reg, ...]
    results: tuple[Variable | Reg, ...]
    start: int
    end: int
    line: int
    tuning: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


@dataclass(frozen=True, eq=False)
class Module:
    version: str
    target: str
    registers: tuple[Reg, ...]
    variables: tuple[Variable, ...]
    functions: dict[str, Function]
    code: tuple[Instruction, ...]

"""PTX text to a ``Module``. One pass over the tokens; scopes (nested braces) own register, variable
and label names. Opcodes are not judged here: an unknown instruction is reported when it is linked.
"""

from __future__ import annotations

import functools
import re
import struct

from .cursor import Cursor
from .errors import EmulatorError
from .module import (
    Address,
    Bracket,
    Function,
    FunctionRef,
    Group,
    Imm,
    Instruction,
    Label,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Variable,
    Vector,
)  # fmt: skip
from .targets import check_instructions
from .types import TYPES, ScalarType

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE)
_NUMBERED = re.compile(r"^(.*?)(\d+)$")
_SPACES = {".global", ".const", ".shared", ".local", ".param"}
_LINKING = {".visible", ".weak", ".common", ".extern"}
_NOTES = {
    ".reqntid", ".maxntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".reqnctapercluster",
    ".maxclusterrank", ".noreturn", ".explicitcluster", ".blocksareclusters", ".alias",
}  # fmt: skip

# Bytes of a variable, by its state space: local memory of a thread (PTX ISA 5.1.5), banks of
# constants (5.1.3); of shared memory a launch sees what all variables take. Memory of the host has
# to hold one of global memory.
_MOST_BYTES = {"local": 512 << 10, "const": 640 << 10, "param": 64 << 10, "global": 1 << 32}
_MOST_ALIGN = 1 << 16


class _Scope:
    """Names of one brace level; lookups go outward."""

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.registers: dict[str, Reg] = {}
        self.ranges: dict[str, tuple[int, ScalarType]] = {}
        self.variables: dict[str, Variable] = {}
        self.labels: dict[str, int] = {}
        self.tables: dict[str, list[str]] = {}


class _Parser(Cursor):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.version = self.target = ""
        # Numbers that `.loc` names stand for files that may be declared behind it.
        self.files = dict(_FILE.findall(text))
        self.registers: list[Reg] = []
        self.variables: list[Variable] = []
        self.functions: dict[str, Function] = {}
        self.code: list[Instruction] = []
        self.scope = self.globals = _Scope(None)
        self.function = ""
        self.fixups: list[tuple[int, _Scope]] = []

    def module(self) -> Module:
        while self.token.kind != "end":
            self.module_statement()
        if not self.version or not self.target:
            raise EmulatorError("expected .version and .target directives", ptx_line=1)
        for pc, scope in self.fixups:
            self.resolve(pc, scope)
        check_instructions(self.target, self.version, self.code, self.functions.values())
        return Module(
            self.version, self.target, tuple(self.registers), tuple(self.variables),
            self.functions, tuple(self.code),
        )  # fmt: skip

    def module_statement(self) -> None:
        text = self.token.text
        if text == ".version":
            self.at += 1
            self.version = self.take("number")
        elif text == ".target":
            self.at += 1
            self.target = self.take("name")
            while self.accept(","):
                self.take("name")
        elif text == ".address_size":
            self.at += 1
            if (size := self.take("number")) != "64":
                self.fail(f"expected .address_size 64, got {size}")
        elif text == ".file":
            self.file()
        elif text == ".section":
            self.at += 1
            self.skip_to("{", "after .section")
            self.skip_to("}", "at the end of .section")
        elif text in (".pragma", ".alias"):
            self.skip_to(";", f"after {text}")
        elif text == ".loc":
            self.skip_line()
        elif text in _LINKING or text in _SPACES or text in (".entry", ".func"):
            linking: set[str] = set()
            while self.token.text in _LINKING:
                linking.add(self.token.text)
                self.at += 1
            if self.token.text in (".entry", ".func"):
                self.function_definition()
            else:
                self.variable_declaration(extern=".extern" in linking)
        else:
            self.fail(f"expected a directive, got '{text}'")

    def skip_to(self, text: str, where: str) -> None:
        """Go on behind the next such token."""
        while not self.accept(text):
            if self.token.kind == "end":
                self.fail(f"expected '{text}' {where}")
            self.at += 1

    def file(self) -> None:
        self.at += 1
        self.take("number")
        self.take("string")
        while self.accept(","):
            self.take("number")

    def location(self) -> None:
        """``.loc file line column [, function_name ...]``; the rest of the line is skipped."""
        line = self.token.line
        self.at += 1
        index, row = self.take("number"), self.take("number")
        self.loc = f"{self.files.get(index, 'file ' + index)}:{row}"
        while self.token.line == line and self.token.kind != "end":
            self.at += 1

    # Declarations.

    def scalar_type(self) -> tuple[ScalarType, int]:
        lanes = 1
        text = self.take("directive")
        if text in (".v2", ".v4", ".v8"):
            lanes, text = int(text[2:]), self.take("directive")
        if text[1:] not in TYPES:
            self.fail(f"expected a type, got '{text}'", self.tokens[self.at - 1])
        return TYPES[text[1:]], lanes

    def register_declaration(self) -> None:
        self.expect(".reg")
        kind, lanes = self.scalar_type()
        if lanes != 1:
            self.fail("vector registers are not supported; use scalar registers")
        while True:
            name = self.take("name")
            if self.accept("<"):
                count = self.integer()
                self.expect(">")
                self.scope.ranges[name] = (count, kind)
            else:
                self.scope.registers[name] = self.new_register(name, kind)
            if not self.accept(","):
                break
        self.expect(";")

    def new_register(self, name: str, kind: ScalarType) -> Reg:
        register = Reg(len(self.registers), name, kind)
        self.registers.append(register)
        return register

    def variable_declaration(self, extern: bool = False) -> None:
        space = self.take("directive")
        if space not in _SPACES:
            self.fail(f"expected a state space, got '{space}'", self.tokens[self.at - 1])
        while True:
            variable = self.declarator(space[1:], extern)
            self.scope.variables[variable.name] = variable
            if not self.accept(","):
                break
            self.at -= 1
            self.fail("expected one variable per declaration")
        self.expect(";")

    def alignment(self) -> int:
        """The bytes that `.align` in front of a type names, or 0; attributes are skipped."""
        align = 0
        while self.token.text in (".align", ".attribute"):
            if self.accept(".align"):
                align = self.integer()
            else:
                self.at += 1
                self.expect("(")
                while not self.accept(")"):
                    self.at += 1
                    if self.token.kind == "end":
                        self.fail("expected ')'")
        return align

    def declarator(self, space: str, extern: bool = False) -> Variable:
        align = self.alignment()
        kind, lanes = self.scalar_type()
        if self.accept(".ptr"):
            while self.token.text in (".global", ".shared", ".const", ".local", ".align"):
                if self.accept(".align"):
                    self.integer()
                else:
                    self.at += 1
        if self.accept(".align"):
            align = self.integer()
        line = self.token.line
        name = self.take("name")
        count, open_ended = lanes, False
        while self.accept("["):
            if self.accept("]"):
                open_ended = True
                continue
            extent = self.constant()
            if extent < 0:
                self.fail(f"expected an extent of 0 or more of '{name}', got {extent}")
            count *= extent
            self.expect("]")
        width = 16 if kind.bits == 128 else kind.bytes
        init: list[tuple[int, int, int | float | Sym | FunctionRef]] = []
        used = 0
        if self.accept("="):
            used = self.initializer(kind, 0, init)
        size = count * width
        if open_ended:
            size = used if used else -1
        if align <= 0:
            align = width * lanes
        if align & (align - 1) or align > _MOST_ALIGN:
            self.fail(f"expected .align to be a power of two up to {_MOST_ALIGN}, got {align}")
        most = _MOST_BYTES.get(space, _MOST_BYTES["global"])
        if size > most:
            self.fail(f"expected at most {most} bytes of .{space} for '{name}', got {size}")
        variable = Variable(
            name, space, kind, size, align, len(self.variables),
            self.function or None, extern, tuple(init), line,
        )  # fmt: skip
        self.variables.append(variable)
        return variable

    def initializer(
        self,
        kind: ScalarType,
        offset: int,
        out: list[tuple[int, int, int | float | Sym | FunctionRef]],
    ) -> int:
        if self.accept("{"):
            while not self.accept("}"):
                offset = self.initializer(kind, offset, out)
                if not self.accept(","):
                    self.expect("}")
                    break
            return offset
        if self.token.kind == "name":
            generic = self.accept("generic")
            if generic:
                self.expect("(")
            name = self.take("name")
            variable = self.lookup_variable(name)
            if generic:
                self.expect(")")
            if variable is None:
                out.append((offset, kind.bytes, FunctionRef(name)))
                return offset + kind.bytes
            extra = self.integer() if self.accept("+") else 0
            out.append((offset, kind.bytes, Sym(variable, extra)))
            return offset + kind.bytes
        value = self.immediate()
        number: int | float = value.value
        if value.kind == "f32":
            number = struct.unpack("<f", struct.pack("<I", int(number)))[0]
        out.append((offset, kind.bytes, float(number) if kind.kind == "f" else number))
        return offset + kind.bytes

    # Functions.

    def function_definition(self) -> None:
        is_entry = self.take("directive") == ".entry"
        line = self.token.line
        outer, self.scope = self.scope, _Scope(self.globals)
        self.loc = None
        results: list[Variable | Reg] = []
        if not is_entry and self.accept("("):
            self.function = "<result>"
            results = self.parameters()
        name = self.take("name")
        self.function = name
        params = self.parameters() if self.accept("(") else []
        if is_entry and any(isinstance(param, Reg) for param in params):
            self.fail(f"kernel '{name}' takes parameters in registers; expected .param")
        tuning: dict[str, tuple[int, ...]] = {}
        while self.token.text in _NOTES or self.token.text == ".pragma":
            key = self.take("directive")[1:]
            numbers: list[int] = []
            if key == "pragma":
                while not self.accept(";"):
                    self.at += 1
                    if self.token.kind == "end":
                        self.fail("expected ';' after .pragma")
                continue
            while self.token.kind == "number":
                numbers.append(self.integer())
                self.accept(",")
            tuning[key] = tuple(numbers)
        start = len(self.code)
        if self.accept("{"):
            self.block()
            self.append_return(line)
        else:
            self.expect(";")
        known = self.functions.get(name)
        end = len(self.code)
        if known is None or known.start == known.end:
            self.functions[name] = Function(
                name, is_entry, tuple(params), tuple(results), start, end, line, tuning
            )
        elif start != end:
            self.fail(f"function '{name}' is defined twice")
        self.scope, self.function = outer, ""

    def append_return(self, line: int) -> None:
        """Falling off the end of a body returns."""
        self.code.append(
            Instruction("ret", (), None, self.tokens[self.at - 1].line or line, len(self.code),
                        self.function, self.loc, None)
        )  # fmt: skip

    def parameters(self) -> list[Variable | Reg]:
        found: list[Variable | Reg] = []
        while not self.accept(")"):
            if self.accept(".reg"):
                kind, _ = self.scalar_type()
                name = self.take("name")
                register = self.new_register(name, kind)
                self.scope.registers[name] = register
                found.append(register)
            else:
                self.expect(".param")
                variable = self.declarator("param")
                self.scope.variables[variable.name] = variable
                found.append(variable)
            if not self.accept(","):
                self.expect(")")
                break
        return found

    def block(self) -> None:
        """Statements up to the matching brace (already open)."""
        opened = self.tokens[self.at - 1]
        while not self.accept("}"):
            token = self.token
            text = token.text
            if token.kind == "name":
                if self.tokens[self.at + 1].text == ":":
                    self.label()
                else:
                    self.instruction(None)
            elif text == "@":
                self.at += 1
                negated = self.accept("!")
                guard = self.register(self.take("name"))
                if guard.type.bits != 1:
                    self.fail(f"expected a predicate register, got {guard}", token)
                self.instruction((guard, negated))
            elif text == ".reg":
                self.register_declaration()
            elif text == ".loc":
                self.location()
            elif text in _SPACES:
                self.variable_declaration()
            elif text == "{":
                self.at += 1
                self.scope = _Scope(self.scope)
                self.block()
                self.scope = self.scope.outer or self.globals
            elif text == ";":
                self.at += 1
            elif text == ".pragma":
                while not self.accept(";"):
                    self.at += 1
                    if self.token.kind == "end":
                        self.fail("expected ';' after .pragma")
            elif text == ".file":
                self.file()
            elif token.kind == "end":
                self.fail("expected '}' to close this brace", opened)
            else:
                self.fail(f"expected a statement, got '{text}'")

    def label(self) -> None:
        name = self.take("name")
        self.expect(":")
        if self.token.text in (".callprototype", ".branchtargets", ".calltargets"):
            kind = self.take("directive")
            names: list[str] = []
            while not self.accept(";"):
                if self.token.kind == "end":
                    self.fail(f"expected ';' after {kind}")
                if self.token.kind == "name":
                    names.append(self.token.text)
                self.at += 1
            if kind != ".callprototype":
                self.scope.tables[name] = names
            else:
                self.scope.tables.setdefault(name, [])
            return
        if name in self.scope.labels:
            self.fail(f"label '{name}' is defined twice in one scope", self.tokens[self.at - 2])
        self.scope.labels[name] = len(self.code)

    def instruction(self, guard: tuple[Reg, bool] | None) -> None:
        line = self.token.line
        opcode = self.take("name")
        operands: list[Operand] = []
        if not self.accept(";"):
            operands.append(self.operand())
            while self.accept(","):
                operands.append(self.operand())
            self.expect(";")
        pc = len(self.code)
        ir = self.ir.get(line) or self.ir.get(self.tokens[self.at - 1].line)
        self.code.append(
            Instruction(opcode, tuple(operands), guard, line, pc, self.function, self.loc, ir)
        )
        if any(isinstance(o, _Name) for o in operands):
            self.fixups.append((pc, self.scope))

    # Operands.

    def operand(self) -> Operand:
        token = self.token
        text = token.text
        if token.kind == "name":
            self.at += 1
            first = self.named(text)
            if self.accept("|"):
                return Pair(self.known(first), self.known(self.operand()))
            if isinstance(first, Sym) and self.token.text in ("+", "-"):
                return Sym(first.variable, self.constant_tail())
            return first
        if text == "[":
            self.at += 1
            item = self.address()
            if self.accept("]"):
                return item
            items: list[Operand] = [item]
            while self.accept(","):
                items.append(self.known(self.operand()))
            self.expect("]")
            return Bracket(tuple(items))
        if text == "{":
            self.at += 1
            return Vector(tuple(self.operand_list("}")))
        if text == "(" and self.tokens[self.at + 1].kind != "number":
            self.at += 1
            return Group(tuple(self.operand_list(")")))
        if text == "!":
            self.at += 1
            return Not(self.known(self.operand()))
        if token.kind == "number" or text in ("-", "+", "("):
            return self.immediate()
        self.fail(f"expected an operand, got '{text}'")

    def operand_list(self, close: str) -> list[Operand]:
        items: list[Operand] = []
        while not self.accept(close):
            items.append(self.known(self.operand()))
            if not self.accept(","):
                self.expect(close)
                break
        return items

    def known(self, operand: Operand) -> Operand:
        """Labels and functions, which may be named before they are defined, stand alone."""
        if isinstance(operand, _Name):
            self.fail(f"unknown name '{operand}'", self.tokens[self.at - 1])
        return operand

    def constant_tail(self) -> int:
        negative = self.token.text == "-"
        self.at += 1
        value = self.constant()
        return -value if negative else value

    def address(self) -> Operand:
        token = self.token
        if token.kind == "name":
            self.at += 1
            base = self.named(token.text)
        else:
            base = self.immediate()
        if not isinstance(base, (Reg, Sym, Imm, Special)):
            self.fail(f"expected an address, got '{token.text}'", token)
        offset = self.constant_tail() if self.token.text in ("+", "-") else 0
        return Address(base, offset)

    def named(self, name: str) -> Operand:
        if name == "_":
            return Sink()
        if name == "WARP_SZ":
            return Imm("int", 32)
        register = self.find_register(name)
        if register is not None:
            return register
        variable = self.lookup_variable(name)
        if variable is not None:
            return Sym(variable)
        if name.startswith("%"):
            return Special(name)
        return _Name(name)  # type: ignore[return-value]

    def register(self, name: str) -> Reg:
        found = self.find_register(name)
        if found is None:
            self.fail(f"unknown register '{name}'", self.tokens[self.at - 1])
        return found

    def find_register(self, name: str) -> Reg | None:
        scope: _Scope | None = self.scope
        register = scope.registers.get(name)
        if register is not None:
            return register
        numbered = _NUMBERED.match(name)
        while scope is not None:
            if name in scope.registers:
                return scope.registers[name]
            if numbered:
                found = scope.ranges.get(numbered.group(1))
                if found and int(numbered.group(2)) < found[0]:
                    register = self.new_register(name, found[1])
                    scope.registers[name] = register
                    return register
            scope = scope.outer
        return None

    def lookup_variable(self, name: str) -> Variable | None:
        scope: _Scope | None = self.scope
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.outer
        return None

    def resolve(self, pc: int, scope: _Scope) -> None:
        """Replace the names of labels and functions, which may be used before they are defined."""
        instruction = self.code[pc]
        operands = tuple(
            self.target_of(o, scope, instruction) if isinstance(o, _Name) else o
            for o in instruction.operands
        )
        object.__setattr__(instruction, "operands", operands)

    def target_of(self, name: _Name, scope: _Scope, instruction: Instruction) -> Operand:
        inner: _Scope | None = scope
        while inner is not None:
            if name.name in inner.labels:
                return Label(name.name, inner.labels[name.name])
            if name.name in inner.tables:
                names = inner.tables[name.name]
                targets = [self.target_of(_Name(n), inner, instruction) for n in names]
                return Label(name.name, -1, tuple(t.pc for t in targets if isinstance(t, Label)))
            inner = inner.outer
        if name.name in self.functions or name.name == "vprintf":
            return FunctionRef(name.name)
        raise instruction.malformed(f"unknown name '{name.name}'")


class _Name:
    """A name that is a label or a function, resolved at the end of the text."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


@functools.lru_cache(maxsize=32)
def parse(text: str) -> Module:
    """The module that ``text`` declares; cached by text. ``EmulatorError`` (``CD-PTX``) if
    malformed.
    """
    try:
        return _Parser(text).module()
    except RecursionError:
        raise EmulatorError("the text nests too deeply") from None
    except (ValueError, OverflowError) as error:
        raise EmulatorError(f"malformed number: {error}") from None

"""Instructions that a program spells itself, on single numbers: a text of PTX statements whose
operands are `$0`, `$1`, ... (the results, then the operands), numbers, and names of its own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AnyAttr, prop_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import Pure

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

Operand = str | int | float
"""A name (`$1`, `%t`) or a number."""
_DECLARATION = re.compile(r"\.reg\s+\.\w+\s+(%?[A-Za-z_]\w*)(\s*,\s*%?[A-Za-z_]\w*)*")
_STATEMENT = re.compile(r"([a-z][a-z0-9]*(?:\.[\w:]+)+)\s+(.+)")
_NAME = re.compile(r"\$\d+|%?[A-Za-z_]\w*")
_BITS_OF_FLOAT = re.compile(r"0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})")


@dataclass(frozen=True)
class Statement:
    """One instruction: its mnemonic, the name of what it gives, and what it reads."""

    text: str
    mnemonic: str
    result: str
    operands: tuple[Operand, ...]


def _number(text: str) -> Operand:
    """A literal, or a name."""
    bits = _BITS_OF_FLOAT.fullmatch(text)
    if bits is not None:
        code = "f" if bits[1] in "fF" else "d"
        check(
            len(bits[2]) == struct.calcsize(code) * 2, f"expected the bits of a float, got {text}"
        )
        return struct.unpack(f">{code}", bytes.fromhex(bits[2]))[0]
    for kind in (lambda x: int(x.rstrip("U"), 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    check(
        _NAME.fullmatch(text) is not None,
        f"expected a number, a name or a placeholder such as $0, got '{text}'",
    )
    return text


def statements(text: str) -> tuple[Statement, ...]:
    """The instructions of a text; VerifyException where it is none of straight code.

    >>> statements(".reg .b32 t; shl.b32 t, $1, 2; add.s32 $0, t, $2;")[1].operands
    ('t', '$2')
    """
    found: list[Statement] = []
    for line in filter(None, (part.strip() for part in text.split(";"))):
        if _DECLARATION.fullmatch(line):
            continue
        match = _STATEMENT.fullmatch(line)
        check(
            match is not None and not any(sign in line for sign in "@{}[]|"),
            "expected instructions that compute numbers, without predicates, vectors, addresses "
            f"and labels, got '{line}'",
        )
        assert match is not None
        result, *operands = [operand.strip() for operand in match[2].split(",")]
        check(_NAME.fullmatch(result) is not None, f"expected a result in front, got '{line}'")
        found.append(Statement(line, match[1], result, tuple(map(_number, operands))))
    check(bool(found), "expected an instruction, got none")
    return tuple(found)


@irdl_op_definition
class InlinePtxOp(IRDLOperation):
    """Numbers that instructions of the program's own give: of scalars, or of elements in the body
    of a map. They compute and do nothing else.

    Example:

        cute.kernel @k(%a: i32, %b: i32) {
          %r = cute.inline_ptx "lop3.b32 $0, $1, $2, 0, 0x3C;" (%a, %b) : (i32, i32) -> i32
        }
    """

    name = "cute.inline_ptx"
    text = prop_def(StringAttr)
    inputs = var_operand_def(AnyAttr())
    outputs = var_result_def(AnyAttr())
    traits = traits_def(Pure())
    assembly_format = "$text `(` $inputs `)` attr-dict `:` functional-type(operands, results)"

    def __init__(self, text: str, inputs: Sequence[SSAValue], outputs: Sequence[Attribute]) -> None:
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(outputs)],
            properties={"text": StringAttr(text)},
        )

    def verify_(self) -> None:
        count = len(self.outputs)
        known = {f"${count + place}" for place in range(len(self.inputs))}
        for statement in statements(self.text.data):
            for operand in statement.operands:
                if isinstance(operand, str):
                    check(
                        operand in known,
                        f"expected what '{statement.text}' reads to be an operand (${count} to "
                        f"${count + len(self.inputs) - 1}) or given before, got {operand}",
                    )
            place = statement.result
            check(
                not place.startswith("$") or int(place[1:]) < count,
                f"expected a result ($0 to ${count - 1}) or a name in front of "
                f"'{statement.text}', got {place}",
            )
            known.add(place)
        missing = [f"${place}" for place in range(count) if f"${place}" not in known]
        check(not missing, f"expected a value for {', '.join(missing)}, got none")

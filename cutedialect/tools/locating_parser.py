"""xDSL's parser with four things it lacks: every operation gets the line and column it was read
from, every failure inside an attribute or operation becomes a located `ParseError`, an attribute
that nothing reads is one too, and no text makes it hang (xDSL 0.74 reads an unterminated string in
exponential time and expands splats of any size).
"""

from __future__ import annotations

import bisect
import math
import re

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyDenseElement,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    RankedStructure,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, AttributeInvT, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from cutedialect import environment
from cutedialect.dialects.discardable import known_attributes, unknown_attribute
from cutedialect.tools.diagnostics import did_you_mean, nearest

# MLIR's own limit on integer types; xDSL computes 1 << width without one.
MAX_INTEGER_WIDTH = (1 << 24) - 1
# A splat is stored element by element.
MAX_DENSE_ELEMENTS = 1 << 22

_INTEGER_TYPE = re.compile(r"[su]?i([0-9]+)$")


class LinearLexer(MLIRLexer):
    """The lexer with a string rule that never backtracks (possessive quantifiers)."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class LocatingParser(Parser):
    """Parses one module; raises nothing but `ParseError` (or what went wrong itself under
    CUTEDIALECT_DEBUG=1, when that was not an error of the text by design).
    """

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        super().__init__(ctx, "", name)
        source = Input(text, name)
        self._file = StringAttr(name)
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._first_uses: dict[str, Span] = {}
        self._op_start: Span | None = None
        # Where each attribute of the operation that is read began.
        self._entries: dict[str, Span] = {}
        lexer = LinearLexer(source)
        self._parser_state.lexer = lexer
        self._parser_state.current_token = lexer.lex()

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        try:
            module = super().parse_module(allow_implicit_module)
            if isinstance(module.location, UnknownLoc):
                module.location = self._location_at(0)
            return module
        except ParseError as error:
            raise self._clearer(error) from None
        except RecursionError:
            raise self._malformed("nested too deeply to read") from None
        except Exception as error:
            if environment.debug():
                raise
            text = str(error).strip()
            if not isinstance(error, VerifyException):
                text = f"{type(error).__name__}: {text}"
            raise self._malformed(f"malformed text: {text}") from error

    def parse_operation(self) -> Operation:
        start = self._current_token.span
        self._op_start = start
        around, self._entries = self._entries, {}
        try:
            op = super().parse_operation()
        except VerifyException as error:
            raise ParseError(start, str(error).strip()) from error
        name = unknown_attribute(op)
        if name is not None:
            known = list(known_attributes(op))
            raise ParseError(
                self._entries.get(name, start),
                f"unknown attribute '{name}' of '{op.name}', which has "
                f"{', '.join(known) or 'none'}{nearest(name, known)}",
            )
        self._entries = around
        if isinstance(op.location, UnknownLoc):
            op.location = self._location_at(start.start)
        return op

    def parse_optional_type(self) -> TypeAttribute | None:
        start = self._current_token.span
        try:
            return super().parse_optional_type()
        except VerifyException as error:
            raise self._invalid_since(start.start, error) from error
        except ParseError as error:
            raise self._unknown_name(start, error) from None

    def parse_optional_attribute(self) -> Attribute | None:
        start = self._current_token.span
        try:
            return super().parse_optional_attribute()
        except VerifyException as error:
            raise self._invalid_since(start.start, error) from error
        except ParseError as error:
            raise self._unknown_name(start, error) from None

    def _parse_attribute_entry(self) -> tuple[str, Attribute]:
        start = self._current_token.span
        entry = super()._parse_attribute_entry()
        self._entries.setdefault(entry[0], start)
        return entry

    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is not None:
            return found
        dialect, dot, _ = name.partition(".")
        if dot and dialect not in self.ctx.registered_dialect_names:
            hint = did_you_mean(dialect, self.ctx.registered_dialect_names)
            self.raise_error(f"unknown dialect '{dialect}' of operation '{name}'{hint}", self._op())
        known = [op.name for op in self.ctx.loaded_ops]
        self.raise_error(f"unknown operation '{name}'{did_you_mean(name, known)}", self._op())

    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        if operand.operand_name not in self.ssa_values:
            self._first_uses.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        width = _INTEGER_TYPE.match(self._current_token.text)
        # Nine digits are too many already, and int() refuses thousands of them.
        if width and (len(width[1]) > 8 or int(width[1]) > MAX_INTEGER_WIDTH):
            self.raise_error(f"expected an integer width of at most {MAX_INTEGER_WIDTH} bits")
        return super()._parse_optional_integer_or_float_type()

    def _parse_dense_literal_type(self) -> RankedStructure[AnyDenseElement]:
        start = self.pos
        type = super()._parse_dense_literal_type()
        elements = math.prod(type.get_shape())
        if elements > MAX_DENSE_ELEMENTS:
            self.raise_error(
                f"expected a dense literal of at most {MAX_DENSE_ELEMENTS} elements, "
                f"got {elements}",
                start,
                max(start + 1, self.pos),
            )
        return type

    def at_end(self) -> bool:
        """Whether nothing is left to read but blanks and comments."""
        return self._current_token.kind is MLIRTokenKind.EOF

    def _clearer(self, error: ParseError) -> ParseError:
        """The same error with what xDSL's wording leaves out."""
        if error.msg.startswith("values used but not defined"):
            missing = [
                (span.start, name, span)
                for name, span in self._first_uses.items()
                if name in self.forward_ssa_references
            ]
            if missing:
                _, name, span = min(missing)
                return ParseError(span, f"value %{name} is used but not defined")
        if error.msg == "Could not parse entire input!":
            found = "the end of the text" if self.at_end() else f"'{self._current_token.text}'"
            return ParseError(error.span, f"expected an operation, got {found}")
        return error

    def _op(self) -> Span:
        return self._op_start if self._op_start is not None else self._current_token.span

    def _malformed(self, message: str) -> ParseError:
        return ParseError(self._current_token.span, message)

    def _invalid_since(self, start: int, error: VerifyException) -> ParseError:
        end = max(start + 1, self._current_token.span.start)
        text = self.lexer.input.content[start:end].rstrip()
        span = Span(start, start + max(1, len(text)), self.lexer.input)
        return ParseError(span, str(error).strip())

    def _unknown_name(self, start: Span, error: ParseError) -> ParseError:
        """xDSL points behind an unknown type or attribute; point at it and name the nearest."""
        name = start.text[1:]
        if error.msg == f"'{name}' is not registered":
            kind, known = "attribute", [attribute.name for attribute in self.ctx.loaded_attrs]
            if start.text.startswith("!"):
                kind, known = "type", [type.name for type in self.ctx.loaded_types]
            return ParseError(start, f"unknown {kind} '{name}'{did_you_mean(name, known)}")
        if error.msg == f"undefined symbol alias '{start.text}'":
            known = list(self.attribute_aliases)
            return ParseError(start, f"undefined alias '{start.text}'{did_you_mean(name, known)}")
        return error

    def _location_at(self, offset: int) -> FileLineColLoc:
        line = bisect.bisect_right(self._line_starts, offset)
        column = offset - self._line_starts[line - 1] + 1
        return FileLineColLoc(self._file, IntAttr(line), IntAttr(column))

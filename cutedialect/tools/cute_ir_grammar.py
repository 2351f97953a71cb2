"""Whether printed IR is legal CuTe IR: it has operations and types of that dialect alone, beside
those of MLIR that NVIDIA's `cute-opt` reads, and each operation has the syntax that its definition
there says. `python -m cutedialect.tools.cute_ir_tests FOLDER --printed` looks at what we print; the
definitions (`CuteOps.td`) are read from the checkout.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect, Operation
from xdsl.printer import Printer

from cutedialect.dialects import OURS, all_dialects
from cutedialect.dialects.cute import (
    ComposedLayoutAttr,
    ComposedLayoutType,
    LayoutAttr,
    LayoutType,
    SwizzleAttr,
    SwizzleType,
)
from cutedialect.dialects.cute.algebra import ATTRIBUTES, OPS
from cutedialect.dialects.walks import walk
from cutedialect.tools.locating_parser import LocatingParser
from cutedialect.tools.module_verifier import verify_module

# The dialects of MLIR that NVIDIA's `cute-opt` registers and that printed IR may have.
MLIR = ("builtin", "arith", "cf", "func", "gpu", "llvm", "math", "scf", "ub")
# Types and attributes of the dialect that are layouts, beside the tuples.
_LAYOUTS = (
    LayoutAttr, LayoutType, ComposedLayoutAttr, ComposedLayoutType, SwizzleAttr, SwizzleType,
)  # fmt: skip
_DEFINITION = re.compile(
    r'^def \w+\s*:\s*Cute_\w*Op\w*<\s*"(\w+)"(.*?)^}', re.MULTILINE | re.DOTALL
)
_FORMAT = re.compile(r'let assemblyFormat\s*=\s*(?:"(.*?)"|\[\{(.*?)\}\])\s*;', re.DOTALL)
_ELEMENT = re.compile(
    r"`([^`]*)`|attr-dict|functional-type\([^()]*\)|qualified\(type\([^()]*\)\)|type\([^()]*\)|"
    r"\$(\w+)(\^?)|operands|results|\(|\)\?|\s+"
)

_VALUE = r"%[\w.$-]+(?:#\d+)?"
_VALUES = rf"(?:{_VALUE}(?:, {_VALUE})*)?"
_INNER = r'<(?:"[^"]*"|[^<>"]|<[^<>]*>)*>'
_TYPE = rf"(?:![\w.]+(?:{_INNER})?|[a-z]\w*(?:{_INNER})?)"
_TYPES = rf"(?:{_TYPE}(?:, {_TYPE})*)?"
# Where a format does not ask for the qualified type, its name may be left out.
_SHORT = rf"(?:{_TYPE}|{_INNER})(?:, (?:{_TYPE}|{_INNER}))*"
_ATTRIBUTE = r'(?:\[[\d, ]*\]|-?\d+|"[^"]*"|array<[^>]*>)'
_DICTIONARY = r"(?:\s*\{[^{}]*\})?"


def cute_ir_context() -> Context:
    """A context of CuTe IR without our extensions."""
    context = Context()
    for name, load in all_dialects().items():
        if name in MLIR:
            context.register_dialect(name, load)
    context.load_dialect(Dialect("cute", list(OPS.values()), [*ATTRIBUTES, *_LAYOUTS]))
    return context


def read_again(text: str, name: str = "<printed>") -> ModuleOp:
    """Parse and verify a text that has CuTe IR alone.

    Raises what the parser and the verifier raise for anything else.
    """
    module = LocatingParser(cute_ir_context(), text, name).parse_module()
    verify_module(module)
    return module


def has_extensions(text: str) -> bool:
    """Whether a text has operations of ours beside those of CuTe IR."""
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = LocatingParser(context, text, "<printed>").parse_module()
    theirs = {f"cute.{name}" for name in OPS}
    return any(op.name.partition(".")[0] in OURS and op.name not in theirs for op in walk(module))


def read_formats(definitions: str) -> dict[str, re.Pattern[str]]:
    """Operation to what its declarative assembly format accepts, from TableGen text."""
    formats: dict[str, re.Pattern[str]] = {}
    for found in _DEFINITION.finditer(definitions):
        declared = _FORMAT.search(found[2])
        if declared is not None:
            formats[f"cute.{found[1]}"] = re.compile(_pattern(declared[1] or declared[2]))
    return formats


def _pattern(declared: str) -> str:
    """A regular expression for the elements of an assembly format. Space between tokens is free."""
    parts: list[str] = []
    at = 0
    while at < len(declared):
        found = _ELEMENT.match(declared, at)
        if found is None:
            raise ValueError(f"expected an element of an assembly format, got {declared[at:]!r}")
        parts.append(_element(found, declared, at))
        at = found.end()
    return r"\s*".join(part for part in parts if part) + r"\s*"


def _element(found: re.Match[str], declared: str, at: int) -> str:
    text = found[0]
    if text.startswith("`"):
        return re.escape(found[1].strip())
    if text.startswith("$"):
        # The unit attribute that an optional group stands for is not written.
        if found[3] and declared[:at].rstrip().endswith("`>`"):
            return ""
        return rf"(?:{_VALUES}|{_ATTRIBUTE})"
    if text.startswith("functional-type"):
        return rf"\({_TYPES}\)\s*->\s*(?:{_TYPE}|\({_TYPES}\))"
    if text.startswith("qualified"):
        return _TYPES
    if text.startswith("type"):
        return _SHORT
    return {"attr-dict": _DICTIONARY, "operands": _VALUES, "(": "(?:", ")?": ")?"}.get(text, "")


def misspelled(module: ModuleOp, formats: dict[str, re.Pattern[str]]) -> Iterator[str]:
    """The operations of the cute dialect that are not printed as their formats say."""
    for op in walk(module):
        declared = formats.get(op.name)
        if declared is None:
            if op.name.startswith("cute."):
                yield f"{op.name}: no such operation there"
            continue
        text = str(op)
        spelled = text.partition(op.name)[2].strip()
        if declared.fullmatch(spelled) is None:
            yield f"{text}\n  its format there: {declared.pattern}"


class _GenericCutePrinter(Printer):
    """Operations of the cute dialect in generic form, all others as they are."""

    def print_op(self, op: Operation) -> None:
        outer, self.print_generic_format = self.print_generic_format, op.name.startswith("cute.")
        super().print_op(op)
        self.print_generic_format = outer


def for_mlir(module: ModuleOp) -> str:
    """The module for a parser of MLIR that does not know the cute dialect: its operations in
    generic form, its names those of a dialect that nobody has.
    """
    out = StringIO()
    _GenericCutePrinter(stream=out).print_op(module)
    return re.sub(r'(?<=["!#])cute\.', "cute_of_another.", out.getvalue())


_ASK_MLIR = """
import json, sys
from cutlass._mlir import ir
faults = []
for name, text in json.load(sys.stdin):
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        try:
            ir.Module.parse(text).operation.verify()
        except Exception as error:
            faults.append([name, str(error)])
json.dump(faults, sys.stdout)
"""


def refused_by_mlir(python: str, texts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """(name, error) of the texts that MLIR's own parser and verifier refuse: those of NVIDIA's
    wheel `nvidia-cutlass-dsl`, which the interpreter `python` can import.

    Raises CalledProcessError where it cannot.
    """
    done = subprocess.run(
        [python, "-c", _ASK_MLIR], input=json.dumps(list(texts)), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return [(name, error) for name, error in json.loads(done.stdout)]

"""What `cute-opt` shows between passes: the IR before or after the passes that were asked for, on
stderr or as numbered files, and the time that each pass took.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from cutedialect.backend.runtime.written_files import write_whole
from cutedialect.dialects.printing import QuickPrinter
from cutedialect.tools.diagnostics import Diagnostic, Position, ReportedError
from cutedialect.tools.streams import reason_of


class ModulePrinter(QuickPrinter):
    """The printer of IR with MLIR's spelling where xDSL's differs: several results of an op of the
    layout algebra have one name, `%0:2`, and a struct in a struct of LLVM no prefix.
    """

    def _print_results(self, op: Operation) -> None:
        if len(op.results) < 2 or not hasattr(op, "ROW"):
            super()._print_results(op)
            return
        first = op.results[0]
        name = self.print_ssa_value(first)
        for number, result in enumerate(op.results):
            self._ssa_values[result] = f"{name}#{number}"
        self.print_string(f":{len(op.results)} = ")

    def print_attribute(self, attribute: Attribute) -> None:
        if attribute.name == "llvm.struct":
            self.print_string("!llvm.")
            self._print_struct(attribute)
        else:
            super().print_attribute(attribute)

    def _print_struct(self, struct: Attribute) -> None:
        """A struct without its dialect, which MLIR leaves out inside of another."""
        from xdsl.dialects.llvm import LLVMStructType

        if not isinstance(struct, LLVMStructType) or struct.struct_name.data:
            super().print_attribute(struct)
            return
        self.print_string("struct<(")
        for position, inner in enumerate(struct.types.data):
            if position:
                self.print_string(", ")
            if isinstance(inner, LLVMStructType):
                self._print_struct(inner)
            else:
                self.print_attribute(inner)
        self.print_string(")>")


@dataclass(frozen=True)
class PrintStyle:
    """How IR is written: MLIR's generic form, with locations."""

    generic: bool = False
    debuginfo: bool = False

    def text(self, module: ModuleOp) -> str:
        """The module as text, ending in a newline."""
        printer = ModulePrinter(print_generic_format=self.generic, print_debuginfo=self.debuginfo)
        printer.print_op(module)
        return printer.text() + "\n"


@dataclass(frozen=True)
class DumpOptions:
    """Which passes to show; `before` and `after` are pass names, `tree` the folder for files."""

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before_all: bool = False
    after_all: bool = False
    after_change: bool = False
    after_failure: bool = False
    tree: Path | None = None

    @property
    def any_chosen(self) -> bool:
        """Whether some flag chose passes; a lone `tree` means the IR after each."""
        return bool(self.before or self.after) or (
            self.before_all or self.after_all or self.after_change or self.after_failure
        )


@dataclass
class PassDumps:
    """Shows the IR around each pass of one module, as `options` ask."""

    options: DumpOptions
    style: PrintStyle
    stream: TextIO
    folder: Path | None = None
    number: int = 0
    _previous: str = ""

    def before(self, name: str, module: ModuleOp) -> None:
        """Called with the pass that is about to run."""
        self.number += 1
        if self.options.before_all or name in self.options.before:
            self._show("Before", name, self.style.text(module))
        if self.options.after_change:
            self._previous = self.style.text(module)

    def after(self, name: str, module: ModuleOp) -> None:
        """Called with the pass that has run and left valid IR."""
        options = self.options
        lone_tree = self.folder is not None and not options.any_chosen
        if options.after_all or lone_tree or name in options.after:
            self._show("After", name, self.style.text(module))
        elif options.after_change:
            text = self.style.text(module)
            if text != self._previous:
                self._show("After", name, text)

    def around(self, name: str, module: ModuleOp, when: str) -> None:
        """Called before and after a pass that stands for others, which are shown on their own."""
        asked = self.options.before if when == "before" else self.options.after
        if name in asked:
            self._show(when.capitalize(), name, self.style.text(module))

    def failed(self, name: str, module: ModuleOp) -> None:
        """Called with the pass that failed or left invalid IR."""
        if self.options.after_failure or self.options.after_all:
            try:
                text = self.style.text(module)
            except Exception as error:
                text = f"// the IR cannot be printed: {type(error).__name__}: {error}\n"
            self._show("After", name, text, " Failed")

    def _show(self, when: str, name: str, text: str, how: str = "") -> None:
        if self.folder is not None:
            suffix = ".before" if when == "Before" else ""
            suffix += how.strip().lower() and ".failed"
            path = self.folder / f"{self.number:02d}-{name}{suffix}.mlir"
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_whole(path, text.encode())
            except OSError as error:
                message = f"cannot write the IR: {reason_of(error)}"
                raise ReportedError(
                    Diagnostic(message, Position(str(path), 1, 1), width=0)
                ) from None
        else:
            self.stream.write(f"// -----// IR Dump {when} {name}{how} //----- //\n{text}\n")


@dataclass
class Timing:
    """Wall time by label, in the order of first appearance."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def measure(self, label: str) -> Iterator[None]:
        """Add the time of the body to `label`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[label] = self.seconds.get(label, 0.0) + elapsed

    def table(self) -> str:
        """MLIR's kind of report: milliseconds and share of the total for each label."""
        total = sum(self.seconds.values())
        lines = [
            "===" + "-" * 60 + "===",
            "... Execution time report ...".center(66).rstrip(),
            "===" + "-" * 60 + "===",
            f"  Total execution time: {total * 1e3:.2f} ms",
            "",
            "  ---- wall (ms) ----  ---- name ----",
        ]
        for label, seconds in self.seconds.items():
            share = 100 * seconds / total if total else 0.0
            lines.append(f"  {seconds * 1e3:10.3f} ({share:5.1f}%)  {label}")
        lines.append(f"  {total * 1e3:10.3f} (100.0%)  Total")
        return "\n".join(lines) + "\n"

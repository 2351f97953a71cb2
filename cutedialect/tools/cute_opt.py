"""`cute-opt`: MLIR text in, passes, MLIR or PTX text out. Every fault ends in one located error on
stderr and exit code 1 for the input, 2 for the command line; a traceback needs
`CUTEDIALECT_DEBUG=1`. `CuteOpt` is the same tool as an object, so that a test runner can call it
hundreds of times in one process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TextIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ParseError
from xdsl.utils.target import Target

import cutedialect
from cutedialect import environment
from cutedialect.backend.runtime.progress_line import ProgressLine
from cutedialect.backend.runtime.written_files import write_whole
from cutedialect.dialects import all_dialects
from cutedialect.passes import all_passes
from cutedialect.passes.cute_to_ptx import CuteToPtxPass
from cutedialect.remarks import collecting
from cutedialect.tools import command_line, interpretation
from cutedialect.tools.command_line import CommandLine
from cutedialect.tools.diagnostics import (
    Diagnostic,
    Position,
    ReportedError,
    from_failure,
    from_parse_error,
    from_remark,
    is_users_fault,
    one_line,
)
from cutedialect.tools.expected_errors import compare, read_expected
from cutedialect.tools.ir_dumps import PassDumps, Timing
from cutedialect.tools.locating_parser import LocatingParser
from cutedialect.tools.module_verifier import verify_module
from cutedialect.tools.pipeline_text import parse_pipeline, parse_target, pipeline_spelled
from cutedialect.tools.reproducers import read_reproducer, with_pipeline, without_reproducer
from cutedialect.tools.streams import drop_output, open_streams, output_fault, reason_of
from cutedialect.tools.targets import all_targets

_SEPARATOR = re.compile(r"^[ \t]*// -----[ \t]*\r?$", re.MULTILINE)


class CuteOpt:
    """One run of the tool: `CuteOpt(argv, stdin, stdout, stderr).run()` is its exit code."""

    def __init__(
        self,
        argv: Sequence[str],
        stdin: IO[str] | IO[bytes] | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.argv = list(argv)
        self.stdin = stdin if stdin is not None else sys.stdin.buffer
        self.stdout = stdout if stdout is not None else sys.stdout
        self.stderr = stderr if stderr is not None else sys.stderr
        self.sources = {command_line.SOURCE: command_line.shown(argv)}
        self.passes = all_passes()
        self.targets = all_targets()

    def run(self) -> int:
        """Run and return 0, or after writing the errors to stderr 1 for a fault of the input or
        the output, 2 for one of the command line or the environment.
        """
        try:
            self._check_environment()
            options = command_line.parse_command_line(self.argv, self.passes)
            if self._tells(options):
                return 0
            self.sources[options.pipeline_source] = options.pipeline
            self.sources["<target>"] = options.target
            pipeline = parse_pipeline(options.pipeline, self.passes, options.pipeline_source)
            target = parse_target(options.target, self.targets)
            if options.dump_pass_pipeline:
                self.stderr.write(f"{pipeline_spelled(pipeline)}\n")
        except ReportedError as error:
            self._report(error.diagnostic)
            return 2
        try:
            return self._transform(options, pipeline, target)
        except ReportedError as error:
            self._report(error.diagnostic)
            return 1

    def _check_environment(self) -> None:
        place = Position("<environment>", 1, 1)
        try:
            misspelled = environment.check()
        except ValueError as error:
            raise ReportedError(Diagnostic(str(error), place)) from None
        for text in misspelled:
            self._report(Diagnostic(text, place, "warning"))

    def _tells(self, options: CommandLine) -> bool:
        """Write what a flag asks to know; False where none does."""
        if options.help:
            self.stdout.write(command_line.help_text(self.passes, self.targets))
        elif options.version:
            from importlib.metadata import version

            self.stdout.write(
                f"cute-opt {cutedialect.__version__} (xdsl {version('xdsl')}, "
                f"Python {platform.python_version()})\n"
            )
        elif options.list_passes:
            self.stdout.write("".join(self._described_passes()))
        elif options.show_dialects:
            self.stdout.write("".join(f"{name}\n" for name in all_dialects()))
        else:
            return False
        return True

    def _transform(
        self, options: CommandLine, pipeline: tuple[ModulePass, ...], target: Target
    ) -> int:
        name, text = self._read_input(options.input)
        self.sources[name] = text
        if options.run_reproducer:
            options, pipeline = self._reproduced(options, name, text)
        text = without_reproducer(text)
        if options.reduce:
            return self._reduce(options, name, text, pipeline, target)

        timing = Timing()
        outputs: list[str] = []
        exit_code = 0
        for number, chunk in enumerate(_chunks(text) if options.split_input_file else [text]):
            one = _Chunk(options, name, chunk, pipeline, target, self.stderr, number, timing)
            produced = one.process()
            if options.verify_diagnostics:
                expected, faults = read_expected(chunk, name)
                faults += compare(expected, produced)
            else:
                faults = produced
            for fault in faults:
                self._report(fault)
            if any(fault.severity == "error" for fault in faults):
                exit_code = 1
            if one.output is not None:
                outputs.append(one.output)
        # A failed run replaces no output file; what did succeed is still shown on stdout.
        if exit_code == 0 or options.output in (None, "-"):
            self._write_output(options.output, "// -----\n\n".join(outputs))
        if options.timing:
            self.stderr.write(timing.table())
        return exit_code

    def _reproduced(
        self, options: CommandLine, name: str, text: str
    ) -> tuple[CommandLine, tuple[ModulePass, ...]]:
        """The passes that the input names, and the options with what it says of them."""
        read = read_reproducer(text)
        if read is None:
            raise ReportedError(
                Diagnostic(
                    "expected a reproducer, with mlir_reproducer and its pipeline among the file's "
                    "external_resources, got none",
                    Position(name, 1, 1),
                )
            )
        source = "<mlir_reproducer>"
        self.sources[source], verify_each = read
        pipeline = parse_pipeline(read[0], self.passes, source)
        return dataclasses.replace(options, verify_each=verify_each), pipeline

    def _reduce(
        self,
        options: CommandLine,
        name: str,
        text: str,
        pipeline: tuple[ModulePass, ...],
        target: Target,
    ) -> int:
        """Write the smallest input that fails as the first part of this one that does."""
        from cutedialect.tools import reducer

        quiet = dataclasses.replace(
            options, reproducer=None, dumps=dataclasses.replace(options.dumps, tree=None)
        )

        def chunk(part: str) -> _Chunk:
            return _Chunk(quiet, name, part, pipeline, target, io.StringIO(), 0, Timing())

        def failure(part: str) -> str | None:
            errors = [one for one in chunk(part).process() if one.severity == "error"]
            return reducer.failure_of(errors[0].message) if errors else None

        parts = list(_chunks(text)) if options.split_input_file else [text]
        part = next((one for one in parts if failure(one) is not None), None)
        wanted = None if part is None else failure(part)
        is_kept: Callable[[str], bool] = lambda one: failure(one) == wanted  # noqa: E731
        if options.reduce_test is not None:
            is_kept, wanted = reducer.by_command(options.reduce_test), options.reduce_test
            part = next((one for one in parts if is_kept(one)), None)
        if part is None:
            raise ReportedError(
                Diagnostic("expected an input that fails, got none", Position(name, 1, 1), width=0)
            )
        # The command's own stderr may be a text that a test reads.
        line = ProgressLine(self.stderr)
        reduction = reducer.Reduction(part, is_kept, line.show)

        def parse(one: str) -> ModuleOp:
            return chunk(one).parse()

        def is_module(one: str) -> bool:
            with contextlib.suppress(ReportedError):
                return bool(parse(one).name)
            return False

        whole = options.style.text(parse(part)) if is_module(part) else ""
        if whole and (whole == part or reduction.take(whole)):
            reduction.is_interesting = lambda one: is_module(one) and is_kept(one)
            reducer.reduce_module(reduction, parse, options.style.text)
        else:
            reducer.reduce_text(reduction)
        line.clear()
        self._write_output(options.output, reduction.text.rstrip("\n") + "\n")
        lines = [one.strip().count("\n") + 1 for one in (reduction.text, part)]
        self.stderr.write(
            f"{lines[0]} of {lines[1]} lines after {reduction.runs} runs fail alike: {wanted}\n"
        )
        return 0

    def _read_input(self, path: str) -> tuple[str, str]:
        """The name to show for the input, and its text."""
        name = "<stdin>" if path == "-" else path
        try:
            if path == "-":
                data = self.stdin.read()
                raw = data.encode() if isinstance(data, str) else data
            else:
                with open(path, "rb") as file:
                    raw = file.read()
        except (OSError, ValueError) as error:
            message = f"cannot read the input: {reason_of(error)}"
            raise ReportedError(Diagnostic(message, Position(name, 1, 1), width=0)) from None
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
            raise ReportedError(
                Diagnostic(
                    f"expected UTF-8 text, got the byte 0x{raw[error.start]:02x}",
                    Position(name, line, column),
                )
            ) from None
        return name, text.removeprefix("\ufeff").replace("\r\n", "\n")

    def _write_output(self, path: str | None, text: str) -> None:
        if path in (None, "-"):
            self.stdout.write(text)
            self.stdout.flush()
            return
        try:
            write_whole(Path(path), text.encode())
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            message = f"cannot write the output: {reason_of(error)}"
            raise ReportedError(Diagnostic(message, Position(path, 1, 1), width=0)) from None

    def _described_passes(self) -> Iterator[str]:
        for name, load in self.passes.items():
            try:
                cls = load()
            except ImportError as error:
                yield f"{name}\n    does not load: {one_line(str(error))}\n"
                continue
            options = [
                field.name.replace("_", "-") for field in dataclasses.fields(cls) if field.init
            ]
            spec = f"{{{' '.join(f'{option}=' for option in options)}}}" if options else ""
            summary = one_line((cls.__doc__ or "").strip().split("\n\n")[0])
            yield f"{name}{spec}\n    {summary}\n"

    def _report(self, diagnostic: Diagnostic) -> None:
        self.stderr.write(diagnostic.render(self.sources, environment.color(self.stderr)))


class _Chunk:
    """One module on its way: the text between two `// -----` lines, or the whole input."""

    def __init__(
        self,
        options: CommandLine,
        name: str,
        text: str,
        pipeline: tuple[ModulePass, ...],
        target: Target,
        stderr: TextIO,
        number: int,
        timing: Timing,
    ) -> None:
        self.options = options
        self.name = name
        self.text = text
        self.pipeline = pipeline
        self.target = target
        self.timing = timing
        self.stderr = stderr
        self.output: str | None = None
        # The module and the passes of a reproducer.
        self.kept: tuple[str, str] | None = None
        folder = options.dumps.tree
        if folder is not None and options.split_input_file:
            folder = folder / f"part-{number}"
        self.dumps = PassDumps(options.dumps, options.style, stderr, folder)
        self.ctx = Context(allow_unregistered=options.allow_unregistered)
        for dialect, load in all_dialects().items():
            self.ctx.register_dialect(dialect, load)

    def process(self) -> list[Diagnostic]:
        """Fill `output`, and return the remarks that were asked for and the diagnostic of the step
        that failed, if one did.
        """
        produced: list[Diagnostic] = []
        with collecting() as remarks:
            try:
                module = self.parse()
                self._keep(self.pipeline, module)
                self._verify(module, "verifying the input")
                if self.options.verify_roundtrip:
                    self._verify_roundtrip(module)
                if self.options.running.validate:
                    self._validate(module)
                else:
                    for one in self.pipeline:
                        self._apply(one, module)
                if self.options.protocol_trace:
                    from cutedialect.passes.protocol.check_protocol import traced

                    self.stderr.writelines(traced(module))
                with self.timing.measure("Output"):
                    self.output = self._emit(module)
            except ReportedError as error:
                produced.append(error.diagnostic)
                self._write_reproducer(produced)
        if self.options.remarks:
            produced[:0] = [from_remark(remark) for remark in remarks]
        return produced

    def _keep(self, passes: Sequence[ModulePass], module: ModuleOp) -> None:
        """Keep what a reproducer needs if one of these passes fails."""
        if self.options.reproducer is not None:
            self.kept = self.options.style.text(module), pipeline_spelled(passes)

    def _write_reproducer(self, produced: list[Diagnostic]) -> None:
        path, self.kept, kept = self.options.reproducer, None, self.kept
        if path is None or kept is None:
            return
        text = with_pipeline(*kept, self.options.verify_each)
        try:
            write_whole(Path(path), text.encode())
        except (OSError, ValueError) as error:
            message = f"cannot write the reproducer: {reason_of(error)}"
            produced.append(Diagnostic(message, Position(path, 1, 1), width=0))

    def parse(self) -> ModuleOp:
        """The module of the text. Raises `ReportedError`."""
        with self.timing.measure("Parser"):
            try:
                parser = LocatingParser(self.ctx, self.text, self.name)
                if self.options.split_input_file and parser.at_end():
                    return ModuleOp([])
                return parser.parse_module()
            except ParseError as error:
                raise ReportedError(from_parse_error(error)) from error

    def _verify(self, module: ModuleOp, doing: str) -> None:
        with self.timing.measure("Verifier"), _reported(doing, module):
            verify_module(module)

    def _verify_roundtrip(self, module: ModuleOp) -> None:
        """Print and read the input in both forms; the text has to be the same again."""
        for generic in (False, True):
            style = dataclasses.replace(self.options.style, generic=generic)
            once = style.text(module)
            with _reported("reading the printed input", module):
                again = style.text(LocatingParser(self.ctx, once, self.name).parse_module())
            if once != again:
                pairs = zip(once.splitlines(), again.splitlines(), strict=False)
                line, other = next(((a, b) for a, b in pairs if a != b), (once, again))
                form = "generic" if generic else "custom"
                raise ReportedError(
                    Diagnostic(
                        f"expected the {form} form to be read as it was printed, got "
                        f"'{other.strip()}' of '{line.strip()}'",
                        Position(self.name, 1, 1),
                    )
                )

    def _apply(self, one: ModulePass, module: ModuleOp) -> None:
        if isinstance(one, CuteToPtxPass):
            # What is shown, timed and verified are the passes that it stands for.
            self.dumps.around(one.name, module, "before")
            for step in one.steps(module):
                self._apply(step, module)
            self.dumps.around(one.name, module, "after")
            return
        self.dumps.before(one.name, module)
        if self.options.local_reproducer:
            self._keep([one], module)
        try:
            with self.timing.measure(one.name), _reported(f"running '{one.name}'", module):
                one.apply(self.ctx, module)
            if self.options.verify_each:
                self._verify(module, f"verifying what '{one.name}' left")
        except ReportedError:
            self.dumps.failed(one.name, module)
            raise
        self.dumps.after(one.name, module)

    def _validate(self, module: ModuleOp) -> None:
        """Run the passes, and up to the one that synchronizes the module after each."""
        with _reported("running the input", module):
            running = interpretation.validations(module, self.options.running)
        for one in interpretation.steps_of(self.pipeline, module):
            self._apply(one, module)
            with _reported(f"running what '{one.name}' left", module):
                running = [each for each in running if each.check(f"'{one.name}'", module)]

    def _emit(self, module: ModuleOp) -> str:
        if self.options.running.run:
            with _reported("running the module", module):
                return interpretation.run(module, self.options.running)
        with _reported(f"writing {self.target.name}", module):
            if self.target.name == "mlir":
                return self.options.style.text(module)
            out = io.StringIO()
            self.target.emit(self.ctx, module, out)
            return out.getvalue()


@contextlib.contextmanager
def _reported(doing: str, module: ModuleOp) -> Iterator[None]:
    """Turn whatever the body raises into a located diagnostic."""
    try:
        yield
    except ReportedError:
        raise
    except Exception as error:
        if environment.debug() and not is_users_fault(error):
            raise
        raise ReportedError(from_failure(error, doing, module)) from error


def _chunks(text: str) -> Iterator[str]:
    """The parts between separator lines, each behind as many empty lines as came before it, so that
    line numbers stay those of the file.
    """
    start = 0
    for match in _SEPARATOR.finditer(text):
        yield "\n" * text.count("\n", 0, start) + text[start : match.start()]
        start = match.end()
    yield "\n" * text.count("\n", 0, start) + text[start:]


def main() -> None:
    """The console script."""
    open_streams()
    try:
        exit_code = CuteOpt(sys.argv[1:]).run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader went away: cute-opt x.mlir | head
        drop_output()
        exit_code = 1
    except KeyboardInterrupt:
        exit_code = 130
    except OSError as error:
        fault = output_fault(error)
        if fault is None:
            raise
        sys.stderr.write(f"<stdout>:1:1: error: {fault}\n")
        exit_code = 1
    sys.exit(exit_code)


if __name__ == "__main__":
    main()

"""The flags of `cute-opt`: MLIR's names first, xDSL's short ones where they are shorter. A wrong
flag is a located error like any other, pointing into the command line.
"""

from __future__ import annotations

import argparse
import copy
import io
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

from cutedialect.tools.diagnostics import (
    Diagnostic,
    Position,
    ReportedError,
    did_you_mean,
    one_line,
)
from cutedialect.tools.interpretation import RunOptions, named_file, named_value
from cutedialect.tools.ir_dumps import DumpOptions, PrintStyle

SOURCE = "<command-line>"

DESCRIPTION = """\
Reads a module (MLIR text), runs passes on it and writes the result. Every stage of a
compilation can be printed, edited by hand and read back."""


@dataclass(frozen=True)
class CommandLine:
    """A parsed command line; `pipeline_source` is the name under which errors show `pipeline`."""

    input: str
    output: str | None
    pipeline: str
    pipeline_source: str
    target: str
    split_input_file: bool
    verify_diagnostics: bool
    verify_each: bool
    verify_roundtrip: bool
    dump_pass_pipeline: bool
    allow_unregistered: bool
    timing: bool
    remarks: bool
    protocol_trace: bool
    reduce: bool
    reduce_test: str | None
    reproducer: str | None
    local_reproducer: bool
    run_reproducer: bool
    style: PrintStyle
    dumps: DumpOptions
    running: RunOptions
    help: bool
    version: bool
    list_passes: bool
    show_dialects: bool


def shown(argv: Sequence[str]) -> str:
    """The command line as one text, which positions in `SOURCE` refer to."""
    return shlex.join(["cute-opt", *argv])


def parse_command_line(argv: Sequence[str], passes: Mapping[str, object]) -> CommandLine:
    """Read `argv`; `passes` are the names that `--<pass>` may spell. Raises `ReportedError`."""
    parser = _parser(tuple(passes)).of(argv)
    arguments, pass_flags = parser.split_pass_flags()
    found, unknown = parser.parse_known_args(arguments)
    if unknown:
        word = unknown[0]
        if word.startswith("-") and word != "-":
            flag = word.split("=")[0]
            known = [*parser.flags(), *(f"--{name}" for name in passes)]
            near = did_you_mean(flag, known)
            parser.fail(f"unknown option '{flag}'{near}", word)
        parser.fail(f"expected one input file, got a second: '{word}'", word)

    given = [flag for flag in (found.passes, found.pass_pipeline) if flag is not None]
    if len(given) + bool(pass_flags) > 1:
        parser.fail(
            "expected one of -p, --pass-pipeline and --<pass> flags, got more",
            pass_flags or given[1],
        )
    if found.passes is not None:
        pipeline, source = found.passes, "<passes>"
    elif found.pass_pipeline is not None:
        pipeline, source = found.pass_pipeline, "<pass-pipeline>"
    else:
        pipeline, source = pass_flags, "<pass flags>"

    tree = found.print_ir_tree_dir
    return CommandLine(
        input=found.input,
        output=found.output,
        pipeline=pipeline,
        pipeline_source=source,
        target=found.target,
        split_input_file=found.split_input_file,
        verify_diagnostics=found.verify_diagnostics,
        verify_each=found.verify_each,
        verify_roundtrip=found.verify_roundtrip,
        dump_pass_pipeline=found.dump_pass_pipeline,
        allow_unregistered=found.allow_unregistered_dialect,
        timing=found.timing,
        remarks=found.remarks,
        protocol_trace=found.protocol_trace,
        reduce=found.reduce or found.reduce_test is not None,
        reduce_test=found.reduce_test,
        reproducer=found.reproducer,
        local_reproducer=found.local_reproducer,
        run_reproducer=found.run_reproducer,
        style=PrintStyle(found.print_op_generic, found.print_debuginfo),
        dumps=DumpOptions(
            before=parser.pass_names(found.print_ir_before),
            after=parser.pass_names(found.print_ir_after),
            before_all=found.print_ir_before_all,
            after_all=found.print_ir_after_all,
            after_change=found.print_ir_after_change,
            after_failure=found.print_ir_after_failure,
            tree=Path(tree) if tree is not None else None,
        ),
        running=RunOptions(
            run=found.run,
            validate=found.validate,
            seed=found.seed,
            arguments=parser.named_values(found.arg, named_value),
            expected=parser.named_values(found.expect, named_file),
            save=found.save,
        ),
        help=found.help,
        version=found.version,
        list_passes=found.list_passes,
        show_dialects=found.show_dialects,
    )


def help_text(passes: Mapping[str, object], targets: Mapping[str, object]) -> str:
    """The text of `--help`."""
    return (
        _parser(tuple(passes)).format_help()
        + f"\npasses:  {', '.join(passes)}\ntargets: {', '.join(targets)}\n"
    )


@cache
def _parser(passes: tuple[str, ...]) -> _Parser:
    return _Parser(passes)


class _Parser(argparse.ArgumentParser):
    """argparse with located errors, no abbreviations and MLIR's spellings."""

    def __init__(self, passes: tuple[str, ...]) -> None:
        super().__init__(
            prog="cute-opt",
            description=DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._argv: list[str] = []
        self._passes = passes
        self.add_argument("input", nargs="?", default="-", help="file to read; - for stdin")
        self._add_io_flags()
        self._add_pass_flags()
        self._add_check_flags()
        self._add_failure_flags()
        self._add_run_flags()
        self._add_print_flags()

    def of(self, argv: Sequence[str]) -> _Parser:
        """The same flags, whose errors lie in `argv`."""
        parser = copy.copy(self)
        parser._argv = list(argv)
        return parser

    def _add_io_flags(self) -> None:
        group = self.add_argument_group("input and output")
        group.add_argument("-o", "--output", metavar="FILE", help="file to write; - for stdout")
        group.add_argument(
            "-t", "--target", "--emit", default="mlir", metavar="TARGET", help="mlir or ptx"
        )
        group.add_argument(
            "--split-input-file", action="store_true", help="treat '// -----' lines as file ends"
        )
        group.add_argument(
            "--allow-unregistered-dialect", action="store_true", help="accept unknown operations"
        )
        group.add_argument("--list-passes", action="store_true", help="list passes with options")
        group.add_argument("--show-dialects", action="store_true", help="list dialects")
        group.add_argument("-h", "--help", action="store_true", help="show this text")
        group.add_argument("--version", action="store_true", help="show versions")

    def _add_pass_flags(self) -> None:
        group = self.add_argument_group("passes")
        group.add_argument("-p", "--passes", metavar="'a,b{x=1}'", help="passes to run in turn")
        group.add_argument(
            "--pass-pipeline", metavar="'builtin.module(a,b{x=1})'", help="the same, as in MLIR"
        )
        group.add_argument(
            "--dump-pass-pipeline", action="store_true", help="show the passes, on stderr"
        )
        group.add_argument(
            "--mlir-disable-threading",
            action="store_true",
            help="as in MLIR; there is one thread here anyway",
        )
        self.add_argument_group(
            "", "  --<pass>[='x=1 y=2']  one pass; may be repeated, run in the order given"
        )

    def _add_check_flags(self) -> None:
        group = self.add_argument_group("checks")
        group.add_argument(
            "--verify-diagnostics",
            action="store_true",
            help="compare errors with '// expected-error @+1 {{text}}' comments",
        )
        group.add_argument(
            "--verify-each", action=_Switch, default=True, help="verify after every pass (default)"
        )
        group.add_argument(
            "--no-verify-each", dest="verify_each", action="store_false", help="do not"
        )
        group.add_argument(
            "--verify-roundtrip",
            action="store_true",
            help="print and read the input in both forms first, and compare",
        )
        group.add_argument(
            "--timing", "--mlir-timing", action="store_true", help="time of each pass, to stderr"
        )
        group.add_argument(
            "--remarks", action="store_true", help="what passes declined and why, to stderr"
        )
        group.add_argument(
            "--protocol-trace",
            action="store_true",
            help="what the roles of a synchronized stage do, and what each knows, to stderr",
        )

    def _add_failure_flags(self) -> None:
        group = self.add_argument_group("inputs that fail")
        group.add_argument(
            "--reduce",
            action="store_true",
            help="write the smallest input that fails as this one does, as mlir-reduce",
        )
        group.add_argument(
            "--reduce-test",
            metavar="PROGRAM",
            help="the same for a program that exits with 1 for the path of an input to keep",
        )
        group.add_argument(
            "--mlir-pass-pipeline-crash-reproducer",
            dest="reproducer",
            metavar="FILE",
            help="where a pass fails, write the input with its passes to FILE",
        )
        group.add_argument(
            "--mlir-pass-pipeline-local-reproducer",
            dest="local_reproducer",
            action="store_true",
            help="write what the failing pass was given, with that pass alone",
        )
        group.add_argument(
            "--run-reproducer", action="store_true", help="run the passes that the input names"
        )

    def _add_run_flags(self) -> None:
        group = self.add_argument_group(
            "running, for stages before cute-synchronize (on whole tiles, with NumPy)"
        )
        group.add_argument(
            "--run", action="store_true", help="write what the tensors that change hold, no module"
        )
        group.add_argument(
            "--validate", action="store_true", help="run before and after each pass, and compare"
        )
        group.add_argument(
            "--arg",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="an argument: 64x32 (a shape to draw), FILE.npy or a number; others are drawn, "
            "with 64 for run-time extents and 2 for those of batches",
        )
        group.add_argument(
            "--seed", type=int, default=0, metavar="N", help="draws the arguments; default 0"
        )
        group.add_argument(
            "--expect",
            action="append",
            default=[],
            metavar="NAME=FILE.npy",
            help="with --run: what a tensor has to hold afterwards",
        )
        group.add_argument(
            "--save", metavar="DIR", help="with --run: write every tensor to DIR/NAME.npy"
        )

    def _add_print_flags(self) -> None:
        group = self.add_argument_group("printing")
        for name, text in (
            ("op-generic", "write every operation in the generic form"),
            ("debuginfo", "write locations"),
            ("ir-before-all", "show the IR before each pass, on stderr"),
            ("ir-after-all", "show the IR after each pass"),
            ("ir-after-change", "show the IR after each pass that changed it"),
            ("ir-after-failure", "show the IR that a failing pass left"),
        ):
            dest = "print_" + name.replace("-", "_")
            group.add_argument(
                f"--print-{name}", f"--mlir-print-{name}", dest=dest, action="store_true", help=text
            )
        for when in ("before", "after"):
            group.add_argument(
                f"--print-ir-{when}",
                f"--mlir-print-ir-{when}",
                dest=f"print_ir_{when}",
                action="append",
                default=[],
                metavar="PASS,...",
                help=f"show the IR {when} these passes",
            )
        group.add_argument(
            "--print-ir-tree-dir",
            "--mlir-print-ir-tree-dir",
            dest="print_ir_tree_dir",
            metavar="DIR",
            help="write what is shown to DIR/NN-pass.mlir instead",
        )

    def flags(self) -> list[str]:
        """Every long flag."""
        return [flag for flag in self._option_string_actions if flag.startswith("--")]

    def split_pass_flags(self) -> tuple[list[str], str]:
        """The arguments without `--<pass>` flags (and with `-flag` spelled `--flag`, which MLIR
        allows), and those flags as a pipeline.
        """
        rest: list[str] = []
        items: list[str] = []
        for index, word in enumerate(self._argv):
            if word == "--":
                rest += self._argv[index:]
                break
            flag, equals, value = word.partition("=")
            if re.match(r"-[^-].", flag) and f"-{flag}" in self._option_string_actions:
                word = f"-{word}"
            if flag.startswith("-") and flag.lstrip("-") in self._passes:
                items.append(flag.lstrip("-") + (f"{{{value}}}" if equals else ""))
            else:
                rest.append(word)
        return rest, ",".join(items)

    def pass_names(self, lists: Sequence[str]) -> frozenset[str]:
        """The names in the arguments of `--print-ir-after`, checked against the table."""
        names = [name.strip() for text in lists for name in text.split(",")]
        for name in names:
            if name not in self._passes:
                self.fail(f"unknown pass '{name}'{did_you_mean(name, self._passes)}", name)
        return frozenset(names)

    def named_values(
        self, texts: Sequence[str], read: Callable[[str], tuple[str, str]]
    ) -> dict[str, str]:
        """The values of `--arg` or `--expect` by name."""
        values: dict[str, str] = {}
        for text in texts:
            try:
                name, value = read(text)
            except ValueError as error:
                self.fail(str(error), text)
            values[name] = value
        return values

    def fail(self, message: str, word: str = "") -> NoReturn:
        text = shown(self._argv)
        start, width = len("cute-opt "), 1
        for quoted in (shlex.quote(word), word):
            found = text.find(quoted, start) if word else -1
            if found >= 0:
                start, width = found, len(quoted)
                break
        raise ReportedError(Diagnostic(message, Position(SOURCE, 1, start + 1), width=width))

    def error(self, message: str) -> NoReturn:
        # argparse names the flags of an option as "argument -t/--target: ...".
        match = re.match(r"argument (?P<flags>[^:]+): (?P<fault>.*)", message, re.DOTALL)
        if match is None:
            self.fail(one_line(message))
        flags = match["flags"].split("/")
        given = next((word for word in self._argv if word.split("=")[0] in flags), "")
        self.fail(f"option '{given or flags[-1]}': {one_line(match['fault'])}", given)

    def print_help(self, file: IO[str] | None = None) -> None:
        (file or io.StringIO()).write(self.format_help())


class _Switch(argparse.Action):
    """MLIR's booleans: `--flag`, `--flag=true`, `--flag=0`."""

    def __init__(self, option_strings: Sequence[str], dest: str, **settings: object) -> None:
        super().__init__(option_strings, dest, nargs="?", metavar="0|1", **settings)  # type: ignore[arg-type]

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        words: dict[object, bool] = {
            None: True,
            "1": True,
            "true": True,
            "0": False,
            "false": False,
        }
        if values not in words:
            raise argparse.ArgumentError(self, f"expected true or false, got '{values}'")
        setattr(namespace, self.dest, words[values])

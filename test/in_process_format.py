"""A lit test format that runs RUN lines of the usual shapes inside the worker process:

    // RUN: cute-opt %s -p cse | filecheck %s
    // RUN: not cute-opt %s 2>&1 | filecheck %s --check-prefix=ERROR

A line with anything else in it (`&&`, `>`, another program) sends its whole file to lit's shell.
"""

import contextlib
import io
import re
import shlex
import sys

import filecheck.main
import lit.formats
import lit.Test

from cutedialect.tools.cute_opt import CuteOpt

RUN = re.compile(r"^\s*//\s*RUN:\s*(.*?)\s*$", re.MULTILINE)
OPERATORS = frozenset("|&;<>()")


class InProcessFormat(lit.formats.ShTest):
    """Runs what it understands in this process and leaves the rest to ShTest."""

    def execute(self, test, litConfig):
        path = test.getSourcePath()
        with open(path, encoding="utf-8") as file:
            text = file.read()
        pipelines = [parse_run_line(line, path) for line in joined_run_lines(text)]
        if not pipelines or None in pipelines or special_keywords(text):
            return super().execute(test, litConfig)
        for pipeline in pipelines:
            failure = run_pipeline(pipeline)
            if failure is not None:
                return lit.Test.FAIL, failure
        return lit.Test.PASS, ""


def joined_run_lines(text):
    """The RUN commands of a test, continued lines put together."""
    lines, pending = [], ""
    for line in RUN.findall(text):
        if line.endswith("\\"):
            pending += line[:-1]
        else:
            lines.append(pending + line)
            pending = ""
    return lines + ([pending] if pending else [])


def special_keywords(text):
    """Whether lit itself must look at the file."""
    return re.search(r"\b(REQUIRES|XFAIL|UNSUPPORTED|DEFINE|REDEFINE|ALLOW_RETRIES):", text)


def parse_run_line(line, path):
    """The commands of one pipeline as `(argv, negated, merge_stderr)`, or None if the line needs a
    shell.
    """
    line = line.replace("2>&1", " \0 ")
    if "%" in line.replace("%s", ""):
        return None
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    try:
        words = [word.replace("%s", path) for word in lexer]
    except ValueError:
        return None
    commands, current = [], []
    for word in [*words, "|"]:
        if word == "|":
            commands.append(current)
            current = []
        elif word and OPERATORS.issuperset(word):
            return None
        else:
            current.append(word)
    return parsed_commands(commands)


def parsed_commands(commands):
    pipeline = []
    for number, words in enumerate(commands):
        merge = "\0" in words
        argv = [word for word in words if word != "\0"]
        negated = argv[:1] == ["not"]
        argv = argv[1:] if negated else argv
        wanted = "filecheck" if number and number == len(commands) - 1 else "cute-opt"
        if argv[:1] != [wanted]:
            return None
        pipeline.append((argv, negated, merge))
    return pipeline


def run_pipeline(pipeline):
    """Run the commands on each other's output; the text of the first failure, or None."""
    text = ""
    for argv, negated, merge in pipeline:
        out, err = io.StringIO(), io.StringIO()
        if argv[0] == "cute-opt":
            code = CuteOpt(argv[1:], io.StringIO(text), out, out if merge else err).run()
        else:
            code = run_filecheck(argv, text, out, err)
        if (code != 0) != negated:
            shown = shlex.join(argv)
            return f"$ {shown}\nexit code {code}\n{err.getvalue()}{out.getvalue()}\n"
        text = out.getvalue()
    return None


def run_filecheck(argv, text, out, err):
    """filecheck's own main with our streams."""
    stdin = sys.stdin
    sys.stdin = io.StringIO(text)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                filecheck.main.main(list(argv))
            except SystemExit as exit:
                return exit.code or 0
            return 0
    finally:
        sys.stdin = stdin

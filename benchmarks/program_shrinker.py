"""A failing program made small: statements, loops, arguments and extents are taken away one after
the other, as long as it fails in the same way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from .tile_program import Argument, Program


def shrunk(program: Program, fails: Callable[[Program], bool], tries: int = 300) -> Program:
    """The smallest program found in so many tries for which `fails` holds, as it does for this."""
    left = tries
    progress = True
    while progress and left > 0:
        progress = False
        for candidate in _candidates(program):
            left -= 1
            if fails(candidate):
                program, progress = candidate, True
                break
            if left <= 0:
                break
    return program


def _candidates(program: Program) -> Iterator[Program]:
    if program.schedule:
        yield replace(program, schedule="")
    yield from _with_fewer_statements(program)
    yield from _with_plainer_arguments(program)
    yield from _with_smaller_extents(program)


def _with_fewer_statements(program: Program) -> Iterator[Program]:
    """Each statement left out, the last ones first, and each block replaced by its body."""
    count = sum(1 for _ in _statements(_parsed(program)))
    for at in reversed(range(count)):
        for flattened in (False, True):
            tree = _parsed(program)
            block, statement = list(_statements(tree))[at]
            place = block.index(statement)
            inside: list[ast.stmt] = []
            if flattened:
                if not isinstance(statement, ast.For | ast.With):
                    continue
                inside = statement.body
                if isinstance(statement, ast.For):
                    index = ast.unparse(statement.target)
                    inside = [*ast.parse(f"{index} = 0").body, *inside]
            block[place : place + 1] = inside
            if not block:
                continue
            yield _with_body(program, tree)


def _parsed(program: Program) -> ast.FunctionDef:
    made = ast.parse(program.source).body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


def _statements(tree: ast.FunctionDef) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    """Every statement but the first one, with the block that it stands in."""
    pending = [tree.body]
    while pending:
        block = pending.pop()
        for statement in block:
            if statement is not tree.body[0]:
                yield block, statement
            if isinstance(statement, ast.For | ast.With):
                pending.append(statement.body)


def _with_body(program: Program, tree: ast.FunctionDef) -> Program:
    lines = tuple(
        "    " + line for statement in tree.body for line in ast.unparse(statement).splitlines()
    )
    text = "\n".join(lines)
    kept = tuple(a for a in program.arguments if re.search(rf"\b{a.name}\b", text))
    return replace(program, lines=lines, arguments=kept)


def _with_plainer_arguments(program: Program) -> Iterator[Program]:
    for at, argument in enumerate(program.arguments):
        plain = tuple(range(len(argument.shape)))
        for changed in (
            replace(argument, pad=0),
            replace(argument, offset=0),
            replace(argument, order=plain),
            replace(argument, back=()),
        ):
            if changed != argument:
                yield _with_argument(program, at, changed)
        for mode, extent in enumerate(argument.shape):
            for less in {extent // 2, extent - 1}:
                if less > 0:
                    shape = (*argument.shape[:mode], less, *argument.shape[mode + 1 :])
                    yield _with_argument(program, at, replace(argument, shape=shape))


def _with_argument(program: Program, at: int, changed: Argument) -> Program:
    arguments = (*program.arguments[:at], changed, *program.arguments[at + 1 :])
    return replace(program, arguments=arguments)


def _with_smaller_extents(program: Program) -> Iterator[Program]:
    """A number of the text halved everywhere, in the arrays' extents too."""
    text = "\n".join(program.lines)
    for number in sorted({int(each) for each in re.findall(r"(?<![\w.])\d+", text)}, reverse=True):
        for less in (number // 2, number - 1):
            if less < 1:
                continue
            changed = re.sub(rf"(?<![\w.]){number}\b", str(less), text)
            arguments = tuple(
                replace(a, shape=tuple(less if e == number else e for e in a.shape))
                for a in program.arguments
            )
            yield replace(program, lines=tuple(changed.split("\n")), arguments=arguments)

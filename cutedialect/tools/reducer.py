"""Makes an input small that fails, as `mlir-reduce` does: operations are erased, by halves and then
one by one, results are replaced by operands of their type, regions by what is in them, attributes
and arguments dropped, numbers halved, as long as what is left fails in the same way. A text that is
no module loses lines and then words.

    cute-opt kernel.mlir -p 'cute-to-ptx{arch=sm_90a}' --reduce -o small.mlir
    cute-opt kernel.mlir --reduce-test=./is_interesting.sh        # exit code 1 is interesting
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from cutedialect.dialects.walks import walk

_Item = TypeVar("_Item")
# Names of values and numbers, which may differ between failures of one kind.
_NAME = re.compile(r"%[\w#$.-]+")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[A-Za-z_$.][\w$.-]*|%?\d+|\s+|.', re.DOTALL)
# Runs of the passes after which what there is has to do.
_MOST_RUNS = 4000
# Numbers that are not halved: those of one and two elements.
_LEAST_NUMBER = 3


def failure_of(message: str) -> str:
    """What failures of one kind have in common: the message without names of values and numbers.

    >>> failure_of("expected a tile (64, 32), got %acc_1"), failure_of("operand #0 (%x) is")
    ('expected a tile (N, N), got %', 'operand #N (%) is')
    """
    return _NUMBER.sub("N", _NAME.sub("%", message))


@dataclass
class Reduction:
    """The smallest text so far that is interesting; `runs` counts those that were tried. `show` is
    told how far that is.
    """

    text: str
    is_interesting: Callable[[str], bool]
    show: Callable[[str], None] = lambda text: None
    runs: int = 0
    _known: dict[str, bool] = field(default_factory=dict[str, bool])

    def take(self, text: str) -> bool:
        """Whether a text is interesting, and then the one to go on with."""
        if text == self.text or self.runs >= _MOST_RUNS:
            return False
        if text not in self._known:
            self.runs += 1
            lines = self.text.count("\n")
            self.show(f"reducing: {self.runs} inputs tried, {lines} lines are left")
            self._known[text] = self.is_interesting(text)
        if self._known[text]:
            self.text = text
        return self._known[text]

    def take_module(self, module: ModuleOp, show: Callable[[ModuleOp], str]) -> bool:
        """The same of a module; one without what its text needs is not interesting."""
        try:
            text = show(module)
        except Exception:
            return False
        return self.take(text)


def reduce_module(
    reduction: Reduction, parse: Callable[[str], ModuleOp], show: Callable[[ModuleOp], str]
) -> None:
    """Shrink a module until nothing can be taken away."""
    steps = (_erase_ops, _replace_results, _open_regions, _drop_arguments, _drop_attributes)
    before = ""
    while before != reduction.text:
        before = reduction.text
        for step in steps:
            step(reduction, parse, show)
        _halve_numbers(reduction)


def reduce_text(reduction: Reduction) -> None:
    """Shrink a text that is no module: whole lines, then words."""
    before = ""
    while before != reduction.text:
        before = reduction.text
        _shrink(
            reduction.text.splitlines(keepends=True), lambda kept: reduction.take("".join(kept))
        )
        _shrink(_WORD.findall(reduction.text), lambda kept: reduction.take("".join(kept)))


def _shrink(items: Sequence[_Item], holds: Callable[[list[_Item]], bool]) -> None:
    """Leave out parts of a list, halves first, as long as what is left holds."""
    kept, size = list(items), max(1, len(items) // 2)
    while True:
        at = 0
        while at < len(kept):
            rest = kept[:at] + kept[at + size :]
            if rest and holds(rest):
                kept = rest
            else:
                at += size
        if size == 1:
            return
        size = max(1, size // 2)


_Parse = Callable[[str], ModuleOp]
_Show = Callable[[ModuleOp], str]


def _candidates(module: ModuleOp) -> list[Operation]:
    """The ops that may go, those that others use last."""
    ops = [op for op in walk(module) if op is not module and not op.has_trait(IsTerminator)]
    return ops[::-1]


def _erase_ops(reduction: Reduction, parse: _Parse, show: _Show) -> None:
    size = max(1, len(_candidates(parse(reduction.text))) // 2)
    while True:
        at = 0
        while True:
            module = parse(reduction.text)
            ops = _candidates(module)
            if at >= len(ops):
                break
            erased = _erase(ops[at : at + size])
            if not (erased and reduction.take_module(module, show)):
                at += size
        if size == 1:
            return
        size //= 2


def _erase(ops: Sequence[Operation]) -> bool:
    """Erase those of some ops whose results nothing uses any more; whether there was one."""
    erased = False
    for op in ops:
        if op.parent is None or any(result.uses for inner in walk(op) for result in inner.results):
            inside = set(walk(op))
            used = (use.operation for inner in inside for r in inner.results for use in r.uses)
            if op.parent is None or any(user not in inside for user in used):
                continue
        op.detach()
        op.erase(safe_erase=False)
        erased = True
    return erased


def _each(
    reduction: Reduction,
    parse: _Parse,
    show: _Show,
    edit: Callable[[Operation], Iterator[Callable[[], bool]]],
) -> None:
    """Try the edits of each op, one at a time, on the module as it is then."""
    number = 0
    while True:
        module = parse(reduction.text)
        ops = _candidates(module)
        if number >= len(ops):
            return
        choice = 0
        while True:
            module = parse(reduction.text)
            ops = _candidates(module)
            edits = list(edit(ops[number])) if number < len(ops) else []
            if choice >= len(edits):
                break
            if not (edits[choice]() and reduction.take_module(module, show)):
                choice += 1
        number += 1


def _replace_results(reduction: Reduction, parse: _Parse, show: _Show) -> None:
    """Use an operand, or an argument of a block around, in the place of a result of its type."""

    def edits(op: Operation) -> Iterator[Callable[[], bool]]:
        if len(op.results) != 1 or not op.results[0].uses:
            return
        for value in _values_around(op):
            if value.type == op.results[0].type:
                yield lambda value=value: _replaced(op, [value])

    _each(reduction, parse, show, edits)


def _values_around(op: Operation) -> Iterator[SSAValue]:
    yield from op.operands
    block = op.parent
    while block is not None:
        yield from block.args
        around = block.parent_op()
        block = None if around is None else around.parent


def _replaced(op: Operation, values: Sequence[SSAValue]) -> bool:
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.detach()
    op.erase(safe_erase=False)
    return True


def _open_regions(reduction: Reduction, parse: _Parse, show: _Show) -> None:
    """Put what is in a loop or branch in its place; a counter becomes an operand of its type."""

    def edits(op: Operation) -> Iterator[Callable[[], bool]]:
        for region in op.regions:
            blocks = list(region.blocks)
            if len(blocks) == 1 and op.parent_op() is not None and not op.results:
                yield lambda block=blocks[0]: _opened(op, block)

    _each(reduction, parse, show, edits)


def _opened(op: Operation, block: Block) -> bool:
    for arg in block.args:
        value = next((each for each in op.operands if each.type == arg.type), None)
        if value is None and arg.uses:
            return False
        if value is not None:
            arg.replace_all_uses_with(value)
    last = block.last_op
    for inner in list(block.ops):
        inner.detach()
        if inner is not last or not inner.has_trait(IsTerminator):
            Rewriter.insert_op(inner, InsertPoint.before(op))
    op.detach()
    op.erase(safe_erase=False)
    return True


def _drop_arguments(reduction: Reduction, parse: _Parse, show: _Show) -> None:
    """Erase arguments of kernels that nothing uses."""

    def edits(op: Operation) -> Iterator[Callable[[], bool]]:
        if "function_type" in op.properties:
            return
        for region in op.regions:
            first = region.blocks.first
            for arg in () if first is None else first.args:
                if not arg.uses:
                    yield lambda block=first, arg=arg: _dropped(block, arg)

    _each(reduction, parse, show, edits)


def _dropped(block: Block | None, arg: SSAValue) -> bool:
    assert block is not None
    block.erase_arg(arg)  # pyright: ignore[reportArgumentType]
    return True


def _drop_attributes(reduction: Reduction, parse: _Parse, show: _Show) -> None:
    def edits(op: Operation) -> Iterator[Callable[[], bool]]:
        for holder in (op.attributes, op.properties):
            for name in holder:
                yield lambda holder=holder, name=name: holder.pop(name) is not None

    _each(reduction, parse, show, edits)


def _halve_numbers(reduction: Reduction) -> None:
    """Halve a number wherever it stands: extents, strides and bounds that hang together."""
    tried: set[str] = set()
    while True:
        numbers = {text for text in _NUMBER.findall(reduction.text) if int(text) >= _LEAST_NUMBER}
        number = max(numbers - tried, key=int, default=None)
        if number is None:
            return
        tried.add(number)
        for less in (int(number) // 2, int(number) - 1):
            pattern = rf"(?<![\w.]){number}(?![\w.])"
            if reduction.take(re.sub(pattern, str(less), reduction.text)):
                tried.discard(str(less))
                break


def by_command(command: str) -> Callable[[str], bool]:
    """Whether a program exits with 1 for the file of a text, whose path is its last argument: as
    the tests of `mlir-reduce`.
    """

    def is_interesting(text: str) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "input.mlir"
            path.write_text(text, encoding="utf-8")
            run = subprocess.run([command, str(path)], capture_output=True, check=False)
            return run.returncode == 1

    return is_interesting

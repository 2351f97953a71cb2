"""Anchors of passes and of their steps: the ops, attributes or words of the schedule without which
there is nothing to do, declared beside the step as MLIR's patterns declare the op that they are
rooted at. A kernel that has none of them is not given to the step. Each asks for the kernel as the
ones before have left it, so that what one introduces is there for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from cutedialect.dialects.cute import KernelOp
from cutedialect.dialects.walks import holds, walk

_RootT = TypeVar("_RootT", bound=Operation | Block)
_ResultT = TypeVar("_ResultT")
_P = ParamSpec("_P")
_forced = False


@dataclass(frozen=True)
class Anchors:
    """Classes of ops and names of attributes or properties, of which one is enough, and fields of
    the schedule with the words that ask for a step, all of which have to be said.
    """

    ops: tuple[type[Operation], ...] = ()
    marks: tuple[str, ...] = ()
    asked: Mapping[str, str | int] = field(default_factory=dict)

    def hold(self, root: Operation | Block) -> bool:
        """Whether a step may have something to do in a kernel, or in a part of one."""
        if self.asked:
            schedule = root.schedule.data if isinstance(root, KernelOp) and root.schedule else None
            if any(getattr(schedule, name, None) != word for name, word in self.asked.items()):
                return False
        if _forced or not (self.ops or self.marks):
            return True
        return holds(root, *self.ops) or any(
            mark in op.attributes or mark in op.properties
            for mark in self.marks
            for op in walk(root)
        )


def anchored(
    *ops: type[Operation],
    marks: tuple[str, ...] = (),
    asked: Mapping[str, str | int] | None = None,
    otherwise: Callable[[], Any] | None = None,
) -> Callable[
    [Callable[Concatenate[_RootT, _P], _ResultT]], Callable[Concatenate[_RootT, _P], _ResultT]
]:
    """Declare on what a step is anchored that takes a kernel, or a part of one, first; without it
    the step is passed by, and gives what `otherwise` makes, or None.
    """
    anchors = Anchors(ops, marks, asked or {})

    def declare(
        step: Callable[Concatenate[_RootT, _P], _ResultT],
    ) -> Callable[Concatenate[_RootT, _P], _ResultT]:
        @wraps(step)
        def run(root: _RootT, *args: _P.args, **kwargs: _P.kwargs) -> _ResultT:
            if anchors.hold(root):
                return step(root, *args, **kwargs)
            return otherwise() if otherwise is not None else None  # pyright: ignore[reportReturnType]

        run.anchors = anchors  # pyright: ignore[reportFunctionMemberAccess]
        return run

    return declare


@dataclass(frozen=True)
class KernelPass(ModulePass):
    """A pass that looks at each kernel by itself, where that has what the pass is anchored on."""

    anchors: ClassVar[Anchors] = Anchors()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if isinstance(kernel, KernelOp) and self.anchors.hold(kernel):
                self.run(kernel)

    def run(self, kernel: KernelOp) -> None:
        """What the pass does to a kernel."""
        raise NotImplementedError


@contextmanager
def every_step() -> Iterator[None]:
    """Enter the steps that a schedule asks for whatever they are anchored on: what a kernel becomes
    must not depend on anchors.
    """
    global _forced
    before, _forced = _forced, True
    try:
        yield
    finally:
        _forced = before

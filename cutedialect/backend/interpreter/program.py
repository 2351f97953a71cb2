"""A module of a stage before synchronization as a program that runs on NumPy arrays: its host part,
or its one kernel for all work items, CTA by CTA.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.walks import walk

from . import algebra_rules, control_rules, host_rules, line_rules, tile_rules
from .arrays import share_memory
from .control_rules import ItemLeft
from .cta import Choices, Cta, InterpreterError, slot, slots
from .elements import dtype_of, is_float, rounded
from .kernel_rules import MEETINGS, work_items
from .memory import View, view_of_array
from .rules import Code

_RULES = algebra_rules, control_rules, host_rules, line_rules, tile_rules


class Program:
    """The steps of a module, read once. Raises InterpreterError for an op without a rule."""

    def __init__(self, module: ModuleOp) -> None:
        self.kernels: dict[str, _Kernel] = {}
        self.host: func.FuncOp | None = None
        for op in module.ops:
            if isinstance(op, cute.KernelOp):
                self.kernels[op.sym_name.data] = _Kernel(op)
            elif isinstance(op, func.FuncOp) and op.sym_name.data == "launch":
                self.host = op
        if self.host is None and len(self.kernels) != 1:
            raise InterpreterError(
                module,
                "expected a host part 'func.func @launch' or one cute.kernel, got "
                f"{len(self.kernels)} kernels",
            )
        for op in () if self.host is None else walk(self.host):
            if isinstance(op, cute.LaunchOp) and op.kernel.string_value() not in self.kernels:
                raise InterpreterError(
                    op,
                    f"expected a cute.kernel @{op.kernel.string_value()}, of a stage before "
                    "synchronization, got none",
                )
        self._code = None if self.host is None else Code(self.host.body.block)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The block arguments that `run` takes values for."""
        if self.host is not None:
            return tuple(self.host.body.block.args)
        (kernel,) = self.kernels.values()
        return tuple(kernel.op.body.block.args)

    def run(self, args: Sequence[Any], choices: Choices | None = None) -> None:
        """Run on arrays, lists of arrays for groups, and numbers; tensors are updated in place.

        Raises ValueError for arguments that do not fit, InterpreterError for faults of the program.
        """
        choices = choices or Choices()
        names = [arg.name_hint or f"argument {number}" for number, arg in enumerate(self.arguments)]
        if len(args) != len(names):
            raise ValueError(
                f"expected {len(names)} arguments ({', '.join(names)}), got {len(args)}"
            )
        shared = share_memory(args)
        values = [
            _value(name, arg.type, given, shared)
            for name, arg, given in zip(names, self.arguments, args, strict=True)
        ]

        def launch(kernel: str, grid: Sequence[int] | None, given: Sequence[Any]) -> None:
            self.kernels[kernel].launch(grid, given, choices)

        with np.errstate(all="ignore"), _no_collections():
            if self._code is None:
                launch(next(iter(self.kernels)), None, values)
            else:
                bound = dict(zip(slots(self.arguments), values, strict=True))
                self._code.finish(Cta(choices, bound, launcher=launch))


@contextmanager
def _no_collections() -> Iterator[None]:
    """Without the garbage collector: views and tiles that CTAs leave are freed without it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Kernel:
    """A kernel's steps, and the op that says what its work items are, before it has a grid."""

    def __init__(self, op: cute.KernelOp) -> None:
        self.op = op
        self.code = Code(op.body.block)
        inner = list(walk(op))
        self.index = next((each for each in inner if isinstance(each, cute.TileIndexOp)), None)
        self.meets = any(isinstance(each, MEETINGS) for each in inner)

    def launch(self, grid: Sequence[int] | None, args: Sequence[Any], choices: Choices) -> None:
        ctas = self._ctas(
            grid, dict(zip(slots(self.op.body.block.args), args, strict=True)), choices
        )
        if not self.meets:
            for cta in ctas:
                with suppress(ItemLeft):
                    self.code.finish(cta)
            return
        _take_turns(map(self._run, ctas), choices)

    def _run(self, cta: Cta) -> Iterator[None]:
        """The places where another CTA may go on."""
        with suppress(ItemLeft):
            yield from self.code.run(cta)

    def _tensor(self, memref: SSAValue, args: dict[Any, Any], choices: Choices) -> Any:
        """The tensor whose tiles are the work items: an argument, or a view of one."""
        if slot(memref) in args:
            return args[slot(memref)]
        first = Cta(choices, dict(args))
        Code(self.op.body.block, value=memref).finish(first)
        return first.values[slot(memref)]

    def _ctas(
        self, grid: Sequence[int] | None, args: dict[Any, Any], choices: Choices
    ) -> Iterator[Cta]:
        if grid is not None:
            x, y, z = grid
            for k, j, i in product(range(z), range(y), range(x)):
                yield Cta(choices, dict(args), (i, j, k), (x, y, z))
        elif self.index is None:
            yield Cta(choices, dict(args))
        else:
            items = work_items(self.index, self._tensor(self.index.memref, args, choices))
            for number, item in enumerate(items):
                yield Cta(choices, dict(args), (number, 0, 0), (len(items), 1, 1), item)


def _take_turns(waiting: Iterator[Iterator[None]], choices: Choices) -> None:
    """Run as many CTAs beside each other as there are multiprocessors; a seed draws who goes on."""
    draw = None if choices.seed is None else np.random.default_rng(choices.seed)
    resident: list[Iterator[None]] = []
    turn = 0
    while True:
        while len(resident) < choices.sm_count and (cta := next(waiting, None)) is not None:
            resident.append(cta)
        if not resident:
            return
        turn = turn % len(resident) if draw is None else int(draw.integers(len(resident)))
        try:
            next(resident[turn])
            turn += 1
        except StopIteration:
            del resident[turn]


# Element types that are bytes in IR.
_BYTES = {"bool": "uint8", "uint4": "uint8", "int4": "int8"}


def _value(name: str, type_: Attribute, given: Any, is_shared: bool) -> Any:
    """An argument as the steps take it."""
    if isinstance(type_, cute.GroupType):
        return tuple(
            _value(f"{name}[{n}]", type_.member, each, is_shared) for n, each in enumerate(given)
        )
    if not isinstance(type_, cute.MemRefType):
        dtype = dtype_of(type_)
        if is_float(type_):
            return rounded(np.float64(given), dtype)
        # The host part has integers of any sign as signed numbers.
        is_unsigned = dtype.kind == "u"
        return dtype.type(int(given) & (1 << 8 * dtype.itemsize) - 1 if is_unsigned else given)
    dtype = dtype_of(type_.element)
    if isinstance(given, np.ndarray) and _BYTES.get(given.dtype.name) == dtype.name:
        given = given.view(dtype)
    if not isinstance(given, np.ndarray) or given.dtype != dtype:
        got = getattr(given, "dtype", type(given).__name__)
        raise ValueError(f"{name}: expected an array of {dtype}, got {got}")
    try:
        view = view_of_array(given, type_.layout, is_shared)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    _check_extents(name, type_, view)
    return view


def _check_extents(name: str, type_: cute.MemRefType, view: View) -> None:
    for mode, (wanted, got) in enumerate(zip(type_.shape, view.shape, strict=True)):
        if isinstance(wanted, int) and wanted != got:
            raise ValueError(f"{name}: expected extent {wanted} in mode {mode}, got {got}")


def run(module: ModuleOp, args: Sequence[Any], choices: Choices | None = None) -> None:
    """Run a module on arrays, which are updated in place; see `Program.run`."""
    Program(module).run(args, choices)

"""Prints one `ptx.kernel`: directives, parameters, control flow and unrolled regions. A region is
printed once for each trip with fresh names, which is where a few hundred ops become a few thousand
lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import target
from cutedialect.dialects.ptx import (
    AgainOp,
    FailOp,
    ForeachOp,
    ForOp,
    IfOp,
    KernelOp,
    PrintfOp,
    RepeatOp,
    ReturnOp,
    ScalarOp,
    SetMaxRegsOp,
    TensorMapType,
    TrapOp,
    YieldOp,
    entries,
)

from .assertions import Numbers, fail_lines
from .async_lines import ASYNC_LINES
from .body import MOVES, Body, class_of
from .memory_lines import MEMORY_LINES
from .printf import call_lines, format_declaration
from .scalar_lines import SCALAR_LINES, ScalarLine, ScalarTrips


@cache
def _is_scalar(kind: type[Operation]) -> bool:
    # xDSL's classes are abstract ones, which `isinstance` asks for all of their subclasses.
    return ScalarOp in kind.__mro__


class Files:
    """Numbers of the source files that `.loc` names."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, path: str) -> int:
        """The number of a file, the next one when it is new."""
        return self.numbers.setdefault(path.replace(os.sep, "/"), len(self.numbers) + 1)


class KernelPrinter:
    """Prints one kernel; `strings` formats were declared by the kernels before it."""

    def __init__(self, kernel: KernelOp, files: Files, strings: int, assertions: Numbers) -> None:
        self.kernel = kernel
        self.files = files
        self.assertions = assertions
        self.body = Body(kernel.sym_name.data, strings, target(kernel.target.data))
        self.where: tuple[str, int, int] | None = None
        # The ops that printed, in order, and the line at which each began.
        self.ops: list[Operation] = []
        self.first_lines: list[int] = []
        self.handlers: dict[type[Operation], Callable[[Body, Any], None]] = {
            **SCALAR_LINES,
            **MEMORY_LINES,
            **ASYNC_LINES,
            ForeachOp: self._foreach,
            ForOp: self._for,
            RepeatOp: self._repeat,
            IfOp: self._if,
            AgainOp: lambda body, op: None,
            ReturnOp: lambda body, op: body.lines.append("\tret;"),
            TrapOp: lambda body, op: body.lines.append("\ttrap;"),
            PrintfOp: self._printf,
            FailOp: self._fail,
        }

    @property
    def declarations(self) -> list[str]:
        """What the kernel needs at the level of the module."""
        return self.body.declarations

    def print(self) -> str:
        """The text of the entry."""
        kernel, body = self.kernel, self.body
        smem = kernel.smem.value.data if kernel.smem is not None else 0
        if smem:
            body.declarations.append(f".extern .shared .align 1024 .b8 {body.name}_smem[];")
        params = [
            self._parameter(arg, f"{body.name}_param_{position}")
            for position, arg in enumerate(kernel.body.block.args)
        ]
        self._block(kernel.body.block)
        head = [f".visible .entry {body.name}("]
        if params:
            head.append(",\n".join(params))
        head += [")", *self._directives(), "{"]
        return "\n".join([*head, *body.names.declarations(), "", *body.lines, "\tret;", "}", ""])

    def _parameter(self, arg: SSAValue, name: str) -> str:
        """Declare a parameter and, if it is used, load it."""
        body = self.body
        used = any(True for _ in arg.uses)
        if isinstance(arg.type, TensorMapType):
            if used:
                # What the copies take is a generic address; ptxas is silent about another.
                at = body.values[arg] = body.names.fresh("b64")
                body.lines += [f"\tmov.b64 {at}, {name};", f"\tcvta.param.u64 {at}, {at};"]
            return f"\t.param .align 64 .b8 {name}[128]"
        register_class = class_of(arg)
        if used:
            body.lines.append(f"\tld.param.{register_class} {body.define(arg)}, [{name}];")
        return f"\t.param .{register_class} {name}"

    def _directives(self) -> list[str]:
        kernel = self.kernel
        lines = [f".reqntid {kernel.threads.value.data}, 1, 1"]
        if kernel.min_ctas is not None:
            lines.append(f".minnctapersm {kernel.min_ctas.value.data}")
        elif kernel.max_regs is None and any(isinstance(op, SetMaxRegsOp) for op in kernel.walk()):
            # Without one of them ptxas ignores setmaxnreg, and says so in an info line only.
            lines.append(".minnctapersm 1")
        if kernel.max_regs is not None:
            lines.append(f".maxnreg {kernel.max_regs.value.data}")
        if kernel.cluster is not None:
            lines.append(f".reqnctapercluster {', '.join(map(str, entries(kernel.cluster)))}")
        return lines

    def _block(self, block: Block) -> None:
        handlers, body = self.handlers, self.body
        for op in block.ops:
            self._locate(op)
            first = len(body.lines)
            self.ops.append(op)
            self.first_lines.append(first)
            if _is_scalar(type(op)):
                ScalarLine(op).print(body)  # pyright: ignore[reportArgumentType]
            else:
                handler = handlers.get(type(op))
                if handler is None:
                    raise VerifyException(
                        f"expected an op of the ptx dialect in a kernel, got {op.name}", op
                    )
                handler(body, op)
            if len(body.lines) > first:
                origin = op.attributes.get("from")
                shown = origin.data if isinstance(origin, StringAttr) else op.name
                body.lines[first] += f" // ir: {shown}"

    def _locate(self, op: Operation) -> None:
        at = op.location
        if not isinstance(at, FileLineColLoc):
            return
        where = at.filename.data, at.line.data, at.column.data
        if where != self.where:
            self.where = where
            self.body.lines.append(f"\t.loc {self.files.number(where[0])} {where[1]} {where[2]}")

    def _foreach(self, body: Body, op: ForeachOp) -> None:
        block = op.body.block
        ending = block.last_op
        assert isinstance(ending, YieldOp)
        sources = [
            (body.arrays[v], entries(t)) for v, t in zip(op.sources, op.source_index, strict=True)
        ]
        constants = [entries(table) for table in op.constants]
        targets = [
            (body.arrays[v], entries(t), MOVES[v.type.cls])  # type: ignore[union-attr]
            for v, t in zip(op.targets, op.target_index, strict=True)
        ]
        inner = [o for o in block.ops if o is not ending]
        values = tuple(ending.values)
        # A value from outside of the region, such as a source, is not the region's to rename.
        owned = [
            isinstance(v.owner, Operation) and v.owner.parent is block and v.has_one_use()
            for v in values
        ]
        print_trip = self._trips(block, inner, values)
        for trip in range(op.count.value.data):
            given = [names[index[trip]] for names, index in sources]
            given += [str(index[trip]) for index in constants]
            yielded = print_trip(given)
            written = [(names[index[trip]], move) for names, index, move in targets]
            self._write_targets(written, yielded, values, owned)

    def _trips(
        self, block: Block, inner: Sequence[Operation], values: Sequence[SSAValue]
    ) -> Callable[[list[str]], list[str]]:
        """What prints a trip of an unrolled region for its arguments, and gives what it yields."""
        body = self.body
        scalars: list[Any] = [o for o in inner if _is_scalar(type(o))]
        if len(scalars) == len(inner):
            trips = ScalarTrips(body, block.args, scalars)
            places = [(trips.places.get(value), value) for value in values]

            def scalar_trip(given: list[str]) -> list[str]:
                shown = trips.print(given)
                return [body.values[v] if at is None else shown[at] for at, v in places]

            return scalar_trip
        lines = [self._printed_again(o) for o in inner]

        def trip(given: list[str]) -> list[str]:
            for arg, name in zip(block.args, given, strict=True):
                body.values[arg] = name
            for print_line in lines:
                print_line(body)
            return [body.values[value] for value in values]

        return trip

    def _printed_again(self, op: Operation) -> Callable[[Body], None]:
        """What prints an op of an unrolled region in each trip."""
        if _is_scalar(type(op)):
            return ScalarLine(op).print  # pyright: ignore[reportArgumentType]
        handler = self.handlers[type(op)]
        return lambda body: handler(body, op)

    def _write_targets(
        self,
        targets: Sequence[tuple[str, str]],
        values: list[str],
        yielded: Sequence[SSAValue],
        owned: Sequence[bool],
    ) -> None:
        """Write all targets of a trip, which yields values; one target may be a source of it that
        another yields.
        """
        if len(targets) == 1:
            [(name, move)], [value], [is_owned] = targets, values, owned
            self._write(name, value, move, is_owned)
            return
        body = self.body
        written = {name for name, _ in targets}
        for position, ((name, move), value) in enumerate(zip(targets, values, strict=True)):
            if value in written and value != name:
                saved = body.names.fresh(class_of(yielded[position]))
                body.lines.append(f"\t{move} {saved}, {value};")
                values[position] = saved
        for (name, move), value, is_owned in zip(targets, values, owned, strict=True):
            last = values[-1] is value and values.count(value) == 1
            self._write(name, value, move, last and is_owned)

    def _write(self, target: str, value: str, move: str, owned: bool) -> None:
        """Move a value to a target; the instruction that just made it for this writes there."""
        if value == target:
            return
        lines = self.body.lines
        last = lines[-1] if lines else ""
        head, space, rest = last.lstrip("\t").partition(" ")
        made = rest.startswith(f"{value},")
        if owned and made and space and not head.startswith((".", "@", "bar", "st", "red", "//")):
            lines[-1] = f"\t{head} {target},{rest[len(value) + 1 :]}"
            return
        lines.append(f"\t{move} {target}, {value};")

    def _for(self, body: Body, op: ForOp) -> None:
        number = body.label()
        start, end = f"$L_{body.name}_body_{number}", f"$L_{body.name}_end_{number}"
        low, high = body.values[op.low], body.values[op.high]
        step = body.values[op.by] if op.by is not None else str(op.step.value.data)  # pyright: ignore[reportOptionalMemberAccess]
        index = body.define(op.body.block.args[0])
        enter, again = body.names.fresh("pred"), body.names.fresh("pred")
        body.lines += [
            f"\tmov.u32 {index}, {low};",
            f"\tsetp.ge.s32 {enter}, {index}, {high};",
            f"\t@{enter} bra {end};",
            f"{start}:",
            '\t.pragma "nounroll";',
        ]
        self._block(op.body.block)
        body.lines += [
            f"\tadd.s32 {index}, {index}, {step};",
            f"\tsetp.lt.s32 {again}, {index}, {high};",
            f"\t@{again} bra {start};",
            f"{end}:",
        ]

    def _repeat(self, body: Body, op: RepeatOp) -> None:
        start = f"$L_{body.name}_again_{body.label()}"
        body.lines += [f"{start}:", '\t.pragma "nounroll";']
        last = op.body.block.last_op
        assert isinstance(last, AgainOp)
        self._block(op.body.block)
        body.lines.append(f"\t@{body.values[last.pred]} bra {start};")

    def _if(self, body: Body, op: IfOp) -> None:
        number = body.label()
        other, end = f"$L_{body.name}_else_{number}", f"$L_{body.name}_fi_{number}"
        body.lines.append(f"\t@!{body.values[op.pred]} bra {other};")
        self._block(op.then.block)
        if op.otherwise.block.first_op is None:
            body.lines.append(f"{other}:")
            return
        body.lines += [f"\tbra {end};", f"{other}:"]
        self._block(op.otherwise.block)
        body.lines.append(f"{end}:")

    def _printf(self, body: Body, op: PrintfOp) -> None:
        symbol = f"{body.name}_format_{body.strings + len(body.declarations)}"
        body.declarations.append(format_declaration(symbol, op.format.data))
        args = [(body.register(arg), class_of(arg)) for arg in op.args]
        body.lines += call_lines(symbol, args, body.names)

    def _fail(self, body: Body, op: FailOp) -> None:
        place, at = "0:0:0", op.location
        if isinstance(at, FileLineColLoc):
            place = f"{self.files.number(at.filename.data)}:{at.line.data}:{at.column.data}"
        body.lines += fail_lines(self.assertions, place, op.message.data, body.names)

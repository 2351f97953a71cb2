"""Prints `ptx.kernel` ops as PTX text: structure, names and the lines of each op.

A value is a name, a literal or a list of names (register arrays). Unrolled regions are printed once
for each trip with fresh names, which is where a few hundred ops become a few thousand lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TextIO

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.ptx import (
    AtomOp,
    BarSyncOp,
    BarWarpSyncOp,
    CpAsyncCommitOp,
    CpAsyncOp,
    CpAsyncWaitOp,
    FenceOp,
    FillOp,
    ForeachOp,
    ForOp,
    GetOp,
    IfOp,
    ImmOp,
    KernelOp,
    LdMatrixOp,
    LdOp,
    LdScalarOp,
    MmaOp,
    PackOp,
    PrintfOp,
    RedOp,
    RegArrayOp,
    RegsType,
    RegType,
    ReturnOp,
    ScalarOp,
    SetOp,
    ShflOp,
    SmemBaseOp,
    SpecialOp,
    StMatrixOp,
    StOp,
    StScalarOp,
    TableOp,
    TrapOp,
    UnpackOp,
    VoteOp,
    YieldOp,
    entries,
    operand_classes,
)

from .names import Names, literal
from .printf import PROTOTYPE, call_lines, format_declaration
from .target import version_of

# The move that copies a register of a class.
_MOVES = {
    "pred": "mov.pred",
    "b16": "mov.b16",
    "b32": "mov.b32",
    "b64": "mov.b64",
    "f32": "mov.f32",
    "f64": "mov.f64",
}
_PARAM = {"b16": ".b16", "b32": ".b32", "b64": ".b64", "f32": ".f32", "f64": ".f64"}
# Families of one operand and byte permutes get registers: a constant there is a fold not made.
_REGISTERS_ONLY = ("cvt", "popc", "clz", "abs", "neg", "not", "prmt")
_HALF_TYPES = frozenset({"f16", "bf16", "f16x2", "bf16x2", "e4m3x2", "e5m2x2"})
_TYPED_ZERO = {"f32": "0f00000000", "f64": "0d0000000000000000"}


def print_ptx(module: ModuleOp, output: TextIO) -> None:
    """Print every `ptx.kernel` of a module as one PTX text."""
    output.write(ptx_text(module))


def ptx_text(module: ModuleOp) -> str:
    """The PTX text of every `ptx.kernel` of a module; ValueError when there is none."""
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    if not kernels:
        raise ValueError("expected a ptx.kernel in the module (run convert-to-ptx), got none")
    target = kernels[0].target.data
    for kernel in kernels:
        if kernel.target.data != target:
            raise VerifyException(
                f"expected one target in a module, got {target} and {kernel.target.data}", kernel
            )
    files = _Files()
    bodies: list[str] = []
    declarations: list[str] = []
    for kernel in kernels:
        printer = _KernelPrinter(kernel, files, len(declarations))
        bodies.append(printer.print())
        declarations += printer.declarations
    if any(line.startswith(".global") for line in declarations):
        declarations.insert(0, PROTOTYPE)
    head = [f".version {version_of(target)}", f".target {target}", ".address_size 64", ""]
    tail = [f'\t.file {number} "{path}"' for path, number in files.numbers.items()]
    return "\n".join([*head, *declarations, *bodies, *tail]) + "\n"


class _Files:
    """Numbers of the source files that `.loc` names."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, path: str) -> int:
        return self.numbers.setdefault(path.replace(os.sep, "/"), len(self.numbers) + 1)


class _KernelPrinter:
    """Prints one kernel."""

    def __init__(self, kernel: KernelOp, files: _Files, strings: int) -> None:
        self.kernel = kernel
        self.name = kernel.sym_name.data
        self.files = files
        self.lines: list[str] = []
        self.names = Names()
        self.values: dict[SSAValue, str] = {}
        self.arrays: dict[SSAValue, list[str]] = {}
        self.declarations: list[str] = []
        self.strings = strings
        self.labels = 0
        self.where: tuple[str, int, int] | None = None
        self.handlers: dict[type[Operation], Callable[[Operation], None]] = {
            ImmOp: self._imm,
            SpecialOp: self._special,
            SmemBaseOp: self._smem_base,
            PackOp: self._pack,
            UnpackOp: self._unpack,
            RegArrayOp: self._regs,
            FillOp: self._fill,
            LdOp: self._table,
            StOp: self._table,
            RedOp: self._table,
            LdMatrixOp: self._table,
            CpAsyncOp: self._cp_async,
            MmaOp: self._mma,
            LdScalarOp: self._ld_scalar,
            StScalarOp: self._st_scalar,
            ForeachOp: self._foreach,
            ForOp: self._for,
            IfOp: self._if,
            ShflOp: self._shfl,
            GetOp: self._get,
            SetOp: self._set,
            StMatrixOp: self._table,
            AtomOp: self._atom,
            VoteOp: self._vote,
            BarSyncOp: self._bar_sync,
            BarWarpSyncOp: self._bar_warp_sync,
            FenceOp: self._fence,
            ReturnOp: lambda op: self.lines.append("\tret;"),
            TrapOp: lambda op: self.lines.append("\ttrap;"),
            CpAsyncCommitOp: lambda op: self.lines.append("\tcp.async.commit_group;"),
            CpAsyncWaitOp: self._wait,
            PrintfOp: self._printf,
        }

    def print(self) -> str:
        kernel = self.kernel
        smem = kernel.smem.value.data if kernel.smem is not None else 0
        if smem:
            self.declarations.append(f".extern .shared .align 1024 .b8 {self.name}_smem[];")
        args = kernel.body.block.args
        params = []
        for position, arg in enumerate(args):
            register_class = _class_of(arg)
            params.append(f"\t.param {_PARAM[register_class]} {self.name}_param_{position}")
            if not any(True for _ in arg.uses):
                continue
            name = self.values[arg] = self.names.fresh(register_class)
            self.lines.append(
                f"\tld.param{_PARAM[register_class]} {name}, [{self.name}_param_{position}];"
            )
        self._block(kernel.body.block)
        head = [f".visible .entry {self.name}("]
        if params:
            head.append(",\n".join(params))
        head.append(")")
        head.append(f".reqntid {kernel.threads.value.data}, 1, 1")
        if kernel.min_ctas is not None:
            head.append(f".minnctapersm {kernel.min_ctas.value.data}")
        if kernel.max_regs is not None:
            head.append(f".maxnreg {kernel.max_regs.value.data}")
        head.append("{")
        return "\n".join([*head, *self.names.declarations(), "", *self.lines, "\tret;", "}", ""])

    def _block(self, block: Block) -> None:
        handlers = self.handlers
        for op in block.ops:
            self._locate(op)
            first = len(self.lines)
            if isinstance(op, ScalarOp):
                self._scalar(op)
            else:
                handler = handlers.get(type(op))
                if handler is None:
                    raise VerifyException(
                        f"expected an op of the ptx dialect in a kernel, got {op.name}", op
                    )
                handler(op)
            if len(self.lines) > first:
                origin = op.attributes.get("from")
                shown = origin.data if isinstance(origin, StringAttr) else op.name
                self.lines[first] += f" // ir: {shown}"

    def _locate(self, op: Operation) -> None:
        at = op.location
        if not isinstance(at, FileLineColLoc):
            return
        where = at.filename.data, at.line.data, at.column.data
        if where != self.where:
            self.where = where
            self.lines.append(f"\t.loc {self.files.number(where[0])} {where[1]} {where[2]}")

    # Values

    def _define(self, value: SSAValue) -> str:
        name = self.values[value] = self.names.fresh(_class_of(value))
        return name

    def _register(self, value: SSAValue) -> str:
        """The name of a value where PTX takes no literal."""
        shown = self.values[value]
        if shown.startswith("%"):
            return shown
        register_class = _class_of(value)
        name = self.names.fresh(register_class)
        self.lines.append(f"\t{_MOVES[register_class]} {name}, {shown};")
        return name

    def _imm(self, op: Operation) -> None:
        assert isinstance(op, ImmOp)
        register_class = _class_of(op.res)
        value = op.value.value.data  # type: ignore[union-attr]
        if register_class == "pred":
            name = self._define(op.res)
            self.lines.append(f"\tsetp.ne.b32 {name}, {int(value)}, 0;")
            return
        self.values[op.res] = literal(value, register_class)

    def _special(self, op: Operation) -> None:
        assert isinstance(op, SpecialOp)
        self.lines.append(f"\tmov.u32 {self._define(op.res)}, %{op.register.data};")

    def _smem_base(self, op: Operation) -> None:
        assert isinstance(op, SmemBaseOp)
        self.lines.append(f"\tmov.u32 {self._define(op.res)}, {self.name}_smem;")

    def _scalar(self, op: ScalarOp) -> None:
        values = self.values
        mnemonic = op.mnemonic
        args = [values[arg] for arg in op.operands]
        for position, shown in enumerate(args):
            if shown[0] != "%" and not _takes_literal(
                mnemonic, position, _class_of(op.operands[position])
            ):
                args[position] = self._register(op.operands[position])
        names = "|".join([self._define(result) for result in op.results])
        self.lines.append(f"\t{mnemonic} {names}, {', '.join(args)};")

    def _pack(self, op: Operation) -> None:
        assert isinstance(op, PackOp)
        parts = ", ".join(self._register(arg) for arg in op.args)
        wide = "b64" if _class_of(op.res) in ("b64", "f64") else "b32"
        self.lines.append(f"\tmov.{wide} {self._define(op.res)}, {{{parts}}};")

    def _unpack(self, op: Operation) -> None:
        assert isinstance(op, UnpackOp)
        source = self._register(op.arg)
        parts = ", ".join(self._define(result) for result in op.res)
        wide = "b64" if _class_of(op.arg) in ("b64", "f64") else "b32"
        self.lines.append(f"\tmov.{wide} {{{parts}}}, {source};")

    def _regs(self, op: Operation) -> None:
        assert isinstance(op, RegArrayOp)
        type_ = op.res.type
        assert isinstance(type_, RegsType)
        self.arrays[op.res] = self.names.array(type_.cls, type_.count)

    def _fill(self, op: Operation) -> None:
        assert isinstance(op, FillOp)
        type_ = op.data.type
        assert isinstance(type_, RegsType)
        move, value = _MOVES[type_.cls], self.values[op.value]
        self.lines += [f"\t{move} {name}, {value};" for name in self.arrays[op.data]]

    def _get(self, op: Operation) -> None:
        assert isinstance(op, GetOp)
        name = self._define(op.res)
        source = self.arrays[op.data][op.index.value.data]
        self.lines.append(f"\t{_MOVES[_class_of(op.res)]} {name}, {source};")

    def _set(self, op: Operation) -> None:
        assert isinstance(op, SetOp)
        target = self.arrays[op.data][op.index.value.data]
        self.lines.append(f"\t{_MOVES[_class_of(op.value)]} {target}, {self.values[op.value]};")

    # Memory

    def _table(self, op: Operation) -> None:
        assert isinstance(op, TableOp)
        names = self.arrays[op.data]
        type_ = op.data.type
        assert isinstance(type_, RegsType)
        family = op.name[len("ptx.") :]
        mnemonic = f"{family}.{op.modifiers.data}"
        bases = [self._register(value) for value in op.bases]
        preds = [self.values[value] for value in op.preds]
        base, offset = entries(op.base), entries(op.offset)
        regs = entries(op.regs)
        pred = entries(op.pred) if op.pred is not None else None
        width = len(regs) // len(base)
        loads = isinstance(op, LdOp | LdMatrixOp)
        matrix = isinstance(op, LdMatrixOp | StMatrixOp)
        for i in range(len(base)):
            data = [names[r] for r in regs[i * width : (i + 1) * width]]
            vector = data[0] if width == 1 and not matrix else f"{{{', '.join(data)}}}"
            guard = ""
            if pred is not None and pred[i] >= 0:
                guard = f"@{preds[pred[i]]} "
                if op.zero is not None:
                    zero = _TYPED_ZERO.get(type_.cls, "0")
                    self.lines += [f"\t{_MOVES[type_.cls]} {name}, {zero};" for name in data]
            at = _address(bases[base[i]], offset[i])
            operands = f"{vector}, {at}" if loads else f"{at}, {vector}"
            self.lines.append(f"\t{guard}{mnemonic} {operands};")

    def _cp_async(self, op: Operation) -> None:
        assert isinstance(op, CpAsyncOp)
        dst = [self._register(value) for value in op.dst_bases]
        src = [self._register(value) for value in op.src_bases]
        sizes = [self.values[value] for value in op.sizes]
        preds = [self.values[value] for value in op.preds]
        count = op.bytes.value.data
        size = entries(op.size)
        pred = entries(op.pred)
        tables = zip(
            entries(op.dst_base),
            entries(op.dst_offset),
            entries(op.src_base),
            entries(op.src_offset),
            strict=True,
        )
        for i, (db, do, sb, so) in enumerate(tables):
            guard = f"@{preds[pred[i]]} " if pred and pred[i] >= 0 else ""
            ending = f", {sizes[size[i]]}" if size and size[i] >= 0 else ""
            self.lines.append(
                f"\t{guard}cp.async.{op.modifiers.data} {_address(dst[db], do)}, "
                f"{_address(src[sb], so)}, {count}{ending};"
            )

    def _mma(self, op: Operation) -> None:
        assert isinstance(op, MmaOp)
        acc, lhs, rhs = (self.arrays[value] for value in (op.acc, op.lhs, op.rhs))
        nc, na, nb = entries(op.counts)
        mnemonic = f"mma.{op.modifiers.data}"
        for c, a, b in zip(entries(op.c), entries(op.a), entries(op.b), strict=True):
            d = ", ".join(acc[c : c + nc])
            self.lines.append(
                f"\t{mnemonic} {{{d}}}, {{{', '.join(lhs[a : a + na])}}}, "
                f"{{{', '.join(rhs[b : b + nb])}}}, {{{d}}};"
            )

    def _ld_scalar(self, op: Operation) -> None:
        assert isinstance(op, LdScalarOp)
        base = self._register(op.base)
        name = self._define(op.res)
        guard = ""
        if op.pred is not None:
            register_class = _class_of(op.res)
            zero = _TYPED_ZERO.get(register_class, "0")
            self.lines.append(f"\t{_MOVES[register_class]} {name}, {zero};")
            guard = f"@{self.values[op.pred]} "
        at = _address(base, op.offset.value.data)
        self.lines.append(f"\t{guard}ld.{op.modifiers.data} {name}, {at};")

    def _st_scalar(self, op: Operation) -> None:
        assert isinstance(op, StScalarOp)
        base, value = self._register(op.base), self._register(op.value)
        guard = f"@{self.values[op.pred]} " if op.pred is not None else ""
        at = _address(base, op.offset.value.data)
        self.lines.append(f"\t{guard}st.{op.modifiers.data} {at}, {value};")

    def _atom(self, op: Operation) -> None:
        assert isinstance(op, AtomOp)
        base = self._register(op.base)
        values = ", ".join([self._register(value) for value in op.values])
        at = _address(base, op.offset.value.data)
        self.lines.append(f"\tatom.{op.modifiers.data} {self._define(op.res)}, {at}, {values};")

    # Regions

    def _foreach(self, op: Operation) -> None:
        assert isinstance(op, ForeachOp)
        block = op.body.block
        ending = block.last_op
        assert isinstance(ending, YieldOp)
        sources = [
            (self.arrays[v], entries(t)) for v, t in zip(op.sources, op.source_index, strict=True)
        ]
        constants = [entries(table) for table in op.constants]
        targets = [
            (self.arrays[v], entries(t), _MOVES[v.type.cls])  # type: ignore[union-attr]
            for v, t in zip(op.targets, op.target_index, strict=True)
        ]
        inner = [o for o in block.ops if o is not ending]
        for trip in range(op.count.value.data):
            given = [names[index[trip]] for names, index in sources]
            given += [str(index[trip]) for index in constants]
            for arg, name in zip(block.args, given, strict=True):
                self.values[arg] = name
            for body_op in inner:
                if isinstance(body_op, ScalarOp):
                    self._scalar(body_op)
                else:
                    self.handlers[type(body_op)](body_op)
            self._write_targets(
                [(names[index[trip]], move) for names, index, move in targets],
                ending.values,
                block,
            )

    def _write_targets(
        self,
        targets: Sequence[tuple[str, str]],
        yielded: Sequence[SSAValue],
        body: Block,
    ) -> None:
        """Write all targets of a trip; one may be a source of it that another yields."""
        values = [self.values[value] for value in yielded]
        written = {name for name, _ in targets}
        for position, ((name, move), value) in enumerate(zip(targets, values, strict=True)):
            if value in written and value != name:
                saved = self.names.fresh(_class_of(yielded[position]))
                self.lines.append(f"\t{move} {saved}, {value};")
                values[position] = saved
        for (name, move), value, source in zip(targets, values, yielded, strict=True):
            last = values[-1] is value and values.count(value) == 1
            # A value from outside of the region, such as a source, is not the region's to rename.
            made_here = isinstance(source.owner, Operation) and source.owner.parent is body
            self._write(name, value, move, last and made_here and source.has_one_use())

    def _write(self, target: str, value: str, move: str, owned: bool) -> None:
        """Move a value to a target; the instruction that just made it for this writes there."""
        if value == target:
            return
        last = self.lines[-1] if self.lines else ""
        head, space, rest = last.lstrip("\t").partition(" ")
        made = rest.startswith(f"{value},")
        if owned and made and space and not head.startswith((".", "@", "bar", "st", "red", "//")):
            self.lines[-1] = f"\t{head} {target},{rest[len(value) + 1 :]}"
            return
        self.lines.append(f"\t{move} {target}, {value};")

    def _label(self) -> int:
        self.labels += 1
        return self.labels

    def _for(self, op: Operation) -> None:
        assert isinstance(op, ForOp)
        number = self._label()
        body, end = f"$L_{self.name}_body_{number}", f"$L_{self.name}_end_{number}"
        low, high = self.values[op.low], self.values[op.high]
        index = self._define(op.body.block.args[0])
        enter, again = self.names.fresh("pred"), self.names.fresh("pred")
        self.lines += [
            f"\tmov.u32 {index}, {low};",
            f"\tsetp.ge.s32 {enter}, {index}, {high};",
            f"\t@{enter} bra {end};",
            f"{body}:",
            '\t.pragma "nounroll";',
        ]
        self._block(op.body.block)
        self.lines += [
            f"\tadd.s32 {index}, {index}, {op.step.value.data};",
            f"\tsetp.lt.s32 {again}, {index}, {high};",
            f"\t@{again} bra {body};",
            f"{end}:",
        ]

    def _if(self, op: Operation) -> None:
        assert isinstance(op, IfOp)
        number = self._label()
        other, end = f"$L_{self.name}_else_{number}", f"$L_{self.name}_fi_{number}"
        self.lines.append(f"\t@!{self.values[op.pred]} bra {other};")
        self._block(op.then.block)
        if op.otherwise.block.first_op is None:
            self.lines.append(f"{other}:")
            return
        self.lines += [f"\tbra {end};", f"{other}:"]
        self._block(op.otherwise.block)
        self.lines.append(f"{end}:")

    # Synchronization and output

    def _shfl(self, op: Operation) -> None:
        assert isinstance(op, ShflOp)
        value = self._register(op.value)
        if _class_of(op.value) == "f32":
            moved = self.names.fresh("b32")
            self.lines.append(f"\tmov.b32 {moved}, {value};")
            value = moved
        lane, clamp, members = (self.values[v] for v in (op.lane, op.clamp, op.members))
        result = self.names.fresh("b32")
        self.lines.append(
            f"\tshfl.{op.modifiers.data} {result}, {value}, {lane}, {clamp}, {_mask(members)};"
        )
        if _class_of(op.res) == "f32":
            self.lines.append(f"\tmov.b32 {self._define(op.res)}, {result};")
        else:
            self.values[op.res] = result

    def _vote(self, op: Operation) -> None:
        assert isinstance(op, VoteOp)
        pred, members = self.values[op.pred], self.values[op.members]
        self.lines.append(
            f"\tvote.{op.modifiers.data} {self._define(op.res)}, {pred}, {_mask(members)};"
        )

    def _bar_sync(self, op: Operation) -> None:
        assert isinstance(op, BarSyncOp)
        threads = f", {op.threads.value.data}" if op.threads is not None else ""
        self.lines.append(f"\tbar.sync {op.number}{threads};")

    def _bar_warp_sync(self, op: Operation) -> None:
        assert isinstance(op, BarWarpSyncOp)
        self.lines.append(f"\tbar.warp.sync {_mask(self.values[op.members])};")

    def _fence(self, op: Operation) -> None:
        assert isinstance(op, FenceOp)
        self.lines.append(f"\tfence.{op.modifiers.data};")

    def _wait(self, op: Operation) -> None:
        assert isinstance(op, CpAsyncWaitOp)
        self.lines.append(f"\tcp.async.wait_group {op.pending.value.data};")

    def _printf(self, op: Operation) -> None:
        assert isinstance(op, PrintfOp)
        symbol = f"{self.name}_format_{self.strings + len(self.declarations)}"
        self.declarations.append(format_declaration(symbol, op.format.data))
        args = [(self._register(arg), _class_of(arg)) for arg in op.args]
        self.lines += call_lines(symbol, args, self.names)


@lru_cache(maxsize=1024)
def _takes_literal(mnemonic: str, position: int, register_class: str) -> bool:
    """Whether an operand may be a constant: half types have none, and a float's bits stand only
    for a float (PTX ISA 4.5).
    """
    parts = mnemonic.split(".")
    if parts[0] in _REGISTERS_ONLY or not _HALF_TYPES.isdisjoint(parts):
        return False
    wanted = operand_classes(mnemonic)[position][0]
    return (wanted in _TYPED_ZERO) == (register_class in _TYPED_ZERO)


def _class_of(value: SSAValue) -> str:
    assert isinstance(value.type, RegType)
    return value.type.data


def _mask(members: str) -> str:
    """A literal mask of lanes in hexadecimal; a register as it is."""
    return members if members[0] == "%" else f"0x{int(members) & 0xFFFFFFFF:08x}"


def _address(base: str, offset: int) -> str:
    return f"[{base}+{offset}]" if offset else f"[{base}]"

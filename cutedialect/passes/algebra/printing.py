"""`cute.print` as `gpu.printf` on the device, on the host as a call of C's `printf`: the text of a
type, in which each `?` is a number of the value.
"""

from __future__ import annotations

import re

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, StringAttr, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.dialects import gpu
from cutedialect.dialects.cute import ComposedLayoutType
from cutedialect.dialects.cute.algebra import is_static_type

from .arithmetic import Emitter
from .structs import extracted, numbers, parts_of, struct_of

_LEAF = re.compile(r"\?(\{[^}]*\})?")
_POINTER = llvm.LLVMPointerType()
_PRINTF = llvm.LLVMFunctionType([_POINTER], i32, is_variadic=True)


def format_of(type_: Attribute) -> str:
    """The format string of a value's text: `(?,8)` is `(%d,8)` and a new line.

    The text of a type is what it prints in quotes.
    """
    text = re.search(r'"(.*)"', str(type_))
    assert text is not None
    return _LEAF.sub(lambda leaf: "%lld" if "i64" in leaf.group() else "%d", text[1]) + "\n"


def print_on_device(emitter: Emitter, type_: Attribute, struct: SSAValue) -> None:
    """Append `gpu.printf` of a value."""
    arguments = _printed(emitter, type_, struct)
    emitter.ops.append(gpu.PrintfOp(format_of(type_), arguments))


def call_printf(emitter: Emitter, module: ModuleOp, type_: Attribute, struct: SSAValue) -> None:
    """Append a call that prints a value."""
    arguments = _printed(emitter, type_, struct)
    text = format_of(type_) + "\0"
    name = _global(module, text)
    array = llvm.LLVMArrayType(len(text), i8)
    address = emitter.add(llvm.AddressOfOp(name, _POINTER))
    start = emitter.add(llvm.GEPOp(address, [0, 0], array, result_type=_POINTER))
    emitter.add(llvm.CallOp("printf", start, *arguments, return_type=i32, var_callee_type=_PRINTF))


def _printed(emitter: Emitter, type_: Attribute, struct: SSAValue) -> list[SSAValue]:
    """The run-time numbers of a value in the order of its text: that of a composed layout begins
    with what is applied last, which is its last field.
    """
    parts = parts_of(type_)
    if parts is None or not isinstance(type_, ComposedLayoutType):
        return numbers(emitter, type_, struct, only_dynamic=True)
    fields = {
        position: extracted(emitter, struct, (position,), struct_of(part))
        for position, part in enumerate(parts)
        if not is_static_type(part)
    }
    return [
        number
        for position in reversed(fields)
        for number in numbers(emitter, parts[position], fields[position], only_dynamic=True)
    ]


def _global(module: ModuleOp, text: str) -> str:
    """The name of a new constant with a text, in front of the functions."""
    ops = list(module.body.block.ops)
    globals_ = [op for op in ops if isinstance(op, llvm.GlobalOp)]
    names = {op.sym_name.data for op in globals_}
    number = 0
    while f"printfFormat_{number}" in names:
        number += 1
    name = f"printfFormat_{number}"
    made: list[Operation] = []
    last: Operation | None = globals_[-1] if globals_ else None
    printf = next(
        (op for op in ops if isinstance(op, llvm.FuncOp) and op.sym_name.data == "printf"), None
    )
    if printf is None:
        printf = llvm.FuncOp("printf", _PRINTF, llvm.LinkageAttr("external"))
        made.append(printf)
    made.append(
        llvm.GlobalOp(
            llvm.LLVMArrayType(len(text), i8),
            name,
            "internal",
            constant=True,
            value=StringAttr(text),
        )
    )
    after = last or (None if made[0] is printf else printf)
    if after is not None:
        module.body.block.insert_ops_after(made, after)
    elif ops:
        module.body.block.insert_ops_before(made, ops[0])
    else:
        module.body.block.add_ops(made)
    return name

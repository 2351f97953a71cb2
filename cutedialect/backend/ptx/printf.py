"""The call of `vprintf` behind `ptx.printf`: the format in global memory, the arguments in a buffer
in local memory with C's promotions and alignment.
"""

from __future__ import annotations

from collections.abc import Sequence

from .body import Names

PROTOTYPE = ".extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 args);"


def format_declaration(symbol: str, text: str) -> str:
    """The format as a module-level string that ends in 0."""
    data = text.encode() + b"\0"
    return f".global .align 1 .b8 {symbol}[{len(data)}] = {{{', '.join(map(str, data))}}};"


def call_lines(symbol: str, args: Sequence[tuple[str, str]], names: Names) -> list[str]:
    """The lines that call `vprintf` with registers given as (name, class)."""
    lines: list[str] = []
    stores: list[str] = []
    offset = 0
    for value, register_class in args:
        if register_class == "f32":
            wide = names.fresh("f64")
            lines.append(f"\tcvt.f64.f32 {wide}, {value};")
            value, register_class = wide, "f64"
        elif register_class == "b16":
            wide = names.fresh("b32")
            lines.append(f"\tcvt.u32.u16 {wide}, {value};")
            value, register_class = wide, "b32"
        elif register_class == "pred":
            wide = names.fresh("b32")
            lines.append(f"\tselp.u32 {wide}, 1, 0, {value};")
            value, register_class = wide, "b32"
        width = 8 if register_class in ("b64", "f64") else 4
        offset = -(-offset // width) * width
        stores.append(f"\tst.local.{register_class} [{symbol}_args+{offset}], {value};")
        offset += width
    pointer, generic, arguments = (names.fresh("b64") for _ in range(3))
    if stores:
        lines += ["\t{", f"\t.local .align 8 .b8 {symbol}_args[{offset}];", *stores]
        lines.append(f"\tmov.u64 {arguments}, {symbol}_args;")
        lines.append(f"\tcvta.local.u64 {arguments}, {arguments};")
        lines.append("\t}")
    else:
        lines.append(f"\tmov.u64 {arguments}, 0;")
    return [
        *lines,
        f"\tmov.u64 {pointer}, {symbol};",
        f"\tcvta.global.u64 {generic}, {pointer};",
        "\t{",
        "\t.param .b64 format;",
        f"\tst.param.b64 [format], {generic};",
        "\t.param .b64 args;",
        f"\tst.param.b64 [args], {arguments};",
        "\t.param .b32 result;",
        "\tcall.uni (result), vprintf, (format, args);",
        "\t}",
    ]

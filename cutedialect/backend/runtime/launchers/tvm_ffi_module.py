"""A kernel as a module of TVM FFI: a file of C++ on top of the launcher in C, whose function takes
tensors of any framework that TVM FFI knows, on the stream that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cutedialect.backend.runtime.errors import CompileError

from .c_variant import SCALARS, call_arguments, field
from .texts import filled, text_of


def tvm_ffi_module(name: str, description: Mapping[str, Any]) -> str:
    """The file NAME_tvm_ffi.cc beside NAME.h, whose images are embedded. Its function takes the
    arguments of the call in order, results among them. The call is that of a description.

    Raises CompileError for a call of lists.
    """
    arguments = call_arguments(description)
    if "tables" in description:
        raise CompileError(
            "expected a call of tensors and numbers for TVM FFI, got one of lists; --launcher c "
            "and cpp have them",
            code="CD-DESCRIBE",
        )
    words = {
        "name": name,
        "context": text_of("primary_context.hpp"),
        "parameters": ", ".join(
            f"tvm::ffi::TensorView {field(each['name'])}"
            if each["kind"] == "tensor"
            else f"{_number(each)} {field(each['name'])}"
            for each in arguments
        ),
        "fields": "\n".join(_fields(arguments)),
        "first": next(field(each["name"]) for each in arguments if each["kind"] == "tensor"),
    }
    return filled("tvm_ffi.cc", words)


def _number(argument: Mapping[str, Any]) -> str:
    """TVM FFI has numbers of 64 bits."""
    return "double" if SCALARS[argument["type"]] in ("float", "double") else "int64_t"


def _fields(arguments: list[dict[str, Any]]) -> Iterator[str]:
    for each in arguments:
        named = field(each["name"])
        if each["kind"] == "tensor":
            yield f'  given.{named} = taken({named}, device, "{each["name"]}");'
        else:
            yield f"  given.{named} = static_cast<{SCALARS[each['type']]}>({named});"

"""A call as operators of torch without Python: a file of C++ on top of launchers in C, whose
operators have the schemas of `cutedialect.torch`. A package of AOTInductor finds them by these.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.expressions import in_c

from .c_variant import SCALARS, c_dtype, call_arguments, field
from .texts import filled, text_of

# NumPy's names of element types that torch has, to torch's own.
_TYPES = {
    "bool": "kBool", "int8": "kChar", "int16": "kShort", "int32": "kInt", "int64": "kLong",
    "uint8": "kByte", "uint16": "kUInt16", "uint32": "kUInt32", "uint64": "kUInt64",
    "float8_e4m3fn": "kFloat8_e4m3fn", "float8_e5m2": "kFloat8_e5m2", "float16": "kHalf",
    "bfloat16": "kBFloat16", "float32": "kFloat", "float64": "kDouble",
    "float8_e8m0fnu": "kFloat8_e8m0fnu",
}  # fmt: skip


@dataclass(frozen=True)
class TorchOperator:
    """An operator: its name, the text of its schema behind that, and the names of its results."""

    name: str
    schema: str
    results: tuple[str, ...]


@dataclass(frozen=True)
class ElementType:
    """An option that is an element type, by NumPy's name."""

    name: str


@dataclass(frozen=True)
class TorchVariant:
    """A kernel: what users call it, its description, and what it was compiled for: each argument of
    the operators that decides something, by name. None stands for one that is not given.
    """

    name: str
    description: Mapping[str, Any]
    options: Mapping[str, Any]


def torch_module(
    name: str, operators: Sequence[TorchOperator], variants: Sequence[TorchVariant]
) -> str:
    """The file NAME_torch.cc beside the headers of the variants, whose images are embedded.

    Raises CompileError for a call of lists, and for results whose extents follow from no argument.
    """
    results = [result for operator in operators for result in operator.results]
    writers = [_Writer(variant, dict.fromkeys(results)) for variant in variants]
    words = {
        "name": name,
        "operators": " and ".join(f"cutedialect::{operator.name}" for operator in operators),
        "includes": "\n".join(f'#include "{writer.kernel}.h"' for writer in writers),
        "context": text_of("primary_context.hpp"),
        "types": "\n".join(
            f"    case at::{its}: *dtype = {c_dtype(name)}; break;" for name, its in _TYPES.items()
        ),
        "functions": "\n".join(line for writer in writers for line in writer.functions()),
        "variants": "\n".join(writer.row() for writer in writers),
        "results": "\n".join(
            f'    {{"cutedialect::{operator.name}", {_names(operator.results)}}},'
            for operator in operators
        ),
        "first": writers[0].first,
        "definitions": "\n".join(
            f"  library.def({json.dumps(operator.name + operator.schema)});"
            for operator in operators
        ),
        "implementations": "\n".join(
            f'  library.impl("{operator.name}", '
            "torch::CppFunction::makeFromBoxedFunction<&call>());"
            for operator in operators
        ),
    }
    return filled("torch.cc", words)


class _Writer:
    """Writes what there is for a variant."""

    def __init__(self, variant: TorchVariant, results: Mapping[str, object]) -> None:
        if "tables" in variant.description:
            raise CompileError(
                "expected a call of tensors and numbers for torch, got one of lists; --launcher c "
                "and cpp have them",
                code="CD-DESCRIBE",
            )
        self.variant = variant
        self.kernel = str(variant.description["name"])
        self.arguments = call_arguments(variant.description)
        tensors = [argument for argument in self.arguments if argument["kind"] == "tensor"]
        self.results = [tensor for name in results for tensor in tensors if tensor["name"] == name]
        self.tensors = [tensor for tensor in tensors if tensor["name"] not in results]
        self.first = str(self.tensors[0]["name"])

    def row(self) -> str:
        """The row of the table of variants."""
        names = _names([tensor["name"] for tensor in self.results])
        return f'    {{"{self.variant.name}", {names}, differs_{self.kernel}, run_{self.kernel}}},'

    def functions(self) -> Iterator[str]:
        """What looks at the options of a call, and what runs it."""
        yield f"const char *differs_{self.kernel}(const Values &values) {{"
        given = {argument["name"] for argument in self.arguments}
        for name, value in self.variant.options.items():
            if name in given:
                continue
            yield f'  if (!same(values.at("{name}"), {_in_cpp(name, value)}))'
            yield f"    return {json.dumps(f'{name} {_shown(value)}')};"
        for tensor in self.tensors:
            yield f'  if (!values.at("{tensor["name"]}").isTensor())'
            yield f'    return "{tensor["name"]} given";'
        yield "  return nullptr;"
        yield "}"
        yield ""
        yield f"Loaded<{self.kernel}_kernel> loaded_{self.kernel};"
        yield ""
        yield (
            f"cute_status run_{self.kernel}(const Values &values, Results *results, "
            "cute_error *error) {"
        )
        yield f"  {self.kernel}_arguments given{{}};"
        yield f'  const at::Tensor first = values.at("{self.first}").toTensor();'
        yield "  cute_status status = CUTE_OK;"
        for tensor in self.tensors:
            name = tensor["name"]
            yield f'  const at::Tensor {name}_ = values.at("{name}").toTensor();'
            yield from self._take(str(name))
        for argument in self.arguments:
            if argument["kind"] == "scalar":
                name = argument["name"]
                yield (
                    f"  given.{field(name)} = static_cast<{SCALARS[argument['type']]}>("
                    f'values.at("{name}").toScalar().toDouble());'
                )
        for result in self.results:
            yield from self._result(result)
        yield f"  const Functions<{self.kernel}_kernel, {self.kernel}_arguments> functions = {{"
        names = ("load_embedded", "workspace", "clear", "launch")
        yield "      " + ", ".join(f"{self.kernel}_{name}" for name in names) + "};"
        yield f"  return run(&loaded_{self.kernel}, functions, given, first, error);"
        yield "}"
        yield ""

    def _take(self, name: str) -> Iterator[str]:
        yield f'  status = taken({name}_, first, "{name}", &given.{field(name)}, error);'
        yield "  if (status != CUTE_OK) return status;"

    def _result(self, result: Mapping[str, Any]) -> Iterator[str]:
        name, dtype = result["name"], result["dtype"]
        if dtype not in _TYPES or None in result["shape"]:
            raise CompileError(
                f"{name}: expected a result of an element type of torch, whose extents follow from "
                f"those of the operands, got {dtype} of {result['shape']}",
                code="CD-DESCRIBE",
            )
        names = {
            argument["name"]: f"given.{field(argument['name'])}" for argument in self.arguments
        }
        extents = ", ".join(in_c(str(extent), names) for extent in result["shape"])
        yield f"  const at::Tensor {name}_ ="
        yield f"      at::empty({{{extents}}}, first.options().dtype(at::{_TYPES[dtype]}));"
        yield f'  (*results)["{name}"] = {name}_;'
        yield from self._take(str(name))


def _names(names: Sequence[str]) -> str:
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def _in_cpp(name: str, value: Any) -> str:
    """A value of an option in C++."""
    match value:
        case None:
            return "nullptr"
        case bool():
            return str(value).lower()
        case int() | float() if math.isfinite(value):
            return repr(float(value))
        case str():
            return json.dumps(value)
        case ElementType(dtype) if dtype in _TYPES:
            return f"at::{_TYPES[dtype]}"
        case tuple() if all(type(extent) is int for extent in value):
            return f"std::vector<std::int64_t>{{{', '.join(map(str, value))}}}"
        case _:
            raise CompileError(
                f"{name}: expected a number, a word or an element type for an operator of torch, "
                f"got {_shown(value)}",
                code="CD-DESCRIBE",
            )


def _shown(value: Any) -> str:
    return value.name if isinstance(value, ElementType) else repr(value)

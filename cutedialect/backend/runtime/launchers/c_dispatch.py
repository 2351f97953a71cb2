"""A launcher in C of several variants of a call: each has a header of its own, and this one takes
the first variant that is compiled for the arguments. Text follows the descriptions and nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutedialect.backend.runtime.errors import CompileError

from .c_header import argument_fields
from .c_variant import c_dtype, call_arguments, field
from .texts import filled


@dataclass(frozen=True)
class Alternative:
    """A variant: its name, and the description for one of its targets. Its header is that of the
    description's kernel.
    """

    name: str
    description: Mapping[str, Any]

    @property
    def kernel(self) -> str:
        """What its header and its functions are called."""
        return str(self.description["name"])


def c_dispatcher(name: str, variants: Sequence[Alternative], *, embed: bool = False) -> str:
    """The header NAME.h of variants, in the order in which they are tried.

    Raises CompileError for variants whose calls take other arguments than the first one's.
    """
    wanted = _taken(variants[0])
    for other in variants[1:]:
        if _taken(other) != wanted:
            raise CompileError(
                f"expected variants that take the same arguments, {_shown(wanted)} of "
                f"{variants[0].name}, got {_shown(_taken(other))} of {other.name}; leave what one "
                "call has for all of them to --set before the variants",
                code="CD-DESCRIBE",
            )
    words = {
        "name": name,
        "guard": name.upper(),
        "includes": "\n".join(f'#include "{each.kernel}.h"' for each in variants),
        "fields": "\n".join(argument_fields(variants[0].description, with_types=False)),
        "kernels": "\n".join(f"  {each.kernel}_kernel {each.kernel};" for each in variants),
        "count": str(len(variants)),
        "names": ", ".join(f'"{each.name}"' for each in variants),
        "plain_names": ", ".join(each.name for each in variants),
        "forms": "\n".join(line for each in variants for line in _form(name, each)),
        "types": "\n".join(line for place in enumerate(variants) for line in _types(*place)),
        "files": "\n".join(line for place in enumerate(variants) for line in _load(*place)),
        "embedded": "\n".join(_embedded(name, variants)) if embed else "",
        "unloads": "\n".join(
            f"  {each.kernel}_unload(&kernel->{each.kernel});" for each in variants
        ),
        "runs": "\n".join(line for place in enumerate(variants) for line in _run(name, *place)),
        "got": ", ".join(f"{each['name']} %s" for each in _tensors(variants[0])),
        "given": "".join(
            f",\n                   cute_dtype_name({_dtype_of(each)})"
            for each in _tensors(variants[0])
        ),
    }
    return filled("dispatch.h", words)


def _taken(variant: Alternative) -> list[tuple[Any, ...]]:
    """What a call takes, but for types of elements and extents."""
    return [
        (each["name"], each["kind"], each.get("type", len(each.get("shape", ()))))
        for each in call_arguments(variant.description)
    ]


def _shown(taken: Sequence[tuple[Any, ...]]) -> str:
    return ", ".join(
        f"{name} ({rank} dimensions)" if kind != "scalar" else f"{name} ({rank})"
        for name, kind, rank in taken
    )


def _tensors(variant: Alternative) -> list[dict[str, Any]]:
    return [each for each in call_arguments(variant.description) if each["kind"] != "scalar"]


def _dtype_of(argument: Mapping[str, Any]) -> str:
    """The type of an argument that the caller gives, of lists that of the first tensor."""
    named = f"given->{field(argument['name'])}"
    if argument["kind"] == "tensor":
        return f"{named}.dtype"
    return f"(given->count > 0 ? {named}[0].dtype : {c_dtype(argument['dtype'])})"


def _form(name: str, variant: Alternative) -> Iterator[str]:
    """The arguments of a variant."""
    kernel = variant.kernel
    yield f"static CUTE_UNUSED {kernel}_arguments {name}_for_{kernel}("
    yield f"    const {name}_arguments *given) {{"
    yield f"  {kernel}_arguments made;"
    names = [field(each["name"]) for each in call_arguments(variant.description)]
    for named in [*names, *(["count"] if "tables" in variant.description else [])]:
        yield f"  made.{named} = given->{named};"
    yield "  return made;"
    yield "}"
    yield ""


def _types(number: int, variant: Alternative) -> Iterator[str]:
    tests = " && ".join(
        f"{_dtype_of(each)} == {c_dtype(each['dtype'])}" for each in _tensors(variant)
    )
    yield f"    case {number}:"
    yield f"      return {tests or '1'};"


def _load(number: int, variant: Alternative) -> Iterator[str]:
    yield f"    case {number}:"
    yield f"      return {variant.kernel}_load_files(&kernel->{variant.kernel}, folder, error);"


def _unload(kernel: str) -> str:
    return f"  {kernel}_unload(&kernel->{kernel});"


def _embedded(name: str, variants: Sequence[Alternative]) -> Iterator[str]:
    yield "/* Loads from the images in the headers of the variants. */"
    yield f"static CUTE_UNUSED cute_status {name}_load_embedded({name}_kernel *kernel,"
    yield "                                             cute_error *error) {"
    yield "  int loaded = 0;"
    yield "  cute_status status = CUTE_OK;"
    yield "  memset(kernel, 0, sizeof *kernel);"
    for variant in variants:
        yield f"  status = {variant.kernel}_load_embedded(&kernel->{variant.kernel}, error);"
        yield "  loaded += status == CUTE_OK;"
        yield "  if (status != CUTE_OK && status != CUTE_TARGET) {"
        yield f"    {name}_unload(kernel);"
        yield "    return status;"
        yield "  }"
    yield "  return loaded > 0 ? CUTE_OK : status;"
    yield "}"
    yield ""


def _run(name: str, number: int, variant: Alternative) -> Iterator[str]:
    kernel = variant.kernel
    yield f"    case {number}: {{"
    yield f"      const {kernel}_arguments made = {name}_for_{kernel}(given);"
    yield f"      if (kernel->{kernel}.module == NULL) return CUTE_TARGET;"
    yield f"      return {kernel}_run(&kernel->{kernel}, &made, workspace, available, needed,"
    yield "                          clears, launches, stream, error);"
    yield "    }"

"""A kernel's launcher as a C99 header: its arguments as a struct, and functions that load it, say
what workspace a problem takes, and launch it. Text follows the description and nothing else; what
all launchers share is `shared.h`, which each header has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutedialect.backend.runtime.errors import CompileError

from .c_lists import ListVariant
from .c_variant import SCALARS, Variant, call_arguments, field
from .texts import filled, text_of

_BYTES_OF_A_LINE = 20


_WORKSPACE = """\
 * Most problems need a workspace of 0 bytes. Where one is needed, its address is a multiple of
 * 256, and it is cleared before its first launch, and before launches of other extents; a launch
 * leaves it as it has to be. Two launches at one time need two.
"""
_WORKSPACE_OF_LISTS = """\
 * A list is an array of `count` tensors. The workspace has tables of them, which the function
 * `clear` makes on the host and copies there, in the order of the stream: before the first launch,
 * and before one of other tensors or extents, which is refused otherwise. Its address is a multiple
 * of 256. Two launches at one time need two.
"""


@dataclass(frozen=True)
class Image:
    """A file of a kernel for a target: PTX text or machine code."""

    target: str
    file: str
    data: bytes


def c_header(
    descriptions: Sequence[Mapping[str, Any]], images: Sequence[Image], *, embed: bool = False
) -> str:
    """The header of one kernel, compiled for the target of each description; the first one that a
    device runs is taken. With `embed` the images are in it.

    Raises CompileError for targets whose calls differ, and for numbers that C has no type for.
    """
    name = str(descriptions[0]["name"])
    for other in descriptions[1:]:
        if _call(other) != _call(descriptions[0]):
            raise CompileError(
                f"expected one call for all targets, got another one for {other['arch']} than for "
                f"{descriptions[0]['arch']}; give the strides that it has to have (?x?:f16:?,1)",
                code="CD-DESCRIBE",
            )
    has_lists = "tables" in descriptions[0]
    parts = [
        _head(name, descriptions),
        text_of("shared.h"),
        *([text_of("lists.h")] if has_lists else []),
    ]
    parts.append(_arguments(name, descriptions[0]))
    kind = ListVariant if has_lists else Variant
    parts += [kind(name, each).text(number) for number, each in enumerate(descriptions)]
    parts.append(_functions(name, descriptions, images, embed))
    parts.append(f"#endif /* CUTEDIALECT_{name.upper()}_H */\n")
    return "\n".join(parts)


def _call(description: Mapping[str, Any]) -> object:
    return [
        {key: value for key, value in each.items() if key != "shape"}
        for each in call_arguments(description)
    ]


def _head(name: str, descriptions: Sequence[Mapping[str, Any]]) -> str:
    about = str(descriptions[0]["about"] or f"the kernel {name}").replace("*/", "* /")
    targets = ", ".join(str(each["arch"]) for each in descriptions)
    workspace = _WORKSPACE_OF_LISTS if "tables" in descriptions[0] else _WORKSPACE
    return f"""\
/* {name}.h: {about}.
 *
 * Written by `python -m cutedialect compile --launcher c`, for {targets}. Link with the CUDA driver
 * (-lcuda). In order:
 *
 *   {name}_load_files(&kernel, folder, &error)      or {name}_load(&kernel, images, count, &error)
 *   {name}_workspace(&kernel, &arguments, &bytes, &error)
 *   {name}_clear(&kernel, &arguments, workspace, bytes, stream, &error)
 *   {name}_launch(&kernel, &arguments, workspace, bytes, stream, &error)
 *   {name}_unload(&kernel)
 *
{workspace} */
#ifndef CUTEDIALECT_{name.upper()}_H
#define CUTEDIALECT_{name.upper()}_H
"""


def _arguments(name: str, description: Mapping[str, Any]) -> str:
    lines = [f"typedef struct {name}_arguments {{", *argument_fields(description)]
    kernels = max(len(description["launches"]), 1)
    lines += [
        f"}} {name}_arguments;",
        "",
        f"typedef struct {name}_kernel {{",
        "  CUmodule module;",
        f"  CUfunction functions[{kernels}];",
        "  int variant;     /* of the targets, in order */",
        "  int sm_count;",
        "  cute_maps maps;",
        *(["  cute_ready ready;"] if "tables" in description else []),
        f"}} {name}_kernel;",
        "",
    ]
    return "\n".join(lines)


def argument_fields(description: Mapping[str, Any], *, with_types: bool = True) -> Iterator[str]:
    """The fields of a struct of the call's arguments, each with what it has to be."""
    for each in call_arguments(description):
        if each["kind"] != "scalar":
            shape = ", ".join("any" if extent is None else str(extent) for extent in each["shape"])
            kind = "cute_tensor " if each["kind"] == "tensor" else "const cute_tensor *"
            about = f"{each['dtype']}, ({shape})" if with_types else f"{len(each['shape'])} modes"
            yield f"  {kind}{field(each['name'])}; /* {about} */"
        else:
            yield f"  {_scalar(each)} {field(each['name'])}; /* {each['type']} */"
    if "tables" in description:
        yield "  int64_t count; /* of the tensors of each list */"


def _scalar(argument: Mapping[str, Any]) -> str:
    type_ = str(argument["type"])
    if type_ not in SCALARS:
        raise CompileError(
            f"{argument['name']}: expected a number of {', '.join(SCALARS)} for C, got {type_}",
            code="CD-DESCRIBE",
        )
    return SCALARS[type_]


def _functions(
    name: str,
    descriptions: Sequence[Mapping[str, Any]],
    images: Sequence[Image],
    embed: bool,
) -> str:
    """Loading, dispatch and the functions that people call: `kernel.h` with names put in."""
    targets = [str(each["arch"]) for each in descriptions]
    functions: list[str] = []
    for number, description in enumerate(descriptions):
        functions.append(f"    case {number}:")
        for place, launch in enumerate(description["launches"]):
            functions += [f"      {line}" for line in _function(place, launch)]
        functions.append("      break;")
    words = {
        "name": name,
        "targets": ", ".join(f'"{target}"' for target in targets),
        "plain_targets": ", ".join(targets),
        "target_count": str(len(targets)),
        "functions": "\n".join(functions),
        "files": ", ".join(f'{{"{image.target}", "{image.file}"}}' for image in images),
        "file_count": str(len(images)),
        "embedded": "\n".join(_embedded(name, images)) if embed else "",
        "runs": "\n".join(
            f"    case {number}:\n      return {name}_run_{number}(kernel, arguments, workspace, "
            "available, needed, clears, launches,\n          stream, error);"
            for number in range(len(targets))
        ),
    }
    return filled("kernel.h", words)


def _function(place: int, launch: Mapping[str, Any]) -> Iterator[str]:
    kernel = launch["kernel"]
    yield f"status = cute_driver(error, cuModuleGetFunction(&kernel->functions[{place}],"
    yield f'    kernel->module, "{kernel}"), "{kernel}: cuModuleGetFunction");'
    yield "if (status != CUTE_OK) return status;"
    smem = launch["attributes"]["max_dynamic_shared_size_bytes"]
    pairs = [("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", smem)] if smem is not None else []
    if launch["attributes"]["non_portable_cluster_size_allowed"]:
        pairs.append(("CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1))
    for attribute, value in pairs:
        yield f"status = cute_driver(error, cuFuncSetAttribute(kernel->functions[{place}],"
        yield f'    {attribute}, {value}), "{kernel}: cuFuncSetAttribute");'
        yield "if (status != CUTE_OK) return status;"


def _embedded(name: str, images: Sequence[Image]) -> Iterator[str]:
    rows: list[str] = []
    yield ""
    for number, image in enumerate(images):
        yield f"static CUTE_UNUSED const unsigned char {name}_image_{number}[] = {{"
        data = image.data + b"\0"
        for start in range(0, len(data), _BYTES_OF_A_LINE):
            yield "  " + ",".join(map(str, data[start : start + _BYTES_OF_A_LINE])) + ","
        yield "};"
        rows.append(f'{{"{image.target}", {name}_image_{number}}}')
    yield ""
    yield "/* Loads from the images in this header. */"
    yield (
        f"static CUTE_UNUSED cute_status {name}_load_embedded({name}_kernel *kernel, "
        "cute_error *error) {"
    )
    yield f"  static const cute_image images[] = {{{', '.join(rows)}}};"
    yield f"  return {name}_load(kernel, images, {len(images)}, error);"
    yield "}"
    yield ""

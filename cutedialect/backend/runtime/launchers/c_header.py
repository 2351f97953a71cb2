"""A kernel's launcher as a C99 header: its arguments as a struct, and functions that load it, say
what workspace a problem takes, and launch it. Text follows the description and nothing else; what
all launchers share is `shared.h`, which each header has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.expressions import in_c

# NumPy's name of an element type to its bytes.
_BYTES = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2,
    "uint32": 4, "uint64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1, "float16": 2, "bfloat16": 2,
    "float32": 4, "float64": 8,
}  # fmt: skip
# Type of a number to that of its field in C.
_SCALARS = {
    "f32": "float", "f64": "double", "i1": "int", "i8": "int8_t", "i16": "int16_t",
    "i32": "int32_t", "i64": "int64_t", "index": "int64_t", "ui8": "uint8_t", "ui16": "uint16_t",
    "ui32": "uint32_t", "ui64": "uint64_t",
}  # fmt: skip
# Words of C and C++ that no argument is named.
_WORDS = frozenset(
    ("auto", "bool", "break", "case", "char", "class", "const", "continue", "default", "delete")
    + ("do", "double", "else", "enum", "extern", "float", "for", "goto", "if", "inline", "int")
    + ("long", "namespace", "new", "operator", "register", "restrict", "return", "short", "signed")
    + ("sizeof", "static", "struct", "switch", "template", "this", "typedef", "union", "unsigned")
    + ("void", "volatile", "while")
)
_BYTES_OF_A_LINE = 20


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
    parts = [_head(name, descriptions), _text("shared.h"), _arguments(name, descriptions[0])]
    parts += [_variant(name, number, each) for number, each in enumerate(descriptions)]
    parts.append(_functions(name, descriptions, images, embed))
    parts.append(f"#endif /* CUTEDIALECT_{name.upper()}_H */\n")
    return "\n".join(parts)


def call_arguments(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The arguments of the caller: those of the call, or else the kernel's own."""
    call = description["call"]
    if call is not None:
        return list(call["arguments"])
    return [
        {"name": each["name"], "kind": "scalar", "type": each["type"]}
        if each["kind"] == "scalar"
        else {
            "name": each["name"],
            "kind": "tensor",
            "dtype": each["dtype"],
            "shape": each["shape"],
        }
        for each in description["arguments"]
    ]


def field(name: str) -> str:
    """The name of an argument in C."""
    return f"{name}_" if name in _WORDS else name


def _call(description: Mapping[str, Any]) -> object:
    return [
        {key: value for key, value in each.items() if key != "shape"}
        for each in call_arguments(description)
    ]


def _text(file: str) -> str:
    return (files("cutedialect.backend.runtime.launchers") / file).read_text(encoding="utf-8")


def _head(name: str, descriptions: Sequence[Mapping[str, Any]]) -> str:
    about = str(descriptions[0]["about"] or f"the kernel {name}").replace("*/", "* /")
    targets = ", ".join(str(each["arch"]) for each in descriptions)
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
 * Most problems need a workspace of 0 bytes. Where one is needed, its address is a multiple of
 * 256, and it is cleared before its first launch, and before launches of other extents; a launch
 * leaves it as it has to be. Two launches at one time need two.
 */
#ifndef CUTEDIALECT_{name.upper()}_H
#define CUTEDIALECT_{name.upper()}_H
"""


def _arguments(name: str, description: Mapping[str, Any]) -> str:
    lines = [f"typedef struct {name}_arguments {{"]
    for each in call_arguments(description):
        if each["kind"] == "tensor":
            shape = ", ".join("any" if extent is None else str(extent) for extent in each["shape"])
            lines.append(f"  cute_tensor {field(each['name'])}; /* {each['dtype']}, ({shape}) */")
        else:
            lines.append(f"  {_scalar(each)} {field(each['name'])}; /* {each['type']} */")
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
        f"}} {name}_kernel;",
        "",
    ]
    return "\n".join(lines)


def _scalar(argument: Mapping[str, Any]) -> str:
    type_ = str(argument["type"])
    if type_ not in _SCALARS:
        raise CompileError(
            f"{argument['name']}: expected a number of {', '.join(_SCALARS)} for C, got {type_}",
            code="CD-DESCRIBE",
        )
    return _SCALARS[type_]


def _variant(name: str, number: int, description: Mapping[str, Any]) -> str:
    """The function that checks, plans and launches for one target."""
    body = list(_Variant(name, description).lines())
    return "\n".join(
        [
            f"/* {description['arch']}: {description['schedule']} */",
            f"static CUTE_UNUSED cute_status {name}_run_{number}(",
            f"    {name}_kernel *kernel, const {name}_arguments *given, CUdeviceptr workspace,",
            "    size_t available, size_t *needed, int clears, int launches, CUstream stream,",
            "    cute_error *error) {",
            *(f"  {line}" if line else "" for line in body),
            "  return CUTE_OK;",
            "}",
            "",
        ]
    )


class _Variant:
    """Writes the body; names of C for what expressions name."""

    def __init__(self, name: str, description: Mapping[str, Any]) -> None:
        self.name = name
        self.description = description
        self.called = call_arguments(description)
        self.outer = {each["name"]: f"given->{field(each['name'])}" for each in self.called}
        self.inner = {"sm_count": "((int64_t)kernel->sm_count)"}
        self.maps = 0

    def lines(self) -> Iterator[str]:
        yield "cute_status status;"
        for number, argument in enumerate(self.description["arguments"]):
            yield from self._declare(number, argument)
        yield "(void)given; (void)workspace; (void)available; (void)clears; (void)stream;"
        yield "(void)status; (void)kernel;"
        for number in range(len(self.description["arguments"])):
            yield f"(void)t{number};"
        yield from self._check_call()
        for number, argument in enumerate(self.description["arguments"]):
            yield from self._view(number, argument)
        yield from self._facts(self.description["requires"], self.inner)
        yield "{"
        for value in self.description["values"]:
            named = f"v_{value['name']}"
            yield f"  const int64_t {named} = {in_c(value['value'], self.inner)};"
            self.inner[value["name"]] = named
        yield from self._workspaces()
        yield "  if (!launches) return CUTE_OK;"
        for number, launch in enumerate(self.description["launches"]):
            yield from (f"  {line}" for line in self._launch(number, launch))
        yield "}"

    def _declare(self, number: int, argument: Mapping[str, Any]) -> Iterator[str]:
        named = f"t{number}"
        self.inner[argument["name"]] = named
        if argument["kind"] == "tensor":
            yield f"cute_tensor {named};"
            yield from _expected(f"e{number}", argument)
        elif argument["type"] in ("f32", "f64"):
            yield f"double {named};"
        else:
            yield f"int64_t {named};"

    def _check_call(self) -> Iterator[str]:
        if self.description["call"] is None:
            for each in self.called:
                if each["kind"] == "tensor":
                    yield from self._kind(each)
            return
        for each in self.called:
            if each["kind"] != "tensor":
                continue
            yield from self._kind(each)
            for mode, extent in enumerate(each["shape"]):
                if extent is not None:
                    wanted, got = in_c(str(extent), self.outer), f"{self.outer[each['name']]}.shape"
                    yield (
                        f'status = cute_check_extent("{each["name"]}", {mode}, {wanted}, '
                        f"{got}[{mode}], error);"
                    )
                    yield "if (status != CUTE_OK) return status;"
        yield from self._facts(self.description["call"]["requires"], self.outer)

    def _kind(self, each: Mapping[str, Any]) -> Iterator[str]:
        given = self.outer[each["name"]]
        yield (
            f'status = cute_check_kind("{each["name"]}", &{given}, {_dtype(each["dtype"])}, '
            f"{len(each['shape'])}, error);"
        )
        yield "if (status != CUTE_OK) return status;"

    def _facts(self, facts: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
        for fact in facts:
            yield f"if (!{in_c(fact, names)})"
            yield f'  return cute_fail(error, CUTE_ARGUMENT, "{self.name}: expected {fact}");'

    def _view(self, number: int, argument: Mapping[str, Any]) -> Iterator[str]:
        named, view = f"t{number}", argument["from"]
        if argument["kind"] == "scalar":
            value = argument["name"] if view is None else str(view["value"])
            kind = "double" if argument["type"] in ("f32", "f64") else "int64_t"
            yield f"{named} = ({kind}){in_c(value, self.outer)};"
            return
        array = self.outer[argument["name"] if view is None else view["array"]]
        yield f"{named} = {array};"
        if view is not None:
            yield f"{named}.rank = {len(argument['shape'])};"
            for key in ("shape", "stride"):
                for mode, text in enumerate(view[key]):
                    yield f"{named}.{key}[{mode}] = {in_c(text, self.outer)};"
        yield f"status = cute_check(&e{number}, &{named}, error);"
        yield "if (status != CUTE_OK) return status;"

    def _workspaces(self) -> Iterator[str]:
        spaces = self.description["workspaces"]
        yield "  size_t size = 0;"
        for number, space in enumerate(spaces):
            step, bytes_ = space["alignment"], _BYTES[space["dtype"]]
            yield f"  const size_t at{number} = size;"
            yield (
                f"  const size_t size{number} = (size_t){in_c(space['elements'], self.inner)} * "
                f"{bytes_};"
            )
            yield f"  size += (size{number} + {step - 1}) / {step} * {step};"
            self.inner[space["name"]] = f"(workspace + at{number})"
        yield "  if (needed != NULL) *needed = size;"
        yield "  if ((launches || clears) && size > 0) {"
        yield "    if (available < size)"
        yield (
            f'      return cute_fail(error, CUTE_WORKSPACE, "{self.name}: expected a workspace of '
            '%llu bytes, got %llu", (unsigned long long)size, (unsigned long long)available);'
        )
        yield "    if (workspace == 0 || workspace % 256 != 0)"
        yield (
            f'      return cute_fail(error, CUTE_WORKSPACE, "{self.name}: expected a workspace '
            'aligned to 256 bytes, got address 0x%llx", (unsigned long long)workspace);'
        )
        yield "  }"
        for number, space in enumerate(spaces):
            if space["zeroed"]:
                yield f"  if (clears && size{number} > 0) {{"
                yield (
                    f"    status = cute_driver(error, cuMemsetD8Async(workspace + at{number}, 0, "
                    f'size{number}, stream), "{self.name}: cuMemsetD8Async");'
                )
                yield "    if (status != CUTE_OK) return status;"
                yield "  }"

    def _launch(self, number: int, launch: Mapping[str, Any]) -> Iterator[str]:
        yield f"{{ /* {launch['kernel']} */"
        grid = ", ".join(in_c(extent, self.inner) for extent in launch["grid"])
        cluster = ", ".join(str(extent) for extent in launch["cluster"])
        yield f"  const int64_t grid[3] = {{{grid}}};"
        yield f"  const int cluster[3] = {{{cluster}}};"
        named: list[str] = []
        later: list[str] = []
        for place, parameter in enumerate(launch["parameters"]):
            named.append(f"&p{place}")
            if "tensor_map" in parameter:
                yield f"  CUtensorMap p{place};"
                later += self._map(place, parameter["tensor_map"], launch["kernel"])
            else:
                yield f"  {self._parameter(place, parameter)}"
        yield f"  void *parameters[{len(named) + 1}] = {{{', '.join([*named, 'NULL'])}}};"
        # A grid without CTAs needs no tensor maps.
        yield "  if (grid[0] != 0 && grid[1] != 0 && grid[2] != 0) {"
        yield from (f"    {line}" for line in later)
        early = int(launch["attributes"]["programmatic_stream_serialization_allowed"])
        yield (
            f"    status = cute_start(kernel->functions[{number}], grid, {launch['block'][0]}, "
            f"cluster, {launch['dynamic_smem']}, {early}, stream, parameters, "
            f'"{launch["kernel"]}", error);'
        )
        yield "    if (status != CUTE_OK) return status;"
        yield "  }"
        yield "}"

    def _parameter(self, place: int, parameter: Mapping[str, Any]) -> str:
        type_, size = parameter["type"], parameter["size"]
        text = in_c(parameter["value"], self.inner)
        if type_ == "ptr":
            return f"CUdeviceptr p{place} = {text};"
        if type_ in ("f32", "f64") and size == (4 if type_ == "f32" else 8):
            kind = _SCALARS[type_]
            return f"{kind} p{place} = ({kind}){text};"
        if not re.fullmatch(r"u?i\d+|index", type_):
            raise CompileError(
                f"{self.name}: expected parameters of integers, f32 and f64 for C, got {type_}",
                code="CD-DESCRIBE",
            )
        return f"uint{8 * size}_t p{place} = (uint{8 * size}_t)({text});"

    def _map(self, place: int, map_: Mapping[str, Any], kernel: str) -> list[str]:
        rank, slot = map_["rank"], self.maps
        self.maps += 1
        tensor = self.inner[map_["address"].split(".")[0]]
        argument = next(
            each for each in self.description["arguments"] if self.inner[each["name"]] == tensor
        )
        dims = ", ".join(f"(cuuint64_t){in_c(text, self.inner)}" for text in map_["dims"])
        strides = ", ".join(f"(cuuint64_t){in_c(text, self.inner)}" for text in map_["strides"])
        box = ", ".join(f"{extent}" for extent in map_["box"])
        steps = ", ".join(f"{extent}" for extent in map_["element_strides"])
        empty = " || ".join(
            f"{tensor}.shape[{mode}] == 0" for mode in range(len(argument["shape"]))
        )
        return [
            "{",
            f"  const cuuint64_t dims[{rank}] = {{{dims}}};",
            f"  const cuuint64_t strides[{max(1, rank - 1)}] = {{{strides or 0}}};",
            f"  const cuuint32_t box[{rank}] = {{{box}}}, steps[{rank}] = {{{steps}}};",
            "  /* A tensor without elements has no address; nothing is read there. */",
            f"  const CUdeviceptr address = {empty} ? (CUdeviceptr)4096",
            f"                                      : {in_c(map_['address'], self.inner)};",
            f"  status = cute_encode(&kernel->maps, {slot},",
            f"                       (CUtensorMapDataType){map_['data_type']}, {rank}, address,",
            "                       dims, strides, box, steps,",
            f"                       (CUtensorMapInterleave){map_['interleave']}, "
            f"(CUtensorMapSwizzle){map_['swizzle']},",
            f"                       (CUtensorMapL2promotion){map_['l2_promotion']},",
            f"                       (CUtensorMapFloatOOBfill){map_['oob_fill']}, &p{place}, "
            f'"{kernel}: the tensor map of {argument["name"]}", error);',
            "  if (status != CUTE_OK) return status;",
            "}",
        ]


def _dtype(name: str) -> str:
    return f"CUTE_{name.upper()}"


def _expected(named: str, argument: Mapping[str, Any]) -> Iterator[str]:
    def row(values: Sequence[int | None]) -> str:
        return "{" + ", ".join("-1" if value is None else str(value) for value in values) + "}"

    rank, dtype = len(argument["shape"]), argument["dtype"]
    yield f"static const cute_expected {named} = {{"
    yield (
        f'    "{argument["name"]}", {_dtype(dtype)}, {rank}, {_BYTES[dtype]}, '
        f"{argument['alignment']}, {int(argument['written'])}, {int(argument['whole_rows'])},"
    )
    yield f"    {row(argument['shape'])}, {row(argument['stride'])},"
    yield f"    {row(argument['shape_divisor'])}, {row(argument['stride_divisor'])}}};"


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
    return re.sub(r"@(\w+)@", lambda found: words[found[1]], _text("kernel.h"))


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

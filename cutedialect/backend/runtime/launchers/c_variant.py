"""What a launcher in C does for one target: it checks the arguments, plans and launches, as the
description of the kernel says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.expressions import in_c

# NumPy's name of an element type to its bytes.
BYTES = {
    "bool": 1, "int4": 1, "uint4": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2,
    "uint32": 4, "uint64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1, "float16": 2, "bfloat16": 2,
    "float32": 4, "float64": 8, "float8_e8m0fnu": 1, "float6_e2m3fn": 1, "float6_e3m2fn": 1,
    "float4_e2m1fn": 1,
}  # fmt: skip
# Type of a number to that of its field in C.
SCALARS = {
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


class Variant:
    """Writes the function; names of C for what expressions name."""

    leave = "if (status != CUTE_OK) return status;"

    def __init__(self, name: str, description: Mapping[str, Any]) -> None:
        self.name = name
        self.description = description
        self.called = call_arguments(description)
        self.outer = {each["name"]: f"given->{field(each['name'])}" for each in self.called}
        self.inner = {"sm_count": "((int64_t)kernel->sm_count)"}
        self.maps = 0

    def text(self, number: int) -> str:
        """The function that checks, plans and launches for the target of that number."""
        return self._function(f"run_{number}", self.lines())

    def _function(
        self, role: str, body: Iterable[str], before: str = "", *, is_ended: bool = False
    ) -> str:
        return "\n".join(
            [
                f"/* {self.description['arch']}: {self.description['schedule']} */",
                f"static CUTE_UNUSED cute_status {self.name}_{role}(",
                f"    {before}{self.name}_kernel *kernel, const {self.name}_arguments *given,",
                "    CUdeviceptr workspace, size_t available, size_t *needed, int clears, "
                "int launches,",
                "    CUstream stream, cute_error *error) {",
                *(f"  {line}" if line else "" for line in body),
                *([] if is_ended else ["  return CUTE_OK;"]),
                "}",
                "",
            ]
        )

    def lines(self) -> Iterator[str]:
        """The body."""
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
        yield from self._planned()

    def _planned(self) -> Iterator[str]:
        """What follows once the arguments are checked."""
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
            yield from expected(f"e{number}", argument)
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
            if each["kind"] == "scalar":
                continue
            yield from self._kind(each)
            for mode, extent in enumerate(each["shape"]):
                if extent is not None:
                    wanted, got = in_c(str(extent), self.outer), f"{self.outer[each['name']]}.shape"
                    yield (
                        f'status = cute_check_extent("{each["name"]}", {mode}, {wanted}, '
                        f"{got}[{mode}], error);"
                    )
                    yield self.leave
        yield from self._facts(self.description["call"]["requires"], self.outer)

    def _kind(self, each: Mapping[str, Any]) -> Iterator[str]:
        given = self.outer[each["name"]]
        yield (
            f'status = cute_check_kind("{each["name"]}", &{given}, {c_dtype(each["dtype"])}, '
            f"{len(each['shape'])}, error);"
        )
        yield self.leave

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
        yield self.leave

    def _workspaces(self) -> Iterator[str]:
        spaces = self.description["workspaces"]
        yield "  size_t size = 0;"
        for number, space in enumerate(spaces):
            step, bytes_ = space["alignment"], BYTES[space["dtype"]]
            yield f"  const size_t at{number} = size;"
            yield (
                f"  const size_t size{number} = (size_t){in_c(space['elements'], self.inner)} * "
                f"{bytes_};"
            )
            yield f"  size += (size{number} + {step - 1}) / {step} * {step};"
            self.inner[space["name"]] = f"(workspace + at{number})"
        yield from self._table_sizes()
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
        yield from self._fill_tables()

    def _table_sizes(self) -> Iterator[str]:
        """Room for tables behind the workspaces."""
        yield from ()

    def _fill_tables(self) -> Iterator[str]:
        """What is in them."""
        yield from ()

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
        if "table" in parameter:
            return f"CUdeviceptr p{place} = workspace + at_{parameter['table']};"
        text = in_c(parameter["value"], self.inner)
        if type_ == "ptr":
            return f"CUdeviceptr p{place} = {text};"
        if type_ in ("f32", "f64") and size == (4 if type_ == "f32" else 8):
            kind = SCALARS[type_]
            return f"{kind} p{place} = ({kind}){text};"
        if not re.fullmatch(r"u?i\d+|index", type_):
            raise CompileError(
                f"{self.name}: expected parameters of integers, f32 and f64 for C, got {type_}",
                code="CD-DESCRIBE",
            )
        return f"uint{8 * size}_t p{place} = (uint{8 * size}_t)({text});"

    def _map(self, place: int, map_: Mapping[str, Any], kernel: str) -> list[str]:
        slot = self.maps
        self.maps += 1
        tensor = self.inner[map_["address"].split(".")[0]]
        argument = next(
            each for each in self.description["arguments"] if self.inner[each["name"]] == tensor
        )
        called = f"cute_encode(&kernel->maps, {slot}, (unsigned char *)&p{place},"
        return list(self._encoding(map_, argument, self.inner, called, kernel))

    def _encoding(
        self,
        map_: Mapping[str, Any],
        argument: Mapping[str, Any],
        names: Mapping[str, str],
        called: str,
        kernel: str = "",
    ) -> Iterator[str]:
        """Encodes a tensor map by a function that is called with what comes first."""
        rank, tensor = map_["rank"], names[argument["name"]]
        dims = ", ".join(f"(cuuint64_t){in_c(text, names)}" for text in map_["dims"])
        strides = ", ".join(f"(cuuint64_t){in_c(text, names)}" for text in map_["strides"])
        box = ", ".join(f"{extent}" for extent in map_["box"])
        steps = ", ".join(f"{extent}" for extent in map_["element_strides"])
        corners = (*map_.get("lower", ()), *map_.get("upper", ()))
        shown = ", ".join(map(str, corners))
        empty = " || ".join(
            f"{tensor}.shape[{mode}] == 0" for mode in range(len(argument["shape"]))
        )
        yield from [
            "{",
            f"  const cuuint64_t dims[{rank}] = {{{dims}}};",
            f"  const cuuint64_t strides[{max(1, rank - 1)}] = {{{strides or 0}}};",
            f"  const cuuint32_t box[{rank}] = {{{box}}}, steps[{rank}] = {{{steps}}};",
            *([f"  const int corners[{len(corners)}] = {{{shown}}};"] if corners else ()),
            "  /* A tensor without elements has no address; nothing is read there. */",
            f"  const CUdeviceptr address = {empty} ? (CUdeviceptr)4096",
            f"                                      : {in_c(map_['address'], names)};",
            f"  status = {called}",
            f"                       (CUtensorMapDataType){map_['data_type']}, {rank}, address,",
            "                       dims, strides, box, steps,",
            f"                       {'corners' if corners else 'NULL'},",
            f"                       (CUtensorMapInterleave){map_['interleave']}, "
            f"(CUtensorMapSwizzle){map_['swizzle']},",
            f"                       (CUtensorMapL2promotion){map_['l2_promotion']},",
            f"                       (CUtensorMapFloatOOBfill){map_['oob_fill']}, "
            f'"{kernel or self.name}: the tensor map of {argument["name"]}", error);',
            "  if (status != CUTE_OK) return status;",
            "}",
        ]


def c_dtype(name: str) -> str:
    return f"CUTE_{name.upper()}"


def expected(named: str, argument: Mapping[str, Any]) -> Iterator[str]:
    def row(values: Sequence[int | None]) -> str:
        return "{" + ", ".join("-1" if value is None else str(value) for value in values) + "}"

    rank, dtype = len(argument["shape"]), argument["dtype"]
    yield f"static const cute_expected {named} = {{"
    yield (
        f'    "{argument["name"]}", {c_dtype(dtype)}, {rank}, {BYTES[dtype]}, '
        f"{argument['alignment']}, {int(argument['written'])}, {int(argument['whole_rows'])}, "
        f"{int(argument.get('mapped', True))},"
    )
    yield f"    {row(argument['shape'])}, {row(argument['stride'])},"
    yield f"    {row(argument['shape_divisor'])}, {row(argument['stride_divisor'])}}};"

"""What a launcher in C does where a kernel takes lists of tensors: it checks and orders the entries
of the lists, and makes the tables of them in a workspace. What such launchers share is `lists.h`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cutedialect.backend.runtime.expressions import in_c

from .c_variant import Variant, expected, field

# Each table begins there, as in `tables.py`.
_ALIGNMENT = 256
_MAP_BYTES = 128


class ListVariant(Variant):
    """Two functions: one that has memory of the host, and one that gives it back."""

    def __init__(self, name: str, description: Mapping[str, Any]) -> None:
        super().__init__(name, description)
        self.lists: list[tuple[int, Mapping[str, Any]]] = []
        self.entries = [each for each in self.called if each["kind"] == "tensors"]
        for each in self.entries:
            self.outer[each["name"]] = f"given->{field(each['name'])}[number]"

    def text(self, number: int) -> str:
        """Both functions for the target of that number."""
        inner = self._function(f"lists_{number}", self.lines(), "cute_memory *memory, ")
        body = [
            "cute_memory memory = {NULL, NULL, NULL};",
            f"const cute_status status = {self.name}_lists_{number}(&memory, kernel, given, "
            "workspace, available, needed,",
            "    clears, launches, stream, error);",
            "cute_end(&memory);",
            "return status;",
        ]
        return inner + "\n" + self._function(f"run_{number}", body, is_ended=True)

    def lines(self) -> Iterator[str]:
        """The body of the first."""
        arguments = self.description["arguments"]
        tables = self.description["tables"]
        yield "cute_status status;"
        yield "int64_t number, taken = 0, place;"
        yield "uint64_t digest = UINT64_C(14695981039346656037);"
        for number, argument in enumerate(arguments):
            yield from self._declare(number, argument)
        for table in tables:
            yield from self._declare_table(table)
        yield "(void)stream;"
        for number, argument in enumerate(arguments):
            if argument["kind"] == "scalar":
                yield f"(void)t{number};"
        yield from self._order()
        for number, argument in enumerate(arguments):
            if argument["kind"] == "scalar":
                yield from self._view(number, argument)
        yield "for (place = 0; place < taken; ++place) {"
        yield "  number = memory->order[place].number;"
        for number, argument in self.lists:
            yield from (f"  {line}" for line in self._entry(number, argument))
        yield "}"
        for number, _ in self.lists:
            yield f"cute_mix_list(&digest, &t{number});"
        yield "cute_mix(&digest, (uint64_t)kernel->sm_count);"
        for table in tables:
            if table["kind"] == "offsets":
                yield f"{table['name']}.size = taken + 1;"
                yield f'status = cute_check_blocks(&{table["name"]}, "{self.name}", error);'
                yield self.leave
        yield "if (taken == 0) {"
        yield "  if (needed != NULL) *needed = 0;"
        yield "  return CUTE_OK;"
        yield "}"
        yield from self._planned()

    def _declare(self, number: int, argument: Mapping[str, Any]) -> Iterator[str]:
        if argument["kind"] != "tensors":
            yield from super()._declare(number, argument)
            return
        self.lists.append((number, argument))
        self.inner[argument["name"]] = f"t{number}"
        yield f"cute_list t{number};"
        yield from expected(f"e{number}", argument)

    def _declare_table(self, table: Mapping[str, Any]) -> Iterator[str]:
        named, list_ = table["name"], self.inner[table["list"]]
        # A table with an entry for each tensor is as long as the list.
        self.inner[named] = list_ if "entry" in table else named
        if table["kind"] == "offsets":
            tile, block = (", ".join(map(str, table[key])) for key in ("tile", "blocks"))
            rank = len(table["tile"])
            yield f"cute_blocks {named} = {{&{list_}, {rank}, {{{tile}}}, {{{block}}}, 0}};"
        elif table["kind"] == "shares":
            yield f"cute_shares {named};"

    def _order(self) -> Iterator[str]:
        """Checks the entries, and finds those that take part."""
        count = len(self.lists)
        yield f'status = cute_begin(memory, given->count, {count}, "{self.name}", error);'
        yield self.leave
        missing = " || ".join(f"given->{field(each['name'])} == NULL" for each in self.entries)
        yield f"if (given->count > 0 && ({missing}))"
        yield f'  return cute_fail(error, CUTE_ARGUMENT, "{self.name}: expected lists, got NULL");'
        yield "for (number = 0; number < given->count; ++number) {"
        self.leave = "if (status != CUTE_OK) return cute_entry(status, number, error);"
        yield from (f"  {line}" for line in self._check_call())
        members = self.description["call"]["members"]
        yield f"  if (!{in_c(members['where'], self.outer)}) continue;"
        yield f"  memory->order[taken].key = {in_c(members['order'], self.outer)};"
        yield "  memory->order[taken++].number = number;"
        yield "}"
        yield "qsort(memory->order, (size_t)taken, sizeof *memory->order, cute_compare);"
        self.leave = Variant.leave
        for place, (number, _) in enumerate(self.lists):
            yield f"t{number}.tensors = memory->views + {place} * taken;"
            yield f"t{number}.size = taken;"

    def _entry(self, number: int, argument: Mapping[str, Any]) -> Iterator[str]:
        """The view of one entry, checked."""
        view, named = argument["from"], f"t{number}.tensors[place]"
        yield f"{named} = {self.outer[view['array']]};"
        yield f"{named}.rank = {len(argument['shape'])};"
        for key in ("shape", "stride"):
            for mode, text in enumerate(view[key]):
                yield f"{named}.{key}[{mode}] = {in_c(text, self.outer)};"
        yield f"status = cute_check(&e{number}, &{named}, error);"
        yield "if (status != CUTE_OK) return cute_entry(status, number, error);"

    def _table_sizes(self) -> Iterator[str]:
        yield "  const size_t at_tables = size;"
        for table in self.description["tables"]:
            named = table["name"]
            if table["kind"] == "shares":
                offsets = self.inner[table["offsets"]]
                yield (
                    f"  {named}.takers = cute_max(1, {in_c(table['takers'], self.inner)}); "
                    f"{named}.size = {named}.takers + 1 + cute_tiles_before(&{offsets}, taken);"
                )
            count = f"{self.inner[named]}.size"
            yield f"  const size_t at_{named} = size;"
            step = _ALIGNMENT
            bytes_ = f"(size_t){count} * {_entry_bytes(table)}"
            yield f"  size += ({bytes_} + {step - 1}) / {step} * {step};"

    def _fill_tables(self) -> Iterator[str]:
        yield "  cute_mix(&digest, (uint64_t)workspace);"
        yield "  if (clears) {"
        yield "    memory->tables = (unsigned char *)calloc(1, size - at_tables);"
        yield "    if (memory->tables == NULL)"
        yield (
            f'      return cute_fail(error, CUTE_MEMORY, "{self.name}: expected memory of the host '
            'for tables");'
        )
        for table in self.description["tables"]:
            yield from (f"    {line}" for line in self._fill(table))
        yield (
            "    status = cute_upload(&kernel->ready, workspace, at_tables, memory->tables, "
            "size - at_tables,"
        )
        yield f'                         digest, stream, "{self.name}: tables", error);'
        yield f"    {self.leave}"
        yield "  }"
        yield "  if (launches && !cute_is_ready(&kernel->ready, workspace, digest))"
        yield (
            f'    return cute_fail(error, CUTE_WORKSPACE, "{self.name}: expected '
            f'{self.name}_clear of this workspace for these tensors before they are launched");'
        )

    def _fill(self, table: Mapping[str, Any]) -> Iterator[str]:
        named = table["name"]
        to, list_ = f"memory->tables + (at_{named} - at_tables)", self.inner[table["list"]]
        if table["kind"] == "offsets":
            yield f"cute_fill_blocks(&{named}, {to});"
        elif table["kind"] == "shares":
            offsets = self.inner[table["offsets"]]
            yield (
                f"status = cute_fill_shares(&{named}, &{offsets}, &{list_}, {table['mode']}, {to}, "
                "error);"
            )
            yield self.leave
        else:
            yield f"for (place = 0; place < {list_}.size; ++place) {{"
            yield f"  unsigned char *to = {to} + (size_t)place * {_entry_bytes(table)};"
            yield f"  const cute_tensor *member = &{list_}.tensors[place];"
            names = self.inner | {table["list"]: "(*member)"}
            yield from (f"  {line}" for line in self._fill_entry(table, names))
            yield "}"

    def _fill_entry(self, table: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
        entry = table["entry"]
        if table["kind"] == "tensors":
            yield "cute_put(&to, &member->pointer, 8);"
            for text in entry["strides"]:
                yield f"cute_put(&to, &{names[table['list']]}{_part(text)}, 8);"
            for text in entry["extents"]:
                yield f"cute_put_i32(&to, {in_c(text, names)});"
            return
        argument = next(each for _, each in self.lists if each["name"] == table["list"])
        yield from self._encoding(entry, argument, names, "cute_encode_tiled(to,")


def _part(text: str) -> str:
    """`.stride[0]` of `A.stride[0]`."""
    return text[text.index(".") :]


def _entry_bytes(table: Mapping[str, Any]) -> int:
    if table["kind"] == "tensor_map":
        return _MAP_BYTES
    if table["kind"] == "tensors":
        strides, extents = (len(table["entry"][key]) for key in ("strides", "extents"))
        return 8 + 8 * strides + (4 * extents + 7) // 8 * 8
    return 4

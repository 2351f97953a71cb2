"""The pages of the reference, made from the code when the site is built: public names, operations
and types of the dialects, passes, fields of schedules, environment variables, commands, codes of
errors, atoms and targets. `pages()` is the only entry; docs/hooks.py gives the site what it
returns, and test/house/test_site.py holds that nothing of the code is absent from them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, get_args
from unittest import mock

import cutedialect
from cutedialect import environment, schedule
from cutedialect.__main__ import COMMANDS, main

# Section of the page of public names to the modules whose names stand there.
SECTIONS = {
    "Functions of arrays": (
        "frontend.gemm",
        "frontend.grouped_gemm",
        "frontend.quantize",
        "frontend.routed_gemm",
        "frontend.conv2d",
        "frontend.attention",
        "frontend.attention_backward",
    ),
    "Kernels": (
        "frontend.kernel",
        "frontend.launch",
        "frontend.dumps",
        "backend.runtime.kernel",
        "frontend.host",
        "backend.runtime.cuda",
        "remarks",
        "backend.emulator",
        "tools.timeline",
    ),
    "Schedules and tuning": (
        "schedule",
        "choices",
        "frontend.autotune",
        "frontend.autotuned",
        "atoms.tiled_mma",
    ),
    "Tiles of a program": (
        "frontend.local_tiles",
        "frontend.pixels",
        "frontend.taps",
        "frontend.packed",
        "frontend.pack",
        "frontend.quantized_weights",
        "frontend.tensor_layouts",
        "frontend.tile",
        "frontend.parts",
        "frontend.group",
    ),
    "Loops and conditions": ("frontend.loops", "frontend.scalar"),
    "Functions of tiles": (
        "frontend.functions",
        "frontend.scaled_tiles",
        "frontend.elementwise",
        "frontend.elementary",
        "frontend.atomics",
        "frontend.inline_ptx",
        "frontend.random",
        "frontend.exact",
        "frontend.fast",
    ),
    "Reductions, scans and selection": (
        "frontend.reductions",
        "frontend.statistics",
        "frontend.scans",
        "frontend.sorting",
        "frontend.selection",
        "frontend.places",
    ),
    "Printing and checking": ("frontend.printing",),
    "Element types": ("frontend.dtypes",),
    "Layouts": ("layout",),
    "Errors": ("backend.runtime.errors",),
}
_ERRORS = ("EmulatorError", "LayoutError", "ScheduleError")
_DIALECTS = {
    "cute": "Tiles, layouts and kernels",
    "cute_nvgpu": "Atoms and asynchronous copies of NVIDIA GPUs",
    "pipeline": "Rings of stages, and the roles of warps",
    "ptx": "One operation for each family of PTX instructions",
}


def pages() -> dict[str, str]:
    """Path below docs/ to Markdown, of every page of the reference."""
    made = {
        "reference/python.md": _python_page(),
        "reference/layout.md": _module_page("layout", "Layout algebra"),
        "reference/atoms.md": _module_page("atoms", "Atoms") + _atom_tables(),
        "reference/targets.md": _target_page(),
        "reference/passes.md": _pass_page(),
        "reference/schedule-fields.md": _schedule_page(),
        "reference/environment.md": _environment_page(),
        "reference/commands.md": _command_page(),
        "reference/errors.md": _error_page(),
    }
    for name, about in _DIALECTS.items():
        made[f"reference/dialects/{name}.md"] = _dialect_page(name, about)
    return made


def section_of(name: str) -> str:
    """The section of a public name; LookupError for a module that SECTIONS does not have."""
    if name in _ERRORS:
        return "Errors"
    module = f"{cutedialect._EXPORTS[name]}".removeprefix("cutedialect.")
    if module == "frontend":
        module = f"frontend.{name}"
    for title, modules in SECTIONS.items():
        if module in modules:
            return title
    raise LookupError(f"expected a section of docs/reference.py for cutedialect.{module}")


def _python_page() -> str:
    lines = [
        "# Python",
        "",
        "Everything that `import cutedialect as cute` has. What the functions of arrays take is "
        "listed in [functions of arrays](../calls.md); those of "
        "[torch and JAX](../torch-and-jax.md) take the same.",
        "",
    ]
    sections: dict[str, list[str]] = {title: [] for title in SECTIONS}
    for name in cutedialect.__all__:
        sections[section_of(name)].append(name)
    for title, names in sections.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _entry(f"cute.{name}", getattr(cutedialect, name))
    return "\n".join(lines) + "\n"


def _entry(shown: str, value: Any) -> list[str]:
    """The entry of one name: mkdocstrings reads functions and classes, other values are text."""
    head = f"### `{shown}` {{: #{shown} }}"
    value = inspect.unwrap(value) if callable(value) else value
    if inspect.isfunction(value) or inspect.isclass(value):
        path = _path_of(value)
        lines = [f'<a id="{shown}"></a>', "", f"::: {path}", "    options:"]
        lines.append(f"      heading: {shown}")
        if inspect.isclass(value):
            lines.append(f"      members: [{', '.join(members_of(value))}]")
        return [*lines, ""]
    if inspect.ismodule(value):
        lines = [head, "", inspect.cleandoc(value.__doc__ or ""), ""]
        for name, inner in vars(value).items():
            if inspect.isfunction(inner) and inner.__module__ == value.__name__ and name[0] != "_":
                lines += _entry(f"{shown}.{name.rstrip('_')}", inner)
        return lines
    return [head, "", _value_text(value), ""]


def _path_of(value: Any) -> str:
    """Where a function or class is defined, by the name that its module has for it: `abs` is `abs_`
    inside of ours.
    """
    for name, inner in vars(import_module(value.__module__)).items():
        if (inspect.unwrap(inner) if callable(inner) else inner) is value:
            return f"{value.__module__}.{name}"
    raise LookupError(f"expected {value.__qualname__} in {value.__module__}")


def members_of(cls: type) -> list[str]:
    """The public methods and properties with a docstring that a class defines."""
    return [
        name
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and inspect.getdoc(getattr(member, "__func__", member))
        and (callable(getattr(member, "__func__", member)) or isinstance(member, property))
    ]


def _value_text(value: Any) -> str:
    words = list(_flat(get_args(value)))
    if words and all(isinstance(word, str) for word in words):
        return "One of " + ", ".join(f"`{word!r}`" for word in words) + "."
    if isinstance(value, float):
        return "Infinity, of every type of floats."
    if not isinstance(value, cutedialect.DType):
        return f"The type `{re.sub(r'([a-z_]+[.])+', '', str(value))}`."
    bits, kind = value.bits, {"f": "floats", "i": "integers", "u": "unsigned integers"}
    name = value.name
    about = "conditions" if name == "i1" else kind.get(name[0], "floats")
    return f"The element type of {about} of {bits} bits, `{value.numpy.name}` in NumPy's words."


def _flat(words: Iterable[Any]) -> Iterator[Any]:
    for word in words:
        inner = get_args(word)
        yield from _flat(inner) if inner else (word,)


def _module_page(name: str, title: str) -> str:
    module = import_module(f"cutedialect.{name}")
    lines = [f"# {title}", "", f"`cutedialect.{name}`", "", prose(module.__doc__ or ""), ""]
    for public in module.__all__:
        value = getattr(module, public)
        lines += _entry(f"{name}.{public}", value)
    return "\n".join(lines) + "\n"


def _atom_tables() -> str:
    """Of each atom its name and its needs; `python -m cutedialect.atoms` has the layouts, too."""
    from cutedialect.atoms import copy, mma

    lines = ["", "## MMA atoms", "", "`python -m cutedialect.atoms` prints their layouts.", ""]
    families: dict[tuple[str, str], list[str]] = {}
    for atom in mma():
        family = re.sub(r"[.]m\d+n\d+k\d+.*", "", atom.ptx), str(atom.requires)
        families.setdefault(family, []).append(atom.name)
    for (ptx, needs), names in families.items():
        lines += [f'??? note "`{ptx}` ({needs}), {len(names)} atoms"', ""]
        lines += ["    " + ", ".join(f"`{name}`" for name in names), ""]
    lines += ["## Copy atoms", "", "| name | PTX | needs | bits |", "| --- | --- | --- | --- |"]
    lines += [f"| `{a.name}` | `{a.ptx}` | {a.requires} | {a.bits} |" for a in copy()]
    return "\n".join([*lines, ""])


def _target_page() -> str:
    from cutedialect.atoms import target, targets
    from cutedialect.backend.ptx.printer import version_of
    from cutedialect.backend.runtime.target_fit import _RELEASES

    lines = [
        "# Targets",
        "",
        "What `arch=` may be. The driver has to read the PTX version that is printed, unless it "
        "gets machine code. Sizes are KiB of shared memory; [what it runs on](../support.md) "
        "names GPUs.",
        "",
        "| target | multiplies by | PTX | driver of CUDA | a CTA has | an SM has | cluster |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for chip in map(target, targets()):
        printed = version_of(chip.name)
        major, minor = _RELEASES[tuple(map(int, printed.split(".")))]  # type: ignore[index]
        units = "wgmma" if chip.name == "sm_90a" else "mma.sync"
        units = "tcgen05" if chip.tmem_columns and chip.suffix else units
        sizes = f"{chip.smem_per_cta >> 10} | {chip.smem_per_sm >> 10}"
        lines.append(
            f"| `{chip.name}` | `{units}` | {printed} | {major}.{minor} | {sizes} | "
            f"{chip.max_cluster} |"
        )
    return "\n".join(lines) + "\n"


def _dialect_page(name: str, about: str) -> str:
    from cutedialect.dialects import our_dialects

    dialect = our_dialects()[name]()
    module = import_module(f"cutedialect.dialects.{name}")
    lines = [f"# The `{name}` dialect", "", f"{about}.", "", prose(module.__doc__ or ""), ""]
    lines += ["## Operations", ""]
    for op in sorted(dialect.operations, key=lambda each: each.name):
        lines += _operation(op)
    lines += ["## Types and attributes", ""]
    for attribute in sorted(dialect.attributes, key=lambda each: each.name):
        lines += [f"### `{attribute.name}` {{: #{attribute.name} }}", ""]
        lines += [*_documented(attribute), ""]
    return "\n".join(lines) + "\n"


def _operation(op: Any) -> list[str]:
    definition = op.get_irdl_definition()
    lines = [f"### `{op.name}` {{: #{op.name} }}", "", *_documented(op), ""]
    rows = [("operand", name, value) for name, value in definition.operands]
    rows += [("property", name, value) for name, value in definition.properties.items()]
    rows += [("attribute", name, value) for name, value in definition.attributes.items()]
    rows += [("result", name, value) for name, value in definition.results]
    rows += [("region", name, value) for name, value in definition.regions]
    if rows:
        lines += ["| | name | |", "| --- | --- | --- |"]
        lines += [f"| {kind} | `{name}` | {_count(value)} |" for kind, name, value in rows]
        lines.append("")
    traits = sorted({type(trait).__name__ for trait in op.traits.traits})
    if traits:
        lines += ["Traits: " + ", ".join(f"`{trait}`" for trait in traits) + ".", ""]
    return lines


def _count(value: Any) -> str:
    name = type(value).__name__
    return "any number" if name.startswith("Var") else "optional" * name.startswith("Opt")


def _documented(cls: type) -> list[str]:
    """The docstring of a class or of the base of its family, its example as code."""
    text = next(
        (
            doc
            for base in cls.__mro__
            if (doc := inspect.cleandoc(base.__dict__.get("__doc__") or ""))
        ),
        "",
    )
    before, colon, after = text.partition("Example:\n")
    lines = [prose(before)]
    if colon:
        block: list[str] = []
        rest = after.split("\n")
        while rest and (not rest[0] or rest[0].startswith("    ")):
            block.append(rest.pop(0)[4:])
        lines += ["", "```mlir", "\n".join(block).strip("\n"), "```", "", prose("\n".join(rest))]
    return lines


def prose(text: str) -> str:
    """Text of a docstring in Markdown: what stands outside of code means itself."""
    parts = re.split(r"(`[^`]*`|^    .*$)", inspect.cleandoc(text), flags=re.MULTILINE)
    parts[::2] = [re.sub(r"([*<\[])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _pass_page() -> str:
    from cutedialect.passes import FROM_XDSL, OURS, our_passes

    lines = [
        "# Passes",
        "",
        "In the order in which a kernel meets them, as `cute-opt -p 'NAME{OPTION=VALUE}'` takes "
        "them. xDSL's are there too: " + ", ".join(f"`{name}`" for name in FROM_XDSL) + ".",
        "",
    ]
    for name, load in our_passes().items():
        cls = load()
        module = import_module(cls.__module__)
        about = re.sub(r"^`[^`]+`:\s*", "", inspect.cleandoc(module.__doc__ or cls.__doc__ or ""))
        lines += [f"## `{name}` {{: #{name} }}", "", prose(about[:1].upper() + about[1:]), ""]
        if documented := inspect.cleandoc(cls.__doc__ or ""):
            lines += [prose(documented), ""]
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        if fields:
            lines += ["| option | type | default |", "| --- | --- | --- |"]
            lines += [_option_row(field) for field in fields]
            lines.append("")
        lines += [f"In `cutedialect/passes/{OURS[name].replace('.', '/')}.py`.", ""]
    return "\n".join(lines) + "\n"


def _option_row(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        default = f"`{field.default!r}`"
    elif field.default_factory is not dataclasses.MISSING:
        default = f"`{field.default_factory()!r}`"
    else:
        default = "has to be given"
    type_ = str(field.type).replace("|", "\\|")
    return f"| `{field.name}` | `{type_}` | {default} |"


def _schedule_page() -> str:
    lines = [
        "# Fields of a schedule",
        "",
        'As `cute.Schedule(FIELD=VALUE)` or in text, `schedule="FIELD = VALUE, ..."`. What is left '
        "out is chosen; [schedules](../schedules.md) says how, and shows them at work.",
        "",
    ]
    for name, (type_, about) in schedule_fields().items():
        lines += [f"## `{name}` {{: #{name} }}", "", f"Type `{type_}`.", ""]
        words = schedule._WORDS.get(name)
        if words:
            lines += ["Values: " + ", ".join(f"`{word}`" for word in words) + ".", ""]
        most = schedule._COUNTS.get(name)
        if most:
            lines += [f"Values: 1 to {most}.", ""]
        lines += [prose(about), ""]
    return "\n".join(lines) + "\n"


def schedule_fields() -> dict[str, tuple[str, str]]:
    """Field to its type and what the docstring says of it."""
    text = inspect.cleandoc(schedule.Schedule.__doc__ or "")
    said = dict(re.findall(r"^(\w+): (.*(?:\n    .*)*)", text, re.MULTILINE))
    return {
        field.name: (
            str(field.type).removesuffix(" | None"),
            re.sub(r"\s*\n\s*", " ", said[field.name]),
        )
        for field in dataclasses.fields(schedule.Schedule)
    }


def _environment_page() -> str:
    lines = [
        "# Environment variables",
        "",
        "Read at each use. A variable of another name that begins with `CUTEDIALECT_` is told at "
        "the first compilation, and by each command.",
        "",
    ]
    for name, about in environment.VARIABLES.items():
        lines += [f"## `{name}` {{: #{name} }}", "", f"{prose(about[:1].upper() + about[1:])}.", ""]
    lines += ["Messages have colors on a terminal only, and never where `NO_COLOR` is set."]
    return "\n".join(lines) + "\n"


def _command_page() -> str:
    lines = ["# Commands", "", "`cutedialect COMMAND` or `python -m cutedialect COMMAND`.", ""]
    for name, run in commands().items():
        lines += [f"## `{name}` {{: #{name.replace(' ', '-')} }}", ""]
        lines += ["```text", help_of(name, run), "```", ""]
    return "\n".join(lines) + "\n"


def commands() -> dict[str, Callable[[], object]]:
    """Every command to its `main`, which reads `sys.argv`."""
    from cutedialect.tools import cute_emu, cute_opt

    known: dict[str, Callable[[], object]] = {f"cutedialect {name}": main for name in COMMANDS}
    return known | {"cute-opt": cute_opt.main, "cute-emu": cute_emu.main}


def help_of(name: str, run: Callable[[], object]) -> str:
    """What a command prints for `--help`, at 80 columns."""
    said = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1"}),
        mock.patch.object(sys, "argv", [*name.split(), "--help"]),
        contextlib.redirect_stdout(said),
        contextlib.suppress(SystemExit),
    ):
        run()
    return said.getvalue().rstrip()


def _error_page() -> str:
    from cutedialect.explanations import pages as explained

    lines = [
        "# Codes of errors",
        "",
        "What an error means, why it is one, and how to mend it: as `python -m cutedialect explain "
        "CODE` says it.",
        "",
    ]
    family = ""
    for page in explained().values():
        if page.family != family:
            family = page.family
            lines += [f"## {family}", ""]
        text = re.sub(r"^#+ ", "#### ", page.text, flags=re.MULTILINE)
        lines += [f"### {page.code}: {page.title} {{: #{page.code} }}", "", text, ""]
    return "\n".join(lines) + "\n"

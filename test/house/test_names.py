"""One rule from concept to path: tables, files, tests and docstrings agree on every name."""

import inspect
import io
import re
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import StringAttr

from cutedialect.dialects import all_dialects, our_dialects
from cutedialect.passes import OURS, all_passes
from cutedialect.tools.cute_opt import CuteOpt
from cutedialect.tools.locating_parser import LocatingParser
from cutedialect.tools.targets import all_targets

ROOT = Path(__file__).parents[2]
OPERATIONS = [op for load in our_dialects().values() for op in load().operations]
ATTRIBUTES = [one for load in our_dialects().values() for one in load().attributes]


def cute_opt(*argv, stdin=""):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt(argv, io.StringIO(stdin), out, err).run()
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("name", all_passes())
def test_every_pass_loads_under_its_name(name):
    assert all_passes()[name]().name == name


@pytest.mark.parametrize("name", all_dialects())
def test_every_dialect_loads_under_its_name(name):
    assert all_dialects()[name]().name == name


@pytest.mark.parametrize("name", all_targets())
def test_every_target_loads_under_its_name(name):
    assert all_targets()[name]().name == name


@pytest.mark.parametrize("name", OURS)
def test_a_pass_lives_in_the_file_of_its_name_and_has_tests(name):
    file = name.removeprefix("cute-").replace("-", "_")
    if name == "cute-to-ptx":
        file = "cute_to_ptx"
    assert OURS[name].rpartition(".")[2] == file
    cls = all_passes()[name]()
    assert (
        cls.__name__
        == "".join(part.capitalize() for part in file.split("_")).replace("Ptx", "PTX") + "Pass"
        or cls.__name__.lower() == file.replace("_", "") + "pass"
    )
    assert cls.__doc__
    folder = ROOT / "test" / "passes" / file
    assert any(folder.rglob("*.mlir")) or any(folder.rglob("test_*.py")), f"no tests in {folder}"


def test_xdsl_tools_find_the_same_tables():
    from xdsl.universe import Universe

    from cutedialect.universe import UNIVERSE

    assert set(UNIVERSE.all_passes) == set(OURS)
    assert set(UNIVERSE.all_dialects) == set(our_dialects())
    assert "cute-tile" in Universe.get_multiverse().all_passes


def examples_of(documented):
    """The IR below `Example:` in the docstring of a class or of its base for a family of ops."""
    for cls in documented.__mro__:
        text = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
        lines = text.split("\n")
        if "Example:" in lines:
            block = []
            for line in lines[lines.index("Example:") + 1 :]:
                if line and not line.startswith("    "):
                    break
                block.append(line[4:])
            return "\n".join(block).strip("\n") + "\n"
    return ""


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_the_example_of_an_operation_round_trips(op):
    text = examples_of(op)
    assert text, f"{op.name}: expected an 'Example:' in the docstring"
    code, once, err = cute_opt(stdin=text)
    assert code == 0, f"{err}\n{text}"
    assert cute_opt(stdin=once) == (0, once, "")
    code, generic, err = cute_opt("--mlir-print-op-generic", stdin=text)
    assert code == 0, err
    assert cute_opt(stdin=generic) == (0, once, ""), "the generic form reads back as another"
    family = op.__dict__.get("__doc__") is None or "Example:" not in op.__doc__
    assert family or f'"{op.name}"' in generic, f"{op.name} does not occur in its own example"


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_other_attributes_of_an_operation_are_printed_and_read(op):
    """Such as its role: a stage that loses them cannot be carried on from its text."""
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)

    def parsed(text):
        return LocatingParser(context, text, f"{op.name}.mlir").parse_module()

    module = parsed(examples_of(op))
    for each in module.walk():
        if each.name == op.name:
            each.attributes["other.note"] = StringAttr("kept")
    again = [each for each in parsed(str(module)).walk() if each.name == op.name]
    assert again
    assert all(each.attributes.get("other.note") == StringAttr("kept") for each in again)


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_every_operation_has_a_round_trip_case(op):
    folder = ROOT / "test" / "dialects" / op.name.split(".")[0]
    cases = "".join(path.read_text() for path in sorted(folder.rglob("*.mlir")))
    assert re.search(rf"(?<![\w.]){re.escape(op.name)}(?![\w.])", cases), f"none in {folder}"


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda one: one.name)
def test_every_type_and_attribute_is_documented(attribute):
    assert (attribute.__doc__ or "").strip()

"""The walls: who may import whom."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cutedialect

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "cutedialect"

# Part of the package to what it may import at module level and inside functions: parts of ours,
# and whether xdsl, numpy and ml_dtypes are open to it.
ALLOWED = {
    "layout": {"layout"},
    "atoms": {"atoms", "layout"},
    "choices": set(),
    "plans": {"choices"},
    "allocation": {"atoms"},
    "notebook": set(),
    "explanations": {"explanations"},
    "schedule": {"schedule", "choices", "plans", "notebook", "layout", "atoms"},
    "environment": set(),
    "remarks": {"notebook"},
    "choosing": {
        "choosing", "choices", "schedule", "atoms", "allocation", "remarks", "numpy",
    },
    "dialects": {"dialects", "layout", "atoms", "schedule", "xdsl"},
    "passes": {
        "passes", "choosing", "dialects", "layout", "atoms", "schedule", "choices", "plans",
        "allocation", "environment", "remarks", "xdsl",
    },
    "backend/ptx": {"backend/ptx", "dialects/ptx", "atoms", "environment", "xdsl"},
    "backend/emulator": {"backend/emulator", "numpy", "ml_dtypes"},
    "backend/interpreter": {
        "backend/interpreter", "dialects", "layout", "xdsl", "numpy", "ml_dtypes",
    },
    "backend/runtime": {
        "backend/runtime", "backend/emulator", "backend/interpreter", "atoms", "layout",
        "environment", "choices", "notebook", "schedule", "remarks", "version", "numpy",
        "ml_dtypes",
    },
    "model": {"model", "backend/runtime", "dialects", "dialects/ptx", "atoms", "xdsl"},
    "universe": {"dialects", "passes", "tools", "xdsl"},
}  # fmt: skip
EXTRAS = {"cupy", "torch", "jax", "matplotlib"}
THIRD_PARTY = {"xdsl", "numpy", "ml_dtypes", *EXTRAS}


def part_of(module):
    """The key in ALLOWED that a dotted module of ours falls under."""
    names = module.split(".")[1:]
    if not names:
        return "version"
    # What ops are made by is below all dialects.
    if names[0] == "backend" or names[:2] in (["dialects", "ptx"], ["dialects", "definition"]):
        return "/".join(names[:2])
    return names[0]


@functools.cache
def imports(path):
    """Every dotted module that a file imports, relative ones resolved, with its line and whether it
    stands at module level.
    """
    return list(_imports(path))


def _imports(path):
    tree = ast.parse(path.read_text())
    top = set(ast.walk(tree)) - {
        inner
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for inner in ast.walk(function)
    }
    here = list(path.relative_to(ROOT).with_suffix("").parts)
    package = here[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node.lineno, node in top
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for name in node.names:
                dotted = f"{module}.{name.name}"
                file = ROOT.joinpath(*dotted.split("."))
                is_module = file.is_dir() or file.with_suffix(".py").is_file()
                yield (dotted if is_module else module), node.lineno, node in top


@pytest.mark.parametrize("part", ALLOWED)
def test_imports_stay_inside_the_walls(part):
    folder = PACKAGE / part
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    allowed = ALLOWED[part]
    faults = []
    for path in files:
        if part == "dialects" and path.is_relative_to(PACKAGE / "dialects" / "ptx"):
            own = allowed - {"dialects"} | {"dialects/ptx", "dialects/definition"}
        elif part in ("dialects", "passes"):
            own = allowed | {"dialects/ptx", "dialects/definition"}
        else:
            own = allowed
        for module, line, _ in imports(path):
            root = module.split(".")[0]
            if root in THIRD_PARTY:
                wanted = root
                if root in EXTRAS:  # its own test below
                    continue
            elif root == "cutedialect":
                wanted = part_of(module)
            else:
                continue
            if wanted not in own:
                faults.append(f"{path.relative_to(ROOT)}:{line}: imports {module}")
    assert not faults, "\n".join(faults)


# The stages of `passes/` in the order of a kernel's way; what several ask stands in front of all.
STAGES = ("analysis", "tile", "bind", "roles", "schedule", "synchronize", "lower")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_no_later_one(stage):
    later = STAGES[STAGES.index(stage) + 1 :]
    faults = [
        f"{path.relative_to(ROOT)}:{line}: imports {module}"
        for path in sorted((PACKAGE / "passes" / stage).rglob("*.py"))
        for module, line, _ in imports(path)
        if module.startswith(tuple(f"cutedialect.passes.{name}" for name in later))
    ]
    assert not faults, "\n".join(faults)


# What the check of synchronized programs may know: it judges the passes, by a table of its own.
OF_THE_PROTOCOL = (
    "cutedialect.layout",
    "cutedialect.dialects.cute",
    "cutedialect.dialects.cute_nvgpu",
    "cutedialect.dialects.pipeline",
    "cutedialect.dialects.walks",
    "cutedialect.dialects",
    "cutedialect.passes.anchors",
    "cutedialect.passes.remarks",
)


def test_the_check_of_synchronized_programs_shares_nothing_with_the_passes_that_it_judges():
    own = "cutedialect.passes.protocol"
    faults = [
        f"{path.relative_to(ROOT)}:{line}: imports {module}"
        for path in sorted((PACKAGE / "passes" / "protocol").rglob("*.py"))
        for module, line, _ in imports(path)
        if module.startswith("cutedialect")
        and module not in OF_THE_PROTOCOL
        and not module.startswith((f"{own}.", "cutedialect.layout."))
    ]
    assert not faults, "\n".join(faults)
    # Nor do they use it, but for the list of all passes.
    users = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((PACKAGE / "passes").rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "passes" / "protocol")
        and path.name != "cute_to_ptx.py"
        for module, line, _ in imports(path)
        if module.startswith(own)
    ]
    assert not users


def test_cupy_is_imported_by_functions_of_the_runtime_only():
    faults = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for module, line, top in imports(path):
            root = module.split(".")[0]
            outside = not path.is_relative_to(PACKAGE / "backend" / "runtime")
            its_own = root in ("torch", "jax") and path.is_relative_to(PACKAGE / root)
            if (root in EXTRAS and top and not its_own) or (root == "cupy" and outside):
                faults.append(f"{path.relative_to(ROOT)}:{line}: imports {module}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_nothing_imports_the_part_for_a_library(library):
    faults = [
        f"{path.relative_to(ROOT)}:{line}: imports {module}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / library)
        for module, line, _ in imports(path)
        if module.startswith(f"cutedialect.{library}")
    ]
    assert not faults, "\n".join(faults)


def test_nothing_imports_from_the_tests():
    faults = []
    for folder in ("cutedialect", "examples", "benchmarks", "test"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not re.search(r"\b(import|from) +test\b", path.read_text(encoding="utf-8")):
                continue
            for module, line, _ in imports(path):
                if module.split(".")[0] == "test":
                    faults.append(f"{path.relative_to(ROOT)}:{line}")
    assert not faults, "\n".join(faults)
    assert not list((ROOT / "test").rglob("__init__.py"))


def statements(path, modules):
    """The modules that a file enters, in order, and whether when it is imported itself."""
    tree = ast.parse(path.read_text())
    at_once, blocks, found = set(), [tree.body], []
    while blocks:
        for node in blocks.pop():
            at_once.add(node)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                blocks.append(node.orelse)
            elif isinstance(node, (ast.If, ast.Try, ast.With, ast.ClassDef)):
                blocks += [node.body, getattr(node, "orelse", [])]
    package = list(path.relative_to(ROOT).with_suffix("").parts)[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [module, *(f"{module}.{name.name}" for name in node.names)]
        else:
            continue
        found += [(node.lineno, name, node in at_once) for name in names if name in modules]
    return sorted(found, key=lambda each: each[0])


def test_threads_may_import_at_one_time():
    """Python locks each module by itself, so that two threads which come into a cycle of modules at
    two ends get in each other's way. There is no cycle but that of a package with modules of its
    own, and everybody enters that one at the package.
    """
    files = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    entered = {module: statements(path, files) for module, path in files.items()}
    needs = {
        module: {name for _, name, is_at_once in found if is_at_once}
        for module, found in entered.items()
    }
    # By each module that its package imports: that package.
    inside = {}
    for module, path in files.items():
        waiting = [module] if path.name == "__init__.py" else []
        while waiting:
            for name in needs[waiting.pop()]:
                if name.startswith(f"{module}.") and name not in inside:
                    inside[name] = module
                    waiting.append(name)
    assert inside["cutedialect.dialects.cute.types"] == "cutedialect.dialects.cute"
    graph = {}
    for module, names in needs.items():
        node = inside.get(module, module)
        graph.setdefault(node, set()).update({inside.get(name, name) for name in names} - {node})
    graphlib.TopologicalSorter(graph).prepare()
    faults = []
    for module, found in entered.items():
        before = set()
        for line, name, _ in found:
            before.add(name)
            package = inside.get(name)
            if package is None or module == package or module.startswith(f"{package}."):
                continue
            if package not in before:
                faults.append(f"{module}:{line}: imports {name} before {package}")
    assert not faults, "\n".join(faults)


def loaded_by(statement):
    """The third-party roots in sys.modules after a statement in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return THIRD_PARTY & set(done.stdout.split())


def test_importing_the_package_loads_no_third_party():
    assert loaded_by("import cutedialect") == set()


def test_the_layout_algebra_and_the_atoms_need_no_third_party():
    assert loaded_by("from cutedialect import Layout, atoms; Layout((4, 8))") == set()


def test_the_emulator_needs_no_xdsl():
    assert loaded_by("import cutedialect.backend.emulator") <= {"numpy", "ml_dtypes"}


def test_the_runtime_needs_no_xdsl():
    assert "xdsl" not in loaded_by("import cutedialect.backend.runtime")


def test_the_calls_of_kernels_need_no_xdsl():
    """What a kernel that is found on disk does with."""
    names = "kernel", "compile", "gemm", "attention", "grouped_gemm", "autotune", "one_of"
    code = (
        f"from cutedialect import {', '.join(names)}; import cutedialect.frontend.open_parameters"
    )
    assert "xdsl" not in loaded_by(code)


def test_every_public_name_exists():
    code = (
        "import cutedialect\n"
        "for name in dir(cutedialect):\n"
        "    assert getattr(cutedialect, name) is not None, name\n"
        "    assert getattr(cutedialect, name) is getattr(cutedialect, name), name\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_type_checkers_see_the_same_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    guarded = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        (name.asname, f"{line.module}.{name.name}")
        for line in guarded.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }
    inside = cutedialect._INSIDE
    assert sorted(cutedialect.__all__) == sorted(cutedialect._EXPORTS)
    assert seen == {
        (name, f"{module}.{inside.get(name, name)}")
        for name, module in cutedialect._EXPORTS.items()
    } | {("atoms", "cutedialect.atoms"), ("layout", "cutedialect.layout")}


def test_the_type_of_targets_lists_them():
    from typing import get_args

    from cutedialect import atoms, choices

    assert get_args(choices.Arch) == atoms.targets()


def test_ops_are_walked_in_one_way():
    """By `dialects/walks.py`, where the parts that have it do."""
    own = [
        path for part in ("passes", "frontend", "tools") for path in (PACKAGE / part).rglob("*.py")
    ]
    own += (PACKAGE / "backend" / "interpreter").rglob("*.py")
    calls = re.compile(r"(?<!\bast)\.walk\(")
    faults = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(own)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if calls.search(line)
    ]
    assert len(own) > 100
    assert not faults, "\n".join(faults)

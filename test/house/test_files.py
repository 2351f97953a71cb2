"""The form of the tree: sizes, the map in the README, directives, documents."""

import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from cutedialect import environment

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "cutedialect"


def tracked(*patterns):
    """The files of the repository that match a pattern of git, in which `*` matches `/` too, or all
    of them. Without git they are what `.gitignore` does not name.
    """
    try:
        done = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", *patterns],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()]
    except (OSError, subprocess.CalledProcessError):
        return [path for path in unignored() if matches(str(path.relative_to(ROOT)), patterns)]


def unignored():
    ignored = [".git", *(ROOT / ".gitignore").read_text().split()]
    ignored = [each.rstrip("/") for each in ignored]
    for folder, inner, files in os.walk(ROOT):
        inner[:] = [name for name in inner if not matches(name, ignored)]
        yield from (Path(folder, name) for name in files if not matches(name, ignored))


def matches(name, patterns):
    return not patterns or any(fnmatch(name, each) for each in patterns)


def test_files_are_found_without_git(monkeypatch):
    found = tracked("test/*.mlir", "*.py")
    monkeypatch.setenv("PATH", "")
    assert set(tracked("test/*.mlir", "*.py")) == set(found)
    assert {ROOT / "README.md", ROOT / ".ci" / "run", Path(__file__)} <= set(tracked())


def test_no_file_is_longer_than_700_lines():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in PACKAGE.rglob("*.py")
        if (lines := path.read_text().count("\n")) > 700
    }
    assert long == {}


def test_no_file_is_named_for_nothing():
    names = {"utils.py", "util.py", "common.py", "helpers.py", "helper.py", "misc.py"}
    assert not [path for path in PACKAGE.rglob("*.py") if path.name in names]


def test_every_module_says_what_it_is():
    silent = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if path.stat().st_size and not path.read_text().lstrip().startswith(('"""', 'r"""'))
    ]
    assert not silent


def test_every_module_belongs_to_a_package():
    lost = [
        str(path.parent.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if not (path.parent / "__init__.py").is_file()
    ]
    assert not lost


DIRECTIVE = re.compile(r"^\s*(?://|#)\s*(?P<word>[A-Za-z0-9_-]*)\s*:", re.MULTILINE)
SUFFIX = r"(?:-(?:NEXT|SAME|NOT|LABEL|DAG|EMPTY|COUNT-\d+))?"


@pytest.mark.parametrize("path", tracked("test/*.mlir"), ids=lambda path: path.name)
def test_directives_are_spelt_as_filecheck_reads_them(path):
    """A misspelt directive is silently ignored: every word before a colon at the start of a comment
    must be one that lit or filecheck knows, in the prefixes that the RUN lines name.
    """
    text = path.read_text()
    runs = "\n".join(re.findall(r"// RUN:.*", text))
    assert runs, "expected a RUN line"
    prefixes = {
        name
        for names in re.findall(r"--check-prefix(?:es)?[= ](\S+)", runs)
        for name in names.split(",")
    }
    if re.search(r"filecheck %s(?!.*--check-prefix)", runs):
        prefixes.add("CHECK")
    known = re.compile(
        "RUN|COM|NOTE|REQUIRES|" + "|".join(f"{one}{SUFFIX}" for one in prefixes) + "$"
    )
    for word in DIRECTIVE.findall(text):
        shouted = word.upper() == word and len(word) > 2
        resembles = re.match(r"(?i)ch?e?c?k|run$", word)
        if (shouted or resembles) and not known.fullmatch(word):
            pytest.fail(f"{path.name}: '{word}:' is no directive; expected {sorted(prefixes)}")
    for prefix in prefixes:
        assert re.search(rf"^\s*// {prefix}{SUFFIX}:", text, re.MULTILINE), f"no '{prefix}:' lines"


def test_the_map_in_the_readme_is_complete():
    text = (ROOT / "README.md").read_text()
    tree = re.search(r"```text\n(cutedialect/\n.*?)```", text, re.DOTALL)
    assert tree, "expected the map of the tree in a ```text block"
    named = set(re.findall(r"^ {2}(\S+)", tree[1], re.MULTILINE))
    there = {
        entry.name + ("/" if entry.is_dir() else "")
        for entry in PACKAGE.iterdir()
        if entry.name not in ("__pycache__", "py.typed")
    }
    assert named == there
    top = set(re.findall(r"^(\w[\w-]*/)", tree[1], re.MULTILINE))
    folders = {f"{path.relative_to(ROOT).parts[0]}/" for path in tracked() if path.parent != ROOT}
    assert top == {folder for folder in folders if not folder.startswith(".")}


def test_every_environment_variable_is_documented_and_read_in_one_file():
    table = (ROOT / "CONTRIBUTING.md").read_text()
    source = (PACKAGE / "environment.py").read_text()
    for name in environment.VARIABLES:
        assert f"`{name}`" in table
        assert source.count(name) >= 2
    strangers = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if path.name != "environment.py"
        and re.search(r"(environ|getenv)\b[^\n]*CUTEDIALECT_", path.read_text())
    ]
    assert not strangers


def test_commands_named_by_the_package_exist():
    for module in ("cutedialect.tools.cute_opt", "cutedialect.tools.cute_emu"):
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0
        assert "usage" in done.stdout


@pytest.mark.some(6)
@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_examples_run(path, tmp_path):
    environ = {**os.environ, "CUTEDIALECT_DUMP_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr

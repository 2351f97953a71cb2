"""The code of the documents runs, their links lead somewhere, and the files of a release agree with
each other.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cutedialect

ROOT = Path(__file__).parents[2]
TUTORIAL = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HERE = f"{PROJECT['urls']['Homepage']}/blob/main/"


def load(path):
    spec = importlib.util.spec_from_file_location(path.name.replace(".", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


documents = load(ROOT / ".ci" / "documents.py")


@pytest.mark.parametrize("path", TUTORIAL, ids=lambda path: path.name)
def test_the_code_of_the_tutorial_runs(path, tmp_path):
    code = tmp_path / f"{path.stem}.py"
    code.write_text(documents.program(path.read_text()))
    load(code)


def test_a_program_has_the_lines_of_its_document():
    text = "# x\n\n```python\na = 1\n\nb = 2\n```\ntext\n```sh\nls\n```\n```python\nc\n```\n"
    assert documents.program(text).split("\n")[:14] == [
        *("", "", "", "a = 1", "", "b = 2", "", "", "", "", "", "", "c", ""),
    ]


def test_a_document_that_fails_is_reported(tmp_path, capfd):
    (tmp_path / "bad.md").write_text("# x\n\n```python\nassert False\n```\n")
    assert documents.main([str(tmp_path / "bad.md")]) == 1
    said = capfd.readouterr()
    assert "bad.md: failed" in said.out
    assert "line 4" in said.err


def links(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"\]\(([^)\s]+)\)|^\[[^]]+\]: (\S+)", text, re.MULTILINE)
    return ["".join(pair) for pair in found]


@pytest.mark.parametrize(
    "path",
    [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_lead_somewhere(path):
    for link in links(path):
        if link.startswith(HERE):
            target = ROOT / link.removeprefix(HERE)
        elif link.startswith(("https://", "#")):
            continue
        else:
            # The README is the package's page, too, where nothing is beside it.
            assert path != ROOT / "README.md", f"expected an absolute link, got {link}"
            target = path.parent / link.split("#")[0]
        assert target.exists() or is_made(target), f"{path.name}: {link}"


def is_made(target):
    """Whether the site has a page or a picture that is made when it is built, which test_site.py
    compares with what is made.
    """
    place = os.path.relpath(target, ROOT / "docs")
    listed = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    return place.startswith("pictures/") or re.search(rf" {re.escape(place)}$", listed, re.M)


def test_files_of_a_release_agree():
    assert PROJECT["version"] == cutedialect.__version__
    assert f"version: {cutedialect.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {cutedialect.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    versions = {
        each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)
    }
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    listed = re.findall(r"python: (\[.*\])", workflow)[0]
    assert set(json.loads(listed)) == versions
    assert PROJECT["requires-python"] == f">={min(versions, key=lambda v: int(v[2:]))}"


def test_a_release_is_what_the_tests_built_and_tried():
    workflows = ROOT / ".github" / "workflows"
    test, release = ((workflows / f"{name}.yml").read_text() for name in ("test", "release"))
    listed = re.findall(r"^  (\w+):\n((?:    .*\n|\n)*)", release.partition("\njobs:\n")[2], re.M)
    jobs = dict(listed)
    assert "uses: ./.github/workflows/test.yml" in jobs["test"]
    assert "workflow_call:" in test
    needs = {name: re.findall(r"needs: (\w+)", body) for name, body in jobs.items()}
    assert needs == {"test": [], "version": ["test"], "publish": ["version"]}
    for command in ("make lint", "make types", "make test", "make package"):
        assert f"run: {command}" in test
    # The artifact that is published is the one that `make package` left.
    assert "make package" not in release
    asked = re.findall(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(), re.M)
    targets = [word for line in asked for word in line.split() if not word.startswith("-")]
    assert targets == ["lint", "types", "test"]


def test_pins_are_within_what_the_package_requires():
    pins = dict(
        line.split(";")[0].strip().split("==")
        for name in ("requirements.txt", "requirements-dev.txt")
        for line in (ROOT / name).read_text().split("\n")
        if "==" in line
    )
    extras = PROJECT["optional-dependencies"]
    required = [*PROJECT["dependencies"], *extras["test"], *extras["dev"]]
    for requirement in required:
        [(name, rest)] = re.findall(r"^([\w.-]+)(?:\[\w+\])?(.*)$", requirement)
        assert "==" not in rest, f"expected a floor, got {requirement}"
        if name == "cutedialect":
            continue
        pinned = tuple(int(part) for part in pins[name].split("."))
        for bound in rest.split(","):
            [(sign, version)] = re.findall(r"^(>=|<)([\d.]+)$", bound)
            limit = tuple(int(part) for part in version.split("."))
            assert pinned >= limit if sign == ">=" else pinned < limit, requirement


def test_issue_forms_ask_for_the_doctors_report():
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        if form.name != "config.yml":
            assert "python -m cutedialect doctor --json" in form.read_text(), form.name


# What of Python there is on POSIX systems only.
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = (
    "chown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getpgid", "getuid", "killpg",
    "mkfifo", "nice", "openpty", "posix_spawn", "sched_getaffinity", "setsid", "statvfs", "uname",
    "wait3", "wait4",
)  # fmt: skip
GEMM = """
import numpy as np
import cutedialect as cute
from cutedialect.__main__ import main
a = np.ones((40, 24), np.float16)
assert (cute.gemm(a, a.T, backend="emulator") == 24).all()
assert (cute.gemm(a, a.T, arch="sm_90a", backend="emulator") == 24).all()
assert main(["doctor", "--json"]) == 0 and main(["explain", "CD-P1"]) == 0
assert main(["cache", "ls"]) == 0
"""


def test_without_a_gpu_nothing_needs_posix(tmp_path):
    """Nor an encoding of the locale, which is not UTF-8 on Windows."""
    code = (
        "import ctypes, json, os, signal, subprocess, sys, tempfile\n"
        "import ml_dtypes, numpy, xdsl.dialects.builtin\n"
        f"sys.modules.update(dict.fromkeys({sorted(POSIX_MODULES - {'posix'})!r}))\n"
        f"for name in {POSIX_NAMES!r}:\n"
        "    if hasattr(os, name): delattr(os, name)\n"
        "for name in ('SIGALRM', 'SIGKILL', 'alarm', 'setitimer', 'pthread_kill'):\n"
        "    if hasattr(signal, name): delattr(signal, name)\n" + GEMM
    )
    done = subprocess.run(
        [
            *(sys.executable, "-X", "warn_default_encoding"),
            *("-W", "error::EncodingWarning:cutedialect", "-c", code),
        ],
        cwd=ROOT,
        env={"CUTEDIALECT_CACHE_DIR": str(tmp_path), "PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_text_files_are_read_and_written_in_utf_8():
    """By every call that names no mode of bytes."""
    faults = []
    for path in (ROOT / "cutedialect").rglob("*.py"):
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if re.search(r"\.(read|write)_text\((?!.*encoding)", line):
                faults.append(f"{path.relative_to(ROOT)}:{number}")
    assert not faults

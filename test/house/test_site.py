"""The site without MkDocs: the reference has all of the code, pages stand in the navigation, and
the code of the pages outside of the tutorial runs. `make docs` builds it, and follows its links.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import re
import struct
import zlib
from pathlib import Path

import pytest

import cutedialect
from cutedialect import environment, schedule
from cutedialect.__main__ import COMMANDS
from cutedialect.dialects import our_dialects
from cutedialect.explanations import pages as explained
from cutedialect.passes import OURS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


documents = load(ROOT / ".ci" / "documents.py")
check_site = load(ROOT / ".ci" / "check_site.py")
hooks = load(DOCS / "hooks.py")
screenshots = load(ROOT / ".ci" / "screenshots.py")
reference = load(DOCS / "reference.py")


RECIPES = sorted(f"cookbook/{page.stem}" for page in DOCS.glob("cookbook/*.md"))


@pytest.fixture(scope="module")
def pages():
    return reference.pages()


def anchors(text):
    return re.findall(r'\{: #(\S+) \}$|<a id="([^"]+)">', text, re.MULTILINE)


def entries(text):
    return ["".join(pair) for pair in anchors(text)]


def test_every_public_name_has_an_entry(pages):
    names = entries(pages["reference/python.md"])
    assert {f"cute.{name}" for name in cutedialect.__all__} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("part", ["layout", "atoms"])
def test_every_name_of_a_part_has_an_entry(pages, part):
    names = getattr(cutedialect, part).__all__
    assert {f"{part}.{name}" for name in names} <= set(entries(pages[f"reference/{part}.md"]))


@pytest.mark.parametrize("name", our_dialects())
def test_every_operation_and_type_has_an_entry_with_its_example(pages, name):
    dialect, text = our_dialects()[name](), pages[f"reference/dialects/{name}.md"]
    operations, types = list(dialect.operations), list(dialect.attributes)
    assert set(entries(text)) == {each.name for each in (*operations, *types)}
    assert text.count("```mlir\n") >= len(operations)
    sections = dict(re.findall(r"^### `(\S+)` .*\n((?:(?!###).*\n)*)", text, re.MULTILINE))
    for op in operations:
        assert op.name in sections[op.name] or "```mlir" in sections[op.name]


def test_every_pass_has_an_entry_with_its_options(pages):
    text = pages["reference/passes.md"]
    assert entries(text) == list(OURS)
    assert "| `schedule` | `str \\| None` | `None` |" in text


def test_every_field_variable_command_and_code_has_an_entry(pages):
    fields = [field.name for field in dataclasses.fields(schedule.Schedule)]
    assert entries(pages["reference/schedule-fields.md"]) == fields
    assert entries(pages["reference/environment.md"]) == list(environment.VARIABLES)
    assert entries(pages["reference/errors.md"]) == list(explained())
    commands = pages["reference/commands.md"]
    assert entries(commands) == [f"cutedialect-{name}" for name in COMMANDS] + [
        *("cute-opt", "cute-emu"),
    ]
    assert commands.count("usage: ") >= len(COMMANDS) + 2


def test_targets_are_told_with_their_driver(pages):
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", pages["reference/targets.md"], re.MULTILINE))
    assert rows["sm_90a"].startswith("`wgmma` | 8.4 | 12.4 | 227 |")
    support = (DOCS / "support.md").read_text().partition("## Drivers")[2]
    for name, release in re.findall(r"(\d+\.\d) for\s(sm_\w+)", support):
        assert f" | {name} | " in rows[release], release


def test_text_of_docstrings_means_itself():
    assert reference.prose("a * b, `x * y`, v<1>\n\n    code * 2\n\nc") == (
        "a \\* b, `x * y`, v\\<1>\n\n    code * 2\n\nc"
    )


def test_every_page_stands_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", text.partition("\nnav:\n")[2], re.M)
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    made = {*reference.pages(), *hooks.PROJECT}
    assert sorted(listed) == sorted(there | made)


def used():
    """The names of `cute` in the programs of documents that tests run."""
    texts = [ROOT / "README.md", *DOCS.glob("tutorial/*.md"), *DOCS.glob("cookbook/*.md")]
    texts += [DOCS / f"{name}.md" for name in ("cookbook", "gallery", "index", "cupy")]
    for path in texts:
        for node in ast.walk(ast.parse(documents.program(path.read_text()))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "cute":
                yield node.attr


def test_every_public_name_is_used_in_a_program_that_is_run():
    assert set(cutedialect.__all__) - set(used()) == set()


@pytest.mark.timeout(300)  # the cookbook compiles and runs all of its kernels
@pytest.mark.parametrize(
    "name",
    ["index", "cookbook", "cupy", "cookbook/lines", "cookbook/atomics"],
)
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = tmp_path / f"{Path(name).name}.py"
    code.write_text(documents.program((DOCS / f"{name}.md").read_text()))
    load(code)


@pytest.mark.some(6)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted({*RECIPES} - {"cookbook/lines", "cookbook/atomics"}))
def test_the_kernel_of_a_recipe_is_right(name, tmp_path, monkeypatch):
    test_the_code_of_a_page_runs(name, tmp_path, monkeypatch)


def test_the_gallery_has_each_picture_that_its_code_makes():
    page = DOCS / "gallery.md"
    pictures = hooks.pictures(page)
    shown = re.findall(r"!\[[^]]+\]\((pictures/[^)]+)\)", page.read_text())
    assert sorted(pictures) == sorted(shown)
    assert all(text.startswith("<svg ") for text in pictures.values())


def test_links_that_leave_the_pages_go_to_the_repository_or_to_their_page():
    page = DOCS / "tutorial" / "x.md"
    text = "[a](../../examples/gemm.py) [b](../../CONTRIBUTING.md#style) [c](1-layouts.md) [d](#e)"
    assert hooks.linked(text, page, "tutorial/x.md") == (
        f"[a]({hooks.REPOSITORY}examples/gemm.py) [b](../project/contributing.md#style) "
        "[c](1-layouts.md) [d](#e)"
    )


def test_a_broken_site_is_told(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top"><a href="b.html#there">b</a> <a href="#top">a</a> <a href="c.html">c</a>'
        '<img src="x.svg"><script src="https://elsewhere.net/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<a name="here" href="a.html#top">a</a>')
    assert check_site.faults(tmp_path) == [
        "a.html: b.html#there has no such anchor",
        "a.html: c.html leads nowhere",
        "a.html: x.svg leads nowhere",
        "a.html: loads https://elsewhere.net/x.js from elsewhere",
    ]
    assert check_site.main([str(tmp_path)]) == 1


def png(rows, kinds):
    """A picture of gray rows, each with a filter of its own."""
    raw, before = b"", bytes(3 * len(rows[0]))
    for row, kind in zip(rows, kinds, strict=True):
        line = bytes(value for value in row for _ in range(3))
        raw += bytes([kind])
        for x, value in enumerate(line):
            left, corner = (line[x - 3], before[x - 3]) if x >= 3 else (0, 0)
            guess = screenshots._predicted(kind, left, before[x], corner)
            raw += bytes([value - guess & 255])
        before = line
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    made = [struct.pack(">I", len(data)) + kind + data + b"crc " for kind, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def test_screenshots_are_read_and_compared():
    rows = [[(7 * x * y + 3 * x) % 256 for x in range(16)] for y in range(20)]
    read = screenshots.brightness(png(rows, [y % 5 for y in range(20)]))
    assert [[round(255 * value) for value in row] for row in read] == rows
    light = screenshots.grid([[0.9] * 16 for _ in range(20)])
    dark = screenshots.grid([[0.2] * 16 for _ in range(20)])
    kept = {"a light": light, "a dark": dark}
    assert screenshots.differences(kept, kept) == []
    assert screenshots.mean(dark) == pytest.approx(0.2)
    unstyled = {"a light": light, "a dark": light, "b light": light}
    assert screenshots.differences(unstyled, kept) == [
        "a dark: looks otherwise than before, by 0.70 of brightness",
        "a dark: expected a dark page, got one 0.00 darker",
        "b light: expected a screenshot to compare with; take them by --update",
    ]

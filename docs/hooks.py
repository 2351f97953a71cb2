"""What MkDocs does for the site beside reading docs/: the pages of the reference are added, which
are made from the code; the code of the gallery is run, which leaves its pictures; project pages
come from the root of the repository; links that leave docs/ go to the repository.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/cutedialect/cutedialect/blob/main/"
# Page of the site to the file of the repository that it shows.
PROJECT = {
    "project/contributing.md": "CONTRIBUTING.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/security.md": "SECURITY.md",
}
_LINK = re.compile(r"(\]\(|^\[[^]\n]+\]: )([^)\s]+)", re.MULTILINE)


def load(path: Path) -> ModuleType:
    """A file of Python that belongs to no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generated() -> dict[str, str]:
    """Path below docs/ to the text of every page and picture that is made."""
    made: dict[str, str] = load(ROOT / "docs" / "reference.py").pages()
    for page, source in PROJECT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        made[page] = linked(text, ROOT / source, page)
    return made | pictures(ROOT / "docs" / "gallery.md")


def pictures(page: Path) -> dict[str, str]:
    """The code of a page is run in an empty folder; what it leaves in `pictures/` is returned."""
    program = load(ROOT / ".ci" / "documents.py").program(page.read_text(encoding="utf-8"))
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("pictures").mkdir()
            exec(compile(program, str(page), "exec"), {"__name__": "__main__"})
            return {
                str(path): path.read_text(encoding="utf-8")
                for path in sorted(Path("pictures").iterdir())
            }
        finally:
            os.chdir(before)


def linked(text: str, source: Path, page: str) -> str:
    """A text whose links to files of the repository hold on the site: to its pages, where they are
    there, and else to the repository. `page` is where the text stands, below docs/.
    """
    pages = {str(ROOT / origin): place for place, origin in PROJECT.items()}

    def target(found: re.Match[str]) -> str:
        link, mark, anchor = found[2].partition("#")
        if link.startswith(REPOSITORY):
            path = ROOT / link.removeprefix(REPOSITORY)
        elif not link or "://" in link or link.startswith("mailto:"):
            return found[0]
        else:
            path = Path(os.path.normpath(source.parent / link))
        place = pages.get(str(path))
        if place is None and path.is_relative_to(ROOT / "docs"):
            place = str(path.relative_to(ROOT / "docs"))
        if place is None:
            return f"{found[1]}{REPOSITORY}{path.relative_to(ROOT)}{mark}{anchor}"
        return f"{found[1]}{os.path.relpath(place, Path(page).parent)}{mark}{anchor}"

    return _LINK.sub(target, text)


def on_files(files: Any, config: Any) -> Any:
    """Add what is made."""
    from mkdocs.structure.files import File

    for path, text in generated().items():
        with contextlib.suppress(KeyError, ValueError):
            files.remove(files.src_uris[path])
        files.append(File.generated(config, path, content=text))
    packed: bytes = load(ROOT / "docs" / "playground_archive.py").archive()
    files.append(File.generated(config, "playground.zip", content=packed))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of pages of docs/ that leave it."""
    source = ROOT / "docs" / page.file.src_uri
    return linked(markdown, source, page.file.src_uri) if source.is_file() else markdown

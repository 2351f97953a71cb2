"""What every code of an error means and what to do about it: Markdown files, one for a family, with
a section for each code. They are the one list of codes; a test compares it with the package.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

# In the order in which a kernel meets them.
FAMILIES = (
    "programs",
    "calls",
    "compiling",
    "protocol",
    "running",
    "memory",
    "proxies",
    "mbarriers",
    "wgmma",
    "tensor_memory",
    "tensor_maps",
    "barriers",
    "clusters",
)


@dataclass(frozen=True)
class Page:
    """The page of a code: its title, its family's heading, and the text in Markdown."""

    code: str
    title: str
    family: str
    text: str


@cache
def pages() -> dict[str, Page]:
    """The page of each code, in order."""
    found: dict[str, Page] = {}
    for family in FAMILIES:
        text = (files(__name__) / f"{family}.md").read_text(encoding="utf-8")
        heading, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
        name = heading.split("\n", 1)[0].removeprefix("# ")
        for section in sections:
            head, body = section.split("\n", 1)
            code, title = head.split(": ", 1)
            found[code] = Page(code, title, name, body.strip())
    return found


def page(code: str) -> Page:
    """The page of a code, in any case, with or without its `CD-`; raises ValueError for one that
    does not exist.

    >>> page("cd-a2").title
    'a matrix instruction that may miss ordinary stores'
    """
    known = pages()
    asked = code.strip().upper().removeprefix("ERROR").strip("[]:")
    for each in (asked, f"CD-{asked}"):
        if each in known:
            return known[each]
    from difflib import get_close_matches

    full = asked if asked.startswith("CD-") else f"CD-{asked}"
    family = [each for each in known if each.rstrip("0123456789") == full.rstrip("0123456789")]
    near = get_close_matches(full, family or known, 1, 0.0 if family else 0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"expected the code of an error, such as CD-P6, got '{code}'{hint}")

"""`python -m cutedialect explain [CODE ...]`: the page of an error's code, or the list of codes."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence

from cutedialect import environment
from cutedialect.explanations import Page, page, pages

from .styles import styled


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect explain",
        description="What an error's code means, and what to do; without a code, all of them.",
    )
    parser.add_argument("codes", nargs="*", metavar="CODE", help="such as CD-P6")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    shown = [page(code) for code in options.codes] or list(pages().values())
    if options.json:
        print(json.dumps([vars(each) for each in shown]))
    elif options.codes:
        print("\n\n".join(map(_page, shown)))
    else:
        print("\n".join(_index(shown)))
    return 0


def _page(shown: Page) -> str:
    head, text = f"{shown.code}: {shown.title}", shown.text
    if environment.color(sys.stdout):
        head = styled(head, "text")
        text = re.sub(r"`[^`\n]+`", lambda found: styled(found[0], "code"), text)
    return f"{head}\n\n{text}"


def _index(shown: Sequence[Page]) -> list[str]:
    lines: list[str] = []
    width = max(len(each.code) for each in shown)
    family = ""
    for each in shown:
        if each.family != family:
            family = each.family
            lines += ["", family] if lines else [family]
        lines.append(f"  {each.code:{width}}  {each.title}")
    return lines

"""What a notebook shows of a kernel, a schedule or remarks: tables and folded texts as HTML, beside
the plain text. A long text is cut, and says where the rest is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

# Lines that a browser shows without a pause.
_MOST_LINES = 1500


def escaped(text: str) -> str:
    """A text as HTML has it."""
    from html import escape

    return escape(text)


def table(rows: Mapping[str, object]) -> str:
    """Names and values, one below the other."""
    cells = "".join(
        f'<tr><th style="text-align:left">{escaped(name)}</th>'
        f'<td style="text-align:left"><code>{escaped(str(value))}</code></td></tr>'
        for name, value in rows.items()
    )
    return f"<table>{cells}</table>"


def listed(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows below their heads."""
    left = 'style="text-align:left"'
    head = "".join(f"<th {left}>{escaped(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td {left}>{escaped(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def folded(title: str, text: str, whole: str) -> str:
    """A text under its title, shown at a click; `whole` is the expression that has all of it."""
    lines = text.rstrip("\n").split("\n")
    shown = "\n".join(lines[:_MOST_LINES])
    rest = len(lines) - _MOST_LINES
    note = f"\n... {rest} more lines in {whole}" if rest > 0 else ""
    head = f"{escaped(title)} ({len(lines)} lines)"
    return (
        f"<details><summary>{head}</summary>"
        f'<pre style="max-height:30em;overflow:auto">{escaped(shown + note)}</pre></details>'
    )


def bundle(text: str, html: str) -> dict[str, str]:
    """Both forms by their MIME types."""
    return {"text/plain": text, "text/html": html}

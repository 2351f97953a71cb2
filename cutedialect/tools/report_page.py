"""A report as one page of HTML: nothing is loaded from elsewhere, light and dark follow the
reader's choice, and tables scroll by themselves on a phone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from cutedialect import __version__
from cutedialect.tools.report_facts import Facts, HotLine, LineFacts, source_lines
from cutedialect.tools.sass import Instruction

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --strong: #0072b233; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; padding: 0 1rem; max-width: 90rem; }
.kernels { display: grid; gap: 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
section { min-width: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: 0.1rem 0.6rem; text-align: left; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre, code { font: 13px/1.4 ui-monospace, monospace; }
pre { overflow: auto; max-height: 40em; background: var(--soft); padding: 0.5rem; }
.program td { border: 0; padding: 0 0.5rem; white-space: pre;
  font: 13px/1.4 ui-monospace, monospace; }
.program tr.busy { background: var(--strong); }
.remark td { white-space: normal; color: #b45309; font: 13px/1.4 system-ui, sans-serif; }
svg { max-width: 100%; height: auto; background: #fff; color: #000; border-radius: 4px; }
.over { color: #c2410c; font-weight: bold; }
"""
# Lines of Python around what is run.
_AROUND = 2
# A line with this share of a kernel's instructions is marked.
_BUSY = 0.05
# Lines of a loop that are shown.
_MOST = 600


def page(reports: Sequence[Facts]) -> str:
    """The page of one kernel, or of several side by side."""
    names = ", ".join(f"{facts.kernel.name} for {facts.kernel.arch}" for facts in reports)
    body = "\n".join(_kernel(facts) for facts in reports)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(names)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(names)}</h1>
<div class="kernels">
{body}
</div>
<p>Written by <code>python -m cutedialect report</code>, cutedialect {__version__}. Counts are those
of the emulator for the launch that the script made; times are the models'.</p>
</body>
</html>
"""


def _kernel(facts: Facts) -> str:
    kernel = facts.kernel
    parts = [
        f"<section><h2>{escape(kernel.name)}</h2>",
        f"<p>{escape(facts.source)}, target <code>{escape(kernel.arch)}</code>, arguments "
        f"<code>{escape(_arguments(facts))}</code></p>",
        _programs(facts),
        _choices(facts),
        _resources(facts),
    ]
    if facts.prediction:
        parts += ["<h3>Bound</h3>", facts.roofline, f"<pre>{escape(facts.prediction)}</pre>"]
    if facts.roles:
        parts += ["<h3>Roles by the model</h3>", facts.roles]
    if facts.timeline is not None:
        parts += [
            "<h3>Roles over time</h3>",
            facts.timeline.svg(),
            f"<pre>{escape(str(facts.timeline))}</pre>",
        ]
    parts += ["<h3>Counts</h3>", f"<pre>{escape(facts.report)}</pre>", _loops(facts)]
    if facts.missing:
        said = "".join(f"<li>{escape(text)}</li>" for text in facts.missing)
        parts += ["<h3>Not here</h3>", f"<ul>{said}</ul>"]
    for name, text in kernel.stages.items():
        parts.append(_folded(f"IR after {name}", text))
    parts += [_folded("PTX", kernel.ptx), "</section>"]
    return "\n".join(parts)


def _arguments(facts: Facts) -> str:
    shown = [
        "x".join(map(str, value[0])) if isinstance(value, tuple) else str(value)
        for value in facts.kernel.emulated_arguments
    ]
    return ", ".join(shown)


def _programs(facts: Facts) -> str:
    total = sum(line.instructions for file in facts.program.values() for line in file.values())
    parts = ["<h3>Program</h3>"]
    for file, lines in facts.program.items():
        text = source_lines(file, Path(facts.source).parent)
        if text:
            parts += [f"<p><code>{escape(file)}</code></p>", _program(text, lines, total)]
    parts += [f"<p>{escape(remark)}</p>" for remark in facts.remarks]
    return "\n".join(parts)


def _program(text: Sequence[str], lines: dict[int, LineFacts], total: int) -> str:
    shown = {at for line in lines for at in range(line - _AROUND, line + _AROUND + 1)}
    heads = ("line", "", "instructions", "wavefronts", "conflicts", "bytes", "sectors")
    rows = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    before = 0
    for number in sorted(shown & set(range(1, len(text) + 1))):
        if before and number > before + 1:
            rows.append('<tr><td>...</td><td></td><td colspan="5"></td></tr>')
        before = number
        facts = lines.get(number, LineFacts())
        busy = ' class="busy"' if total and facts.instructions > _BUSY * total else ""
        conflicts = facts.wavefronts - facts.minimum
        counts = (facts.instructions, facts.wavefronts, conflicts, facts.bytes, facts.sectors)
        cells = "".join(
            f'<td class="number">{count:,}</td>' if count else "<td></td>" for count in counts
        )
        rows.append(
            f'<tr{busy}><td class="number">{number}</td><td>{escape(text[number - 1])}</td>'
            f"{cells}</tr>"
        )
        rows += [
            f'<tr class="remark"><td></td><td colspan="6">{escape(remark)}</td></tr>'
            for remark in facts.remarks
        ]
    return f'<div class="wide"><table class="program">{"".join(rows)}</table></div>'


def _choices(facts: Facts) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td><code>{escape(choice.value)}</code></td>"
        f"<td>{escape(choice.decided)}</td><td>{escape(choice.said)}</td></tr>"
        for name, choice in facts.choices.items()
    )
    heads = "".join(f"<th>{head}</th>" for head in ("field", "value", "decided", "what it is"))
    table = f"<table><tr>{heads}</tr>{rows}</table>"
    return f'<h3>Schedule</h3><div class="wide">{table}</div>'


def _resources(facts: Facts) -> str:
    rows = ""
    for each in facts.resources:
        over = ' class="number over"' if each.taken > each.limit else ' class="number"'
        rows += (
            f"<tr><td>{escape(each.name)}</td><td{over}>{each.taken:,}</td>"
            f'<td class="number">of {each.limit:,}</td><td>{escape(each.said)}</td></tr>'
        )
    return f'<h3>Resources</h3><div class="wide"><table>{rows}</table></div>'


def _loops(facts: Facts) -> str:
    if not facts.hot:
        return ""
    parts = ["<h3>The loop that runs most</h3>", _ptx(facts.hot)]
    if facts.machine:
        parts.append(_machine(facts.machine))
    return "\n".join(parts)


def _ptx(lines: Sequence[HotLine]) -> str:
    rows = "".join(
        f'<tr><td class="number">{line.count or ""}</td><td>{escape(_shortened(line.text))}</td>'
        f"<td>{escape(Path(line.location).name)}</td></tr>"
        for line in lines[:_MOST]
    )
    head = f"PTX, {len(lines)} lines: executions by warps, text, Python"
    table = f'<table class="program">{rows}</table>'
    return f'<details open><summary>{head}</summary><pre class="wide">{table}</pre></details>'


def _machine(code: Sequence[Instruction]) -> str:
    rows = "".join(
        f"<tr><td>{escape(each.label)}</td><td>{escape(each.text)}</td>"
        f"<td>{escape(Path(each.location).name)}</td></tr>"
        for each in code[:_MOST]
    )
    head = f"Machine code, {len(code)} instructions: text, Python"
    table = f'<table class="program">{rows}</table>'
    return f'<details open><summary>{head}</summary><pre class="wide">{table}</pre></details>'


def _shortened(text: str) -> str:
    """A line of PTX without the middle of a long list of registers."""
    return re.sub(r"\{((?:%\w+, ){3})(?:%\w+, ){5,}(%\w+)\}", r"{\1..., \2}", text)


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"

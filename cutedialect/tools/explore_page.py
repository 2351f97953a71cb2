"""The explorer's page: an editor beside panels of stages, PTX, layouts, remarks, the run and the
timeline. It loads nothing, and asks its own server alone.
"""

from __future__ import annotations

import json
from html import escape
from typing import get_args

from cutedialect.choices import Arch

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --mark: #e69f0055;
  --plus: #009e7333; --minus: #d55e0033; --bad: #c2410c; }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0; display: grid; min-height: 100vh;
  grid-template: auto 1fr / minmax(20rem, 2fr) 3fr; }
header { grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: .6rem; align-items: center;
  padding: .4rem .8rem; border-bottom: 1px solid var(--line); }
header b { margin-right: auto; }
main, aside { min-width: 0; padding: .5rem .8rem; }
aside { border-right: 1px solid var(--line); }
pre, textarea, .code { font: 13px/1.4 ui-monospace, monospace; margin: 0; white-space: pre;
  tab-size: 4; }
#editor { display: grid; grid-template-columns: auto 1fr; height: 70vh; overflow: auto;
  border: 1px solid var(--line); }
#numbers { text-align: right; padding: 0 .5rem; background: var(--soft); user-select: none;
  height: max-content; }
#source { border: 0; outline: 0; resize: none; overflow: hidden; padding: 0 .4rem;
  background: none; color: inherit; min-width: 100%; }
.mark { background: var(--mark); }
.has { color: var(--bad); font-weight: bold; }
.plus { background: var(--plus); } .minus { background: var(--minus); }
.scroll { overflow: auto; max-height: 75vh; border: 1px solid var(--line); }
.scroll div { padding: 0 .4rem; min-height: 1.4em; min-width: max-content; }
nav button[aria-selected=true] { font-weight: bold; border-bottom: 3px solid #0072b2; }
nav { margin-bottom: .5rem; }
#error { color: var(--bad); overflow-x: auto; }
svg { max-width: 100%; height: auto; background: #fff; color: #000; }
@media (max-width: 50rem) { body { grid-template: auto / 1fr; } aside { border: 0; } }
"""

_SCRIPT = """
const config = JSON.parse(document.getElementById('config').textContent);
const at = id => document.getElementById(id);
const source = at('source'), panels = ['stages', 'ptx', 'layouts', 'remarks', 'run', 'timeline'];
// What the last run gave, and the last one that has stages.
let kind = config.kind, timer = 0, asked = 0, shown = {}, staged = {stages: []};

function node(tag, text, name) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}
function select(panel) {
  for (const name of panels) {
    at(name).hidden = name !== panel;
    at('tab-' + name).setAttribute('aria-selected', String(name === panel));
  }
}
function number() {
  const lines = source.value.split('\\n'), count = lines.length, marked = new Map();
  for (const remark of shown.remarks || []) if (remark.line)
    marked.set(remark.line, (marked.get(remark.line) || '') + remark.message + '\\n');
  const error = shown.error;
  if (error && error.line) marked.set(error.line, error.message);
  at('numbers').replaceChildren(...Array.from({length: count}, (_, i) => {
    const line = node('div', String(i + 1), marked.has(i + 1) ? 'has' : '');
    if (marked.has(i + 1)) line.title = marked.get(i + 1);
    line.dataset.line = i + 1;
    return line;
  }));
  source.style.height = count * 1.4 + 1 + 'em';
  source.style.width = Math.max(...lines.map(line => line.length)) + 4 + 'ch';
  source.rows = count;
}
function light(line) {
  for (const one of document.querySelectorAll('[data-line]'))
    one.classList.toggle('mark', line !== 0 && Number(one.dataset.line) === line);
}
function stage() {
  const found = staged.stages[at('stage').selectedIndex];
  const only = at('only').checked;
  at('lines').replaceChildren(...(found ? found.lines : [])
    .filter(([mark]) => !only || mark !== ' ')
    .map(([mark, text]) => node('div', mark + ' ' + text,
      mark === '+' ? 'plus' : mark === '-' ? 'minus' : '')));
}
function show(result) {
  const before = at('stage').value;
  shown = result;
  const error = result.error;
  at('state').textContent = result.stopped ? 'stopped' : error ? 'error' :
    result.kernel + ' for ' + result.target;
  at('time').textContent = result.seconds === undefined ? '' : result.seconds + ' s';
  at('error').textContent = result.stopped || (error ?
    (error.line ? 'line ' + error.line + ': ' : '') + error.message + '\\n' + error.caret : '');
  at('printed').textContent = result.printed || '';
  number();
  if (result.stages && result.stages.length) {
    staged = result;
    at('stage').replaceChildren(...result.stages.map(one => node('option', one.name)));
    if (result.stages.some(one => one.name === before)) at('stage').value = before;
    stage();
  }
  if (!result.ptx) return;
  at('chosen').textContent = result.schedule;
  at('code').replaceChildren(...result.ptx.map(one => {
    const line = node('div', one.text);
    if (one.line) line.dataset.line = one.line;
    return line;
  }));
  at('pictures').replaceChildren(...result.layouts.map(one => {
    const figure = node('figure', '');
    figure.append(node('figcaption', one.title));
    figure.insertAdjacentHTML('beforeend', one.svg);
    return figure;
  }));
  at('said').replaceChildren(...result.remarks.map(one => {
    const line = node('li', (one.line ? 'line ' + one.line + ': ' : '')
      + (one.pass ? '[' + one.pass + '] ' : '') + one.message);
    if (one.line) line.dataset.line = one.line;
    return line;
  }));
  if (!result.remarks.length) at('said').replaceChildren(node('li', 'no pass declined anything'));
  at('arguments').textContent = result.arguments;
  at('report').textContent = result.report;
  at('picture').innerHTML = result.timeline;
  at('roles').textContent = result.roles;
}
async function run() {
  const mine = ++asked;
  at('state').textContent = 'running';
  try {
    const answer = await fetch('/run', {method: 'POST',
      headers: {'Content-Type': 'application/json', 'X-Explore-Token': config.token},
      body: JSON.stringify({source: source.value, kind, target: at('target').value,
        schedule: at('schedule').value})});
    const result = answer.ok ? await answer.json() : {stopped: await answer.text()};
    if (mine === asked) show(result);
  } catch (failure) {
    if (mine === asked) show({stopped: 'the server does not answer: ' + failure.message});
  }
}
function later() { number(); clearTimeout(timer); timer = setTimeout(run, 400); }
function hover(event) {
  const line = event.target.closest('[data-line]');
  light(line ? Number(line.dataset.line) : 0);
}
function edit(text, as) { kind = as; source.value = text; at('kind').textContent = as; later(); }

for (const name of panels) at('tab-' + name).onclick = () => select(name);
for (const name of ['code', 'said', 'numbers']) at(name).addEventListener('mouseover', hover);
source.addEventListener('input', later);
source.addEventListener('click', () =>
  light(source.value.slice(0, source.selectionStart).split('\\n').length));
source.addEventListener('keydown', event => {
  if (event.key === 'Tab') { event.preventDefault(); source.setRangeText('    ',
    source.selectionStart, source.selectionEnd, 'end'); later(); }
});
at('target').onchange = at('schedule').onchange = run;
at('stage').onchange = at('only').onchange = stage;
at('as-ir').onclick = () => {
  const found = staged.stages[at('stage').selectedIndex];
  if (found) edit(found.lines.filter(([mark]) => mark !== '-').map(([, text]) => text).join('\\n'),
    'ir');
};
at('again').onclick = () => edit(config.source, config.kind);
select('stages');
edit(config.source, config.kind);
"""


def page(name: str, source: str, token: str, nonce: str) -> str:
    """The page on a file; scripts that it runs have the `nonce`, its requests the `token`."""
    kind = "ir" if name.endswith(".mlir") else "python"
    config = json.dumps({"source": source, "kind": kind, "token": token}).replace("<", "\\u003c")
    targets = "".join(f"<option>{arch}</option>" for arch in get_args(Arch))
    tabs = "".join(
        f'<button id="tab-{panel}" role="tab">{title}</button>'
        for panel, title in (
            ("stages", "Stages"),
            ("ptx", "PTX"),
            ("layouts", "Layouts"),
            ("remarks", "Remarks"),
            ("run", "Run"),
            ("timeline", "Timeline"),
        )
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(name)} - cutedialect</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<b>{escape(name)} (<span id="kind"></span>)</b>
<label>target
<select id="target"><option value="">as the program says</option>{targets}</select></label>
<label>schedule
<input id="schedule" size="30" placeholder="tile = (64,64,32), stages = 3"></label>
<button id="again">the file as it is</button>
<span id="state" role="status"></span> <span id="time"></span>
</header>
<aside>
<div id="editor"><pre id="numbers"></pre>
<textarea id="source" spellcheck="false" aria-label="program" wrap="off"></textarea></div>
<pre id="error" role="alert"></pre>
<pre id="printed"></pre>
</aside>
<main>
<nav role="tablist">{tabs}</nav>
<section id="stages"><p><select id="stage" aria-label="stage"></select>
<label><input type="checkbox" id="only"> what changed alone</label>
<button id="as-ir">edit as IR</button></p><div id="lines" class="scroll code"></div></section>
<section id="ptx"><p>schedule: <code id="chosen"></code></p>
<div id="code" class="scroll code"></div></section>
<section id="layouts"><div id="pictures"></div></section>
<section id="remarks"><ul id="said"></ul></section>
<section id="run"><p>arguments: <code id="arguments"></code></p>
<pre id="report" class="scroll"></pre></section>
<section id="timeline"><div id="picture"></div><pre id="roles" class="scroll"></pre></section>
</main>
<script type="application/json" id="config" nonce="{nonce}">{config}</script>
<script nonce="{nonce}">{_SCRIPT}</script>
</body>
</html>
"""

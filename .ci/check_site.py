"""Checks the built site: `python .ci/check_site.py build/site`. Every link, anchor and picture
leads somewhere, nothing is fetched from elsewhere, and, where a Chromium is installed, every page
fits the width of a phone, and the search finds a word without a network. Exits with 1 when
something is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Width of a phone in CSS pixels.
PHONE = 390
# A word that the search has to find, and the page of the reference that has it.
WORD, PLACE = "producer_acquire", "reference/dialects/pipeline.html"
# Beside other work a browser takes more than two minutes for sixty pages.
_BROWSER_SECONDS = 300


class Page(HTMLParser):
    """The links, the pictures and the anchors of a page, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("img", "script") and "src" in found:
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(found["href"])


def faults(site: Path) -> list[str]:
    """What is wrong with the links of a site."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong: list[str] = []
    for path, page in pages.items():
        if path.name == "404.html":  # whose links are those of the server's root
            continue
        for link in [*page.links, *page.loads]:
            if re.match(r"[a-z]+:|//", link):
                if link in page.loads:
                    wrong.append(f"{path.relative_to(site)}: loads {link} from elsewhere")
                continue
            place, anchor = urldefrag(link)
            target = Path(os.path.normpath(path.parent / unquote(place))) if place else path
            if not target.exists():
                wrong.append(f"{path.relative_to(site)}: {link} leads nowhere")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                wrong.append(f"{path.relative_to(site)}: {link} has no such anchor")
    if not pages:
        wrong.append(f"{site}: expected pages, got none")
    return wrong


def browser() -> str | None:
    """A Chromium that is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def seen(command: str, site: Path) -> list[str]:
    """What a browser finds wrong: pages wider than a phone, and a search without a result."""
    names = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    names.remove("404.html")
    probe = _PROBE.replace("NAMES", json.dumps(names)).replace("PHONE", str(PHONE))
    with _served(site) as address:
        (site / "probe.html").write_text(probe, encoding="utf-8")
        try:
            text = dumped(command, f"{address}/probe.html")
        finally:
            (site / "probe.html").unlink()
    told = re.search(r'<pre id="told">(.*?)</pre>', text, re.DOTALL)
    if told is None or not told[1]:
        return [f"expected the browser to look at {len(names)} pages, got {text[:500]!r}"]
    wrong = json.loads(html.unescape(told[1]))
    # As it is read from disk, without a server.
    address = f"{(site / 'index.html').resolve().as_uri()}?q={WORD}"
    results = re.findall(
        r'<a href="([^"#?]*)[^"]*" class="md-search-result__link', dumped(command, address)
    )
    if not any(result.endswith(PLACE) for result in results):
        wrong.append(f"search: expected {PLACE} for {WORD}, got {results}")
    return wrong


def dumped(command: str, address: str) -> str:
    """A page after its scripts have run."""
    with tempfile.TemporaryDirectory() as profile:
        flags = ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}")
        done = subprocess.run(
            [command, *flags, "--virtual-time-budget=60000", "--dump-dom", address],
            capture_output=True,
            text=True,
            timeout=_BROWSER_SECONDS,
            check=False,
        )
    return done.stdout


@contextlib.contextmanager
def _served(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


# Loads each page in a frame of a phone's width, then one in light and dark.
_PROBE = """<!doctype html><meta charset="utf-8"><body><pre id="told"></pre><script>
const names = NAMES, told = [];
const wait = ms => new Promise(done => setTimeout(done, ms));
async function open(name) {
  const frame = document.createElement("iframe");
  frame.style.cssText = "width:PHONEpx;height:800px;border:0";
  document.body.append(frame);
  await new Promise(done => { frame.onload = done; frame.src = name; });
  return frame;
}
async function look() {
  for (const name of names) {
    const frame = await open(name);
    const page = frame.contentDocument;
    await wait(50);
    const wide = page.documentElement.scrollWidth;
    if (wide > PHONE) told.push(`${name}: ${wide} pixels wide on a phone of PHONE`);
    frame.remove();
  }
  const frame = await open("index.html");
  const page = frame.contentDocument;
  const colors = new Set();
  for (const scheme of ["default", "slate"]) {
    page.body.setAttribute("data-md-color-scheme", scheme);
    await wait(500);
    colors.add(frame.contentWindow.getComputedStyle(page.body).backgroundColor);
  }
  if (colors.size != 2) told.push("index.html: light and dark have one background");
  document.getElementById("told").textContent = JSON.stringify(told);
}
look().catch(error => {
  document.getElementById("told").textContent = JSON.stringify([String(error)]);
});
</script>
"""


def main(arguments: list[str]) -> int:
    """Check a site; returns the exit code."""
    site = Path(arguments[0])
    wrong = faults(site)
    command = browser()
    if command is None:
        print("no chromium is installed: widths and search are not looked at")
    elif not wrong:
        wrong += seen(command, site)
    print("\n".join(wrong) or f"{len(list(site.rglob('*.html')))} pages are right")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

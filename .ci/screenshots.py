"""Screenshots of the site, held against those of before: `python .ci/screenshots.py build/site`,
and with `--update` taken anew. Of each picture the mean brightness of a grid of cells is kept
(`screenshots.json`), which other fonts hardly change, and a page without its style, its text or its
dark scheme does. Without a Chromium it says so. Exits with 1 where a page looks otherwise.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT = HERE / "screenshots.json"
PAGES = ("index.html", "gallery.html", "playground.html", "reference/schedule-fields.html")
# CSS pixels of a desktop and of a phone.
SIZES = {"desktop": (1280, 800), "phone": (390, 800)}
SCHEMES = ("light", "dark")
COLUMNS, ROWS = 8, 10
# Brightness from 0 to 1: how far cells may be from those kept, on average, and how far the mean of
# a light page is above that of the dark one.
_MOST_APART, _LEAST_CONTRAST = 0.06, 0.4
# A picture is taken smaller, since it is decoded here.
_SCALE = 0.25

Grid = list[list[float]]


def load(name: str) -> Any:
    """A file beside this one."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def brightness(png: bytes) -> list[list[float]]:
    """The rows of a picture of 8 bits a channel, each pixel from 0 (black) to 1."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, width, height, channels = 8, b"", 0, 0, 0
    while at < len(png):
        (size,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        part = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, bits, color, _, _, interlaced = struct.unpack(">IIBBBBB", part)
            channels = {0: 1, 2: 3, 6: 4}[color]
            assert (bits, interlaced) == (8, 0)
        data += part if kind == b"IDAT" else b""
        at += size + 12
    raw, step = zlib.decompress(data), channels * width
    rows: list[list[float]] = []
    before = bytes(step)
    for number in range(height):
        start = number * (step + 1)
        before = _unfiltered(raw[start], raw[start + 1 : start + 1 + step], before, channels)
        colors = min(channels, 3)
        rows.append(
            [sum(before[x : x + colors]) / (255 * colors) for x in range(0, step, channels)]
        )
    return rows


def _unfiltered(kind: int, line: bytes, before: bytes, channels: int) -> bytes:
    """A line of a PNG without its filter (PNG specification, 9)."""
    made = bytearray(line)
    for x in range(len(made)):
        left = made[x - channels] if x >= channels else 0
        corner = before[x - channels] if x >= channels else 0
        made[x] = (made[x] + _predicted(kind, left, before[x], corner)) & 255
    return bytes(made)


def _predicted(kind: int, left: int, above: int, corner: int) -> int:
    if kind < 4:
        return (0, left, above, (left + above) // 2)[kind]
    apart = [(abs(left + above - corner - one), one) for one in (left, above, corner)]
    return min(apart, key=lambda pair: pair[0])[1]


def grid(rows: list[list[float]]) -> Grid:
    """The mean brightness of cells."""
    height, width = len(rows), len(rows[0])
    cells: Grid = []
    for row in range(ROWS):
        lines = rows[row * height // ROWS : (row + 1) * height // ROWS]
        cells.append([])
        for column in range(COLUMNS):
            first, end = column * width // COLUMNS, (column + 1) * width // COLUMNS
            values = [value for line in lines for value in line[first:end]]
            cells[-1].append(round(sum(values) / len(values), 3))
    return cells


def mean(cells: Grid) -> float:
    """The brightness of all of a picture."""
    return sum(map(sum, cells)) / (len(cells) * len(cells[0]))


def taken(site: Path, folder: Path) -> dict[str, Grid]:
    """The grids of all pages, by page, size and scheme."""
    found: dict[str, Grid] = {}
    page = load("browser").Browser(folder)
    page.call("Page.enable")
    try:
        for size, (width, height) in SIZES.items():
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
            page.call("Emulation.setDeviceMetricsOverride", mobile=size == "phone", **metrics)
            for scheme in SCHEMES:
                media = [{"name": "prefers-color-scheme", "value": scheme}]
                page.call("Emulation.setEmulatedMedia", features=media)
                for name in PAGES:
                    # The site remembers the scheme that it had; the second time it asks anew.
                    for query in ("?first", "?second"):
                        page.call("Page.navigate", url=(site / name).resolve().as_uri() + query)
                        page.wait(f"location.search === '{query}'")
                        page.wait("document.readyState === 'complete'")
                        page.value("localStorage.clear()")
                    page.wait("document.fonts.status === 'loaded'")
                    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": _SCALE}
                    shot = page.call("Page.captureScreenshot", format="png", clip=clip)["data"]
                    cells = grid(brightness(base64.b64decode(shot)))
                    found[f"{name} {size} {scheme}"] = cells
    finally:
        page.close()
    return found


def differences(found: dict[str, Grid], kept: dict[str, Grid]) -> list[str]:
    """What looks otherwise."""
    wrong: list[str] = []
    for name, cells in found.items():
        if name not in kept:
            wrong.append(f"{name}: expected a screenshot to compare with; take them by --update")
            continue
        lines = zip(cells, kept[name], strict=True)
        pairs = (pair for line in lines for pair in zip(*line, strict=True))
        apart = sum(abs(one - other) for one, other in pairs) / (COLUMNS * ROWS)
        if apart > _MOST_APART:
            wrong.append(f"{name}: looks otherwise than before, by {apart:.2f} of brightness")
        if name.endswith(" dark"):
            contrast = mean(found[name.replace(" dark", " light")]) - mean(cells)
            if contrast < _LEAST_CONTRAST:
                wrong.append(f"{name}: expected a dark page, got one {contrast:.2f} darker")
    return wrong


def main(arguments: list[str]) -> int:
    """Compare, or take the pictures anew; returns the exit code."""
    if load("browser").CHROMIUM is None:
        print("no chromium is installed: no screenshots are compared")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = taken(Path(arguments[0]), Path(folder))
    if "--update" in arguments:
        rows = [f" {json.dumps(name)}: {json.dumps(cells)}" for name, cells in found.items()]
        KEPT.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        return 0
    wrong = differences(found, json.loads(KEPT.read_text(encoding="utf-8")))
    print("\n".join(wrong) or f"{len(found)} screenshots are as before")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

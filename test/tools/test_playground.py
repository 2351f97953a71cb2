"""The site's page in WebAssembly: what it runs, under the limits of a browser; in Pyodide, where
npm installed it into build/ (`npm install --prefix build pyodide`), and in a headless Chromium.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutedialect.tools.playground import ABSENT, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "playground.md").read_text()
EXAMPLES = json.loads(re.findall(r'-examples">\n(.*?)\n</script>', PAGE, re.DOTALL)[0])
PYODIDE = ROOT / "build" / "node_modules" / "pyodide"


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tools = load(ROOT / ".ci" / "browser.py")


def found(kind: str, text: str, words: str = "") -> dict[str, Any]:
    return json.loads(run(kind, text, words))


def check_examples(answers: dict[str, dict[str, Any]]) -> None:
    """What the examples of the page say."""
    assert not [answer["error"] for answer in answers.values() if answer["error"]]
    assert all(answers[name]["svg"].startswith("<svg") for name in EXAMPLES["program"])
    swizzled = answers["a swizzle without bank conflicts"]["text"].splitlines()
    assert [line.partition("Wavefronts")[2] for line in swizzled[:2]] == [
        "(wavefronts=8, minimum=1)",
        "(wavefronts=1, minimum=1)",
    ]
    assert 'cute.static : !cute.int_tuple<"64">' in answers["fold what types say"]["text"]
    assert "convert-to-ptx" in answers["the passes"]["text"]


def test_programs_and_their_errors() -> None:
    assert found("program", "print(size(Layout.parse('4:1')))")["text"] == "4\n"
    assert found("program", "x = (\n1")["error"] == "line 1: '(' was never closed"
    wrong = found("program", "print('before')\nLayout.parse('4:')")
    assert wrong["text"] == "before\n"
    assert wrong["error"].startswith("line 2: LayoutSyntaxError: ")
    assert found("program", "import sys\nsys.exit(2)")["error"] == "exit code 2"


def test_cute_opt_and_its_errors() -> None:
    wrong = found("cute-opt", "%x = foo.bar", "")
    assert wrong["error"] == "exit code 1"
    assert wrong["text"].startswith("playground.mlir:1:1: error: unknown dialect 'foo'")
    assert found("cute-opt", "", "-p 'a")["error"] == "options: No closing quotation"
    said = found("cute-opt", "builtin.module {}")
    assert said["text"] == "builtin.module {\n}\n"
    assert [line.partition(":")[0] for line in said["absent"]] == [what for what, _ in ABSENT]


# No site-packages, no NumPy, no processes and no threads: what a browser has.
LIMITED = """
import json, sys, threading
sys.path.insert(0, sys.argv[1])
for name in ("numpy", "ml_dtypes", "subprocess", "multiprocessing", "_posixsubprocess"):
    sys.modules[name] = None
def refused(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refused
from cutedialect.tools.playground import run
asked = json.load(sys.stdin)
json.dump({name: json.loads(run(*given)) for name, given in asked.items()}, sys.stdout)
"""


def asked() -> dict[str, tuple[str, ...]]:
    programs = {name: ("program", text) for name, text in EXAMPLES["program"].items()}
    return programs | {name: ("cute-opt", *given) for name, given in EXAMPLES["cute-opt"].items()}


@pytest.fixture(scope="module")
def packages() -> bytes:
    return load(ROOT / "docs" / "playground_archive.py").archive()


def test_the_examples_run_with_what_the_page_unpacks(packages: bytes, tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(packages)).extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LIMITED, str(tmp_path)],
        input=json.dumps(asked()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check_examples(json.loads(done.stdout))
    assert len(packages) < 5_000_000


NODE = """
import fs from "fs";
const { loadPyodide } = await import(process.argv[2] + "/pyodide.mjs");
const python = await loadPyodide();
const packed = new Uint8Array(fs.readFileSync(process.argv[3])).buffer;
python.unpackArchive(packed, "zip", { extractDir: "/packages" });
python.runPython("import sys; sys.path.insert(0, '/packages')");
const run = python.runPython("from cutedialect.tools.playground import run; run");
const told = {};
for (const [name, given] of Object.entries(JSON.parse(fs.readFileSync(0))))
  told[name] = JSON.parse(run(...given));
console.log(JSON.stringify(told));
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(not PYODIDE.is_dir(), reason="build/node_modules has no pyodide")
def test_the_examples_run_in_pyodide(packages: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.mjs").write_text(NODE)
    (tmp_path / "packages.zip").write_bytes(packages)
    done = subprocess.run(
        ["node", str(tmp_path / "run.mjs"), str(PYODIDE), str(tmp_path / "packages.zip")],
        input=json.dumps(asked()),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    check_examples(json.loads(done.stdout))


@pytest.fixture(scope="module")
def page(packages: bytes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page in a browser, with Pyodide from this machine, or with none."""
    folder = tmp_path_factory.mktemp("playground")
    body = PAGE[PAGE.index('<div id="playground"') : PAGE.rindex("</script>") + 9]
    body = re.sub('data-pyodide="[^"]*"', 'data-pyodide="pyodide/"', body)
    body = body.replace('data-seconds="20"', 'data-seconds="10"')
    (folder / "index.html").write_text(f"<!doctype html><meta charset=utf-8>{body}")
    (folder / "playground.zip").write_bytes(packages)
    for name in ("playground.js", "playground-worker.js"):
        shutil.copy(ROOT / "docs" / name, folder)
    if PYODIDE.is_dir():
        (folder / "pyodide").symlink_to(PYODIDE)
    asked_for: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *given: Any) -> None:
            del format
            asked_for.append(self.path)

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        browser = tools.Browser(folder / "profile")
        browser.asked_for = asked_for
        browser.call("Page.enable")
        browser.call("Page.navigate", url=f"http://127.0.0.1:{server.server_address[1]}/")
        browser.wait("document.readyState === 'complete' && !!document.getElementById('load')")
        yield browser
        browser.close()
        server.shutdown()
        thread.join()


def text(page: Any, name: str) -> str:
    return page.value(f"document.getElementById('{name}').textContent")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(tools.CHROMIUM is None, reason="no Chromium is installed")
def test_the_page_loads_python_at_a_click(page: Any) -> None:
    assert not [path for path in page.asked_for if "pyodide" in path or path.endswith(".zip")]
    assert page.value("document.getElementById('run-program').disabled")
    page.value("document.getElementById('load').click()")
    page.wait("!/loading/.test(document.getElementById('state').textContent)")
    if not PYODIDE.is_dir():
        assert text(page, "state").startswith("could not be loaded: ")
        assert not page.value("document.getElementById('load').disabled")
        return
    assert text(page, "state").startswith("Python 3.")
    page.value("document.getElementById('run-program').click()")
    page.wait("document.querySelector('#program-picture img')?.naturalWidth > 0")
    assert text(page, "program-text").startswith("tiles of 2 x 4: ")
    page.value("document.getElementById('run-cute-opt').click()")
    page.wait("/cute.static/.test(document.getElementById('cute-opt-text').textContent)")
    page.value("document.getElementById('program').value = 'while True: pass'")
    page.value("document.getElementById('run-program').click()")
    page.wait("/stopped/.test(document.getElementById('program-text').textContent)")
    assert not page.value("document.getElementById('load').disabled")

"""`python -m cutedialect explore`: what the server gives to its page, and to nobody else; what a
run shows, and how one that does not end is stopped.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cutedialect.__main__ import main
from cutedialect.tools.explore_runs import Runs
from cutedialect.tools.explore_server import ExploreServer

PROGRAM = (Path(__file__).parent / "explored_kernel.py").read_text()


class Client:
    """Asks the server as its page does, or as somebody else would."""

    def __init__(self, server: ExploreServer) -> None:
        self.server = server

    def ask(self, method: str, path: str, body: str = "", **headers: str):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port)
        given = {"Content-Type": "application/json", "X-Explore-Token": self.server.token}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers

    def run(self, source: str, kind: str = "python", target: str = "", schedule: str = ""):
        asked = {"source": source, "kind": kind, "target": target, "schedule": schedule}
        status, text, _ = self.ask("POST", "/run", json.dumps(asked))
        assert status == 200
        return json.loads(text)


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    file = tmp_path_factory.mktemp("explored") / "kernel.py"
    file.write_text(PROGRAM)
    runs = Runs(file, 240)
    with ExploreServer(0, file.name, PROGRAM, runs.run) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Client(server)
        server.shutdown()
        thread.join()
    runs.close()


@pytest.fixture(scope="module")
def shown(explorer):
    return explorer.run(PROGRAM, target="sm_89", schedule="stages = 2")


def test_the_page_loads_nothing_and_has_the_program(explorer):
    status, text, headers = explorer.ask("GET", f"/?token={explorer.server.token}")
    assert status == 200
    assert "http" not in text.replace("http.server", "")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'nonce-")
    assert policy.split("'nonce-")[1].split("'")[0] in text
    config = text.split('id="config"')[1].split(">", 1)[1].split("</script>")[0]
    assert json.loads(config)["source"] == PROGRAM


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "said"),
    [
        ("GET", "/", {}, 403, "token"),
        ("GET", "/?token=guessed", {}, 403, "token"),
        ("GET", "/?token={token}", {"Host": "evil.example"}, 403, "expected the host 127.0.0.1"),
        ("GET", "/?token={token}", {"Host": "127.0.0.1"}, 403, "expected the host 127.0.0.1"),
        ("GET", "/kernel.py?token={token}", {}, 404, "expected /, got /kernel.py"),
        ("POST", "/run", {"X_Explore_Token": ""}, 403, "token"),
        ("POST", "/run", {"Origin": "http://evil.example"}, 403, "a request of the page"),
        ("POST", "/run", {"Origin": "null"}, 403, "a request of the page"),
        ("POST", "/run?token={token}", {"X_Explore_Token": ""}, 403, "token"),
        ("POST", "/", {}, 404, "expected /run"),
        ("POST", "/run", {"Content_Type": "text/plain"}, 415, "application/json"),
        ("POST", "/run", {"Content_Length": "1048577"}, 413, "at most 1048576 bytes"),
        ("POST", "/run", {}, 400, "expected an object"),
        ("PUT", "/run", {}, 501, ""),
    ],
)  # fmt: skip
def test_others_are_refused(explorer, method, path, headers, status, said):
    path = path.format(token=explorer.server.token)
    got, text, _ = explorer.ask(method, path, "{}" if method == "POST" else "", **headers)
    assert (got, said in text) == (status, True)


def test_the_server_listens_on_loopback_alone(explorer):
    assert explorer.server.server_address[0] == "127.0.0.1"
    assert len(explorer.server.token) >= 32


def test_stages_and_what_changed_in_each(shown):
    names = [stage["name"] for stage in shown["stages"]]
    assert names[0] == "trace"
    assert names[-1] == "convert-to-ptx"
    lines = {stage["name"]: stage["lines"] for stage in shown["stages"]}
    assert {mark for mark, _ in lines["trace"]} == {" "}
    assert any(mark == "-" and "cute.tile_index" in text for mark, text in lines["cute-tile"])
    assert any(mark == "+" and "cp_async" in text for mark, text in lines["cute-synchronize"])


def test_ptx_knows_its_lines_of_python(shown):
    multiply = PROGRAM.split("\n").index("        cute.gemm(a[k], b[k], acc)") + 1
    lines = {one["line"] for one in shown["ptx"] if "mma.sync" in one["text"]}
    assert lines == {multiply}


def test_a_run_with_its_layouts_report_and_timeline(shown):
    assert (shown["kernel"], shown["target"]) == ("product", "sm_89")
    assert "stages = 2" in shown["schedule"]
    assert shown["printed"] == "sum 32768\n"
    assert shown["arguments"] == "32x32, 32x32, 32x32"
    assert "warp instructions" in shown["report"]
    assert shown["timeline"].startswith("<svg")
    assert "warp" in shown["roles"]
    titles = [picture["title"] for picture in shown["layouts"]]
    assert any(title.startswith("registers (32,32): ") for title in titles)
    assert any(title.startswith("shared memory, 16 bits: S<") for title in titles)
    assert all(picture["svg"].startswith("<svg") for picture in shown["layouts"])
    assert isinstance(shown["remarks"], list)


def test_mistakes_have_their_line_and_a_caret(explorer):
    error = explorer.run(PROGRAM.replace("acc.to(C.dtype)", "acc.to(7)"))["error"]
    line = PROGRAM.split("\n").index(
        "    cute.copy(acc.to(C.dtype), cute.local_tile(C, (32, 32), (m, n)))"
    )
    assert error["line"] == line + 1
    assert error["message"].startswith("kernel.py:")
    shown_line, caret = error["caret"].split("\n")
    assert shown_line.startswith("    cute.copy(acc.to(7)")
    assert shown_line[caret.index("^") :].startswith(("acc.to(7)", "cute.copy"))
    error = explorer.run(PROGRAM.replace("(m, n)))", "(m n)))"))["error"]
    assert error["message"].startswith("SyntaxError")
    assert "^" in error["caret"]
    assert "launches a kernel" in explorer.run("print('nothing')")["error"]["message"]


def test_ir_is_lowered_and_refused_at_its_place(explorer, shown):
    text = "\n".join(line for mark, line in shown["stages"][0]["lines"] if mark != "-")
    found = explorer.run(text, "ir", "sm_89")
    names = [stage["name"] for stage in found["stages"]]
    assert {"cute-fuse", "cute-tile", "convert-to-ptx"} <= set(names)
    assert any(".target sm_89" in one["text"] for one in found["ptx"])
    wrong = explorer.run(text.replace("cute.tile_index", "cute.tile_indx"), "ir")["error"]
    assert "did you mean 'cute.tile_index'" in wrong["message"]
    assert wrong["caret"].split("\n")[0][wrong["column"] - 1 :].startswith("%")


def test_a_program_that_does_not_end_is_stopped(tmp_path):
    file = tmp_path / "kernel.py"
    runs = Runs(file, 0.5)
    found = runs.run("while True: pass", "python", "", "")
    assert "had not ended after 0.5 s, and was stopped" in found["stopped"]
    runs.seconds = 120
    answers = []
    first = threading.Thread(
        target=lambda: answers.append(runs.run("while True: pass", "python", "", ""))
    )
    first.start()
    while runs._running is None or not runs._running.is_alive():
        pass
    assert "error" in runs.run("1 / 0", "python", "", "")
    first.join()
    assert "a newer run took the place" in answers[0]["stopped"]
    found = runs.run("import os; os._exit(3)", "python", "", "")
    assert "ended with status 3" in found["stopped"]
    runs.close()
    assert not runs._folder.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.py"], "expected a file of .py or .mlir, got 'missing.py'"),
        ([__file__, "--seconds", "0"], "--seconds: expected a positive number"),
        ([__file__, "--port", "70000"], "--port: expected 0 to 65535"),
    ],
)
def test_wrong_arguments(arguments, said, capsys):
    assert main(["explore", *arguments]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_the_address_and_cleans_up(tmp_path, ending):
    file = tmp_path / "kernel.py"
    file.write_text(PROGRAM)
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "cutedialect", "explore", str(file)]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": root, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline().startswith("http://127.0.0.1:")
    assert list(tmp_path.glob("cutedialect-explore-*"))
    running.send_signal(ending)
    _, said = running.communicate(timeout=60)
    assert (running.returncode, "interrupted" in said) == (130, True)
    assert not list(tmp_path.glob("cutedialect-explore-*"))

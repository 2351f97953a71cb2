"""lit's configuration. Tests are .mlir files whose RUN lines call `cute-opt` and `filecheck`; both
run inside lit's worker, 50 times faster than as processes. `--param shell=1` starts real processes
instead, as a user's shell would.
"""

import os
import sys
import tempfile

import lit.formats

TEST_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, TEST_FOLDER)

from in_process_format import InProcessFormat

config.name = "cutedialect"
config.suffixes = [".mlir"]
config.excludes = ["Output"]
config.test_source_root = TEST_FOLDER
config.test_exec_root = os.path.join(tempfile.gettempdir(), f"cutedialect-lit-{os.getuid()}")
os.makedirs(config.test_exec_root, exist_ok=True)

use_shell = lit_config.params.get("shell", "0") not in ("", "0")
config.test_format = lit.formats.ShTest() if use_shell else InProcessFormat()

config.environment["PATH"] = os.pathsep.join(
    [os.path.dirname(sys.executable), config.environment.get("PATH", "")]
)
config.environment["PYTHONPATH"] = os.path.dirname(TEST_FOLDER)
config.substitutions += [
    (r"\bcute-opt\b", f"{sys.executable} -m cutedialect.tools.cute_opt"),
    (r"\bfilecheck\b", f"{sys.executable} -m filecheck"),
]

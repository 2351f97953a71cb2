"""The emulator at its first use, by several threads at one time."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = '''
import sys, threading
import numpy as np
from cutedialect.backend.emulator import launch
sys.setswitchinterval(1e-6)
TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.b32 [%rd2], %r0;
  ret;
}
"""
barrier, failures = threading.Barrier(8), []
def run():
    out = np.zeros(32, np.int32)
    barrier.wait()
    try:
        launch(TEXT, "k", 1, 32, [out])
        assert (out == np.arange(32)).all()
    except BaseException as error:
        failures.append(str(error))
threads = [threading.Thread(target=run) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit("\\n".join(failures) or 0)
'''


def test_every_thread_finds_every_instruction():
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

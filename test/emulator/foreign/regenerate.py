"""Compiles the CUDA C++ sources of this folder to the PTX text beside them, with the nvcc that is
on PATH. Run it only to add a kernel or to move to a newer nvcc: the tests read the committed PTX.

    python test/emulator/foreign/regenerate.py [name ...]
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
DEFAULT = "-arch=sm_80 -O2"

# Where another target or another optimiser level shows the emulator another kind of PTX. cicc is
# nvcc's device compiler: at -O0 every variable lives in local memory behind generic addresses.
FLAGS = {
    "bitonic_sort": "-arch=sm_75 -O1",
    "block_scan": "-arch=sm_80 -Xcicc -O0",
    "bytecode": "-arch=sm_80 -Xcicc -O0",
    "calls": "-arch=sm_80 -Xcicc -O1",
    "jump_table": "-arch=sm_75 -O2",
    "n_queens": "-arch=sm_90 -O2",
    "nbody": "-arch=sm_80 -fmad=false",
    "recursion": "-arch=sm_80 -O2 -Xcicc -O1",
    "sgemm": "-arch=sm_80 -O2 -lineinfo",
    "struct_params": "-arch=sm_80 -Xcicc -O0",
}


def main() -> int:
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.cu"))
    for name in names:
        flags = FLAGS.get(name, DEFAULT).split()
        command = ["nvcc", *flags, "-ptx", f"{name}.cu", "-o", f"{name}.ptx"]
        print(" ".join(command), flush=True)
        if status := subprocess.run(command, cwd=FOLDER).returncode:
            return status
        # -lineinfo writes where this checkout lies; the committed text must not.
        text = (FOLDER / f"{name}.ptx").read_text()
        (FOLDER / f"{name}.ptx").write_text(text.replace(f"{FOLDER}/", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())

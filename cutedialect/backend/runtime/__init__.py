"""From PTX text to a running kernel: assemble with ptxas, keep on disk, check arguments, launch on
a GPU through CuPy or in the emulator. Nothing here imports xDSL or CuPy at import time, so a kernel
found in the cache starts without either.
"""

"""Benchmarks. `budgets` needs no GPU; `gemm` and `attention` (the tables against cuBLAS and cuDNN),
`sweep` (schedules of a case against each other), `agreement` (the GPU against the emulator) and
`launch` (what a call costs) need one: `python -m benchmarks.gemm`.
"""

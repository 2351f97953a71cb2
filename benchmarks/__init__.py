"""Benchmarks. `budgets` needs no GPU; `gemm` (the table against cuBLAS), `sweep` (schedules of one
case against each other) and `launch` (what a call costs) need one: `python -m benchmarks.gemm`.
"""

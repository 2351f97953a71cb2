"""Benchmarks: `python -m benchmarks.budgets` needs no GPU, `python -m benchmarks.gemm` one."""

"""Benchmarks: `python -m benchmarks.budgets` without a GPU, `python -m benchmarks.gemm` with one."""

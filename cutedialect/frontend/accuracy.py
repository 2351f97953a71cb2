"""What the elementwise functions of the front end state of their errors, in f32."""

from __future__ import annotations

# What is smaller than a normal number (2^-126) may count as 0.
_ERRORS = {
    "exp": " Relative error up to 2^-22 + |x| 2^-23 (`ex2.approx`); `cute.exact.exp` has 1.5 ulp.",
    "exp2": " Relative error up to 2^-22 (`ex2.approx.ftz`).",
    "log": " Absolute error up to 2^-21.6 near 1, else relative (`lg2.approx`).",
    "log2": " Absolute error up to 2^-22 for x in 0.5..2, else relative (`lg2.approx`).",
    "sqrt": " Rounded to nearest (`sqrt.rn`).",
    "rsqrt": " Relative error up to 2^-22.9 (`rsqrt.approx`); `cute.exact.rsqrt` has 1.5 ulp.",
    "tanh": " Relative error up to 2^-11 (`tanh.approx`); `cute.exact.tanh` has 2 ulp.",
}


def documented(name: str) -> str:
    """The docstring of an elementwise function."""
    return (
        f"Elementwise {name}, or that of a scalar; 16-bit floats are computed and given in f32."
        f"{_ERRORS.get(name, '')}"
    )

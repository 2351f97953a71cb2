"""The front end: tile programs in Python, traced into IR.

`tile.py` and `scalar.py` are the objects a kernel works on, `functions.py` what it can call,
`loops.py` its control flow, `kernel.py` the decorator, `library/` the programs that ship.
"""

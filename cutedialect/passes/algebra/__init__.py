"""The layout algebra out of the IR: static values folded (`fold_static.py`), operations as
arithmetic on their run-time leaves (`expand_ops.py`, `arithmetic.py`), and values as structs
of them (`to_base.py`, `structs.py`). The order and the names are those
of NVIDIA's CuTe IR.
"""

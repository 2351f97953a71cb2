"""The kernels of two trees of this repository, side by side (`benchmarks.compare_trees`). A process
of each tree has that tree's package and benchmarks, and this folder of the tree that asks.
"""

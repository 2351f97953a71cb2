"""Tile programs that ship with the package, written in the language as a user would."""

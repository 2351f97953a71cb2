"""Coordinates of a part of a tile that count from the whole tile's first element."""

from __future__ import annotations

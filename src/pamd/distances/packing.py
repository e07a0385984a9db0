"""Packed triangles: the positions of their entries, and lookups and sums along rows and columns.

A d x d factor has d(d+1)/2 units, stored row by row. One unit is one row of memory.
"""

from __future__ import annotations

import functools
import itertools

import torch
from torch import Tensor

__all__ = ["Block", "cached_blocks", "columns_in_both_orders", "packed", "packed_size", "unpacked"]


def packed_size(d: int) -> int:
    """Return the number of entries in the lower triangle of a d x d matrix, including the diagonal."""
    return d * (d + 1) // 2


class Block:
    """Consecutive units of the layer: whole rows of the packed triangles. Triangle k has rows k d to k d + d - 1."""

    def __init__(self, row: Tensor, column: Tensor, start: int, device: torch.device) -> None:
        """Build the indices of units at positions row, column [u] in the triangles. `start` is the first unit's index.

        row and column are on the CPU, so that their values can be read. The resulting indices are on `device`.
        """

        def on_device(index: Tensor) -> Tensor:
            return index.to(device, non_blocking=True)

        self.units = slice(start, start + len(row))
        self.rows, within_rows, row_starts = _index_range(row)
        self.columns, within_columns, column_starts = _index_range(column)
        self._row, self._row_starts = on_device(within_rows), on_device(row_starts)
        self._column, self._column_starts = on_device(within_columns), on_device(column_starts)
        self._by_row, self._by_column = on_device(torch.arange(len(row))), on_device(torch.argsort(column, stable=True))
        self.diagonal = on_device((row == column).nonzero().squeeze(1))

    def at_rows(self, values: Tensor) -> Tensor:
        """Look up the value of each unit's row: [K d, N] -> [u, N]."""
        return values[self.rows].index_select(0, self._row)

    def at_columns(self, values: Tensor) -> Tensor:
        """Look up the value of each unit's column: [K d, N] -> [u, N]."""
        return values[self.columns].index_select(0, self._column)

    def row_sums(self, units: Tensor) -> Tensor:
        """Sum the units of each row: [u, N] -> [rows, N]."""
        return torch.embedding_bag(units, self._by_row, self._row_starts)[0]

    def column_sums(self, units: Tensor) -> Tensor:
        """Sum the units of each column: [u, N] -> [columns, N]."""
        return torch.embedding_bag(units, self._by_column, self._column_starts)[0]


def _index_range(index: Tensor) -> tuple[slice, Tensor, Tensor]:
    """Return the range of an index [u], the index within it, and the start of each value in sorted order."""
    first, last = int(index.min()), int(index.max())
    within = index - first
    counts = torch.bincount(within)
    return slice(first, last + 1), within, counts.cumsum(0) - counts


@functools.lru_cache(maxsize=8)
def cached_blocks(d: int, factors: int, units: int, device: torch.device) -> list[Block]:
    """Return blocks of at most `units` units. A block has at least one row."""
    row, column = torch.tril_indices(d, d)
    first = d * torch.arange(factors)[:, None]
    row, column = (row + first).flatten(), (column + first).flatten()
    starts, ends = [0], torch.arange(1, d + 1).repeat(factors).cumsum(0).tolist()
    for end, after in itertools.pairwise(ends):
        if after - starts[-1] > units:
            starts.append(end)
    sizes = [stop - start for start, stop in zip(starts, [*starts[1:], ends[-1]], strict=True)]
    return [Block(r, c, s, device) for r, c, s in zip(row.split(sizes), column.split(sizes), starts, strict=True)]


def columns_in_both_orders(rows: Tensor, pairs: int) -> Tensor:
    """Return the columns of both orders of the pairs `rows` [m] among all N = 2 P columns -> [2 m]."""
    return torch.cat([rows, rows + pairs])


def unpacked(units: Tensor, factors: int, d: int) -> Tensor:
    """Unpack factors: [K d(d+1)/2, n] -> [n, K, d, d], with 0 above the diagonal."""
    L = units.new_zeros(units.shape[1], factors * d * d)
    return L.index_copy_(1, _places(d, factors, units.device), units.T).view(len(L), factors, d, d)


def packed(L: Tensor) -> Tensor:
    """Pack factors: [n, K, d, d] -> [K d(d+1)/2, n]."""
    units: Tensor = L.flatten(1).index_select(1, _places(L.shape[-1], L.shape[1], L.device)).T
    return units


@functools.lru_cache(maxsize=8)
def _places(d: int, factors: int, device: torch.device) -> Tensor:
    """Return the flat positions of the packed entries in their matrices."""
    row, column = torch.tril_indices(d, d, device=device)
    places: Tensor = (row * d + column + d * d * torch.arange(factors, device=device)[:, None]).flatten()
    return places

"""Least squares without dependencies. Sums are exact, so that every version of Python gives the same result."""

import math


def solve(rows, values):
    """By the normal equations and Gauss-Jordan elimination with pivoting."""
    size = len(rows[0])
    table = [
        [math.fsum(row[i] * row[j] for row in rows) for j in range(size)]
        + [math.fsum(row[i] * v for row, v in zip(rows, values))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(table[r][i]))
        table[i], table[pivot] = table[pivot], table[i]
        if not table[i][i]:
            raise ValueError("the measurements do not tell the terms of the model apart")
        for r in range(size):
            if r != i:
                factor = table[r][i] / table[i][i]
                table[r] = [x - factor * y for x, y in zip(table[r], table[i])]
    return [table[i][size] / table[i][i] for i in range(size)]


def solve_from_zero_up(rows, values):
    """None below zero: a term that would be is left out, the worst first. All values count by their relative error."""
    kept = list(range(len(rows[0])))
    while kept:
        scaled = [[row[i] / v for i in kept] for row, v in zip(rows, values)]
        found = solve(scaled, [1.0] * len(values))
        worst = min(range(len(kept)), key=lambda i: found[i])
        if found[worst] >= 0:
            break
        kept.pop(worst)
    result = [0.0] * len(rows[0])
    for i, x in zip(kept, found if kept else []):
        result[i] = x
    return result


def line(points):
    """Intercept and slope."""
    return solve([[1, x] for x, _ in points], [y for _, y in points])

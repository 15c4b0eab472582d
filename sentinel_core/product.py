"""Products of whole numbers in compiled code.

CPython looks for signals in the middle of a multiplication whose factors have more than 30 bits. A handler that runs
there stands inside a section that nothing should come between, and one that raises (Ctrl-C, a time limit) finds mypyc
unprepared: it takes a product that fails for memory that is out, and aborts the process. So modules that are compiled
multiply small numbers, floats, or by this.
"""

from __future__ import annotations

from typing import Final

BITS: Final = 30
LIMB: Final = 1 << 30
MASK: Final = (1 << 30) - 1


def product(a: int, b: int) -> int:
    """`a * b`, exactly, for factors of any size from 0 on; no signal is handled within."""
    if a < LIMB and b < LIMB:
        return a * b
    if a < b:
        return product(b, a)
    return (product(a >> BITS, b) << BITS) + product(a & MASK, b)

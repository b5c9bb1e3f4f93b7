"""A kernel of Triton, in a file of its own as Triton reads its source. Leaves out who launches it (`gpu_frameworks.py`)."""

import triton
import triton.language as tl


@triton.jit
def add(a, b, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(out + at, tl.load(a + at, mask=mask) + tl.load(b + at, mask=mask), mask=mask)

"""NumPy and SciPy, called by the program itself: most of it has no Python frame."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np
from scipy import fft, optimize, signal, sparse, stats
from windows import call, going

random = np.random.default_rng(1)
a = random.normal(size=(600, 600))
for _ in going():
    with call("numpy.linalg.svd"):
        np.linalg.svd(a[:200, :200])
    with call("numpy.linalg.solve"):
        np.linalg.solve(a, a[:, :50])
    with call("scipy.fft.fft2"):
        fft.fft2(a)
    with call("scipy.signal.convolve2d"):
        signal.convolve2d(a[:200, :200], a[:9, :9])
    with call("scipy.optimize.minimize"):
        optimize.minimize(optimize.rosen, np.zeros(12))
    with call("scipy.stats.spearmanr"):
        stats.spearmanr(a[0], a[1])
    b = a @ a
    b = np.exp(-b * 1e-3) + np.sqrt(np.abs(a))
    b = np.sort(b, axis=0)
    np.dot(a, b)
    random.normal(size=100_000)
    sparse.csr_matrix(a > 1) @ a

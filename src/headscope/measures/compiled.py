"""How the loops are compiled, and the edges that all of them go by."""

from __future__ import annotations

import numba

from headscope.measures import similarity

STEPS = similarity.BINS - 2  # the thresholds 0.05, 0.10, … 0.95
EDGES = similarity.EDGES.numpy()  # 0, 0.05, … 0.95
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
# Sums of many terms in any order, so that they can be vectorised.
compiled_sums = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "nsz", "contract"})

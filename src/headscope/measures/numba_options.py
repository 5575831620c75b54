"""How the loops are compiled.

Compiled code is kept on disk, keyed by the file that a function stands in. A compiled function therefore uses nothing
of another file: constants come as arguments, and whatever it calls stands beside it. A test reads every one for that.

No fast mathematics: freedom to add in any order is used in one way by code that was just compiled and in another by
the same code from the disk, and the last digits differ. Where sums are to be vectorised, they are written side by side.
"""

from __future__ import annotations

import numba

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")

"""
Head atlas
==========

Every head by every score.
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("atlas")

# %%
# How to read it:
print(FIGURES["atlas"].reading)

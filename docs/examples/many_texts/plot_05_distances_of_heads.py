"""
Long-range and short-range heads
================================

How far apart are the tokens that a head finds similar?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("distances-of-heads")

# %%
# How to read it:
print(FIGURES["distances-of-heads"].reading)

"""
Distances by layer
==================

How far apart are the tokens that a typical head of a layer finds similar?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("distances-of-layers")

# %%
# How to read it:
print(FIGURES["distances-of-layers"].reading)

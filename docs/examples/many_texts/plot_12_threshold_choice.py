"""
The choice of thresholds
========================

How many pairs and tokens does each threshold take?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("threshold-choice")

# %%
# How to read it:
print(FIGURES["threshold-choice"].reading)

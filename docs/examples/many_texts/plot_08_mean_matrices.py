"""
Mean context similarity
=======================

What is left of S where all texts are laid on top of each other?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("mean-matrices")

# %%
# How to read it:
print(FIGURES["mean-matrices"].reading)

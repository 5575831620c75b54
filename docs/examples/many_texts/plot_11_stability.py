"""
Agreement of different texts
============================

Would other texts rank the heads in the same way?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("stability")

# %%
# How to read it:
print(FIGURES["stability"].reading)

"""
Different focal tokens
======================

Do the heads of a layer gather round different tokens?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("focal-tokens")

# %%
# How to read it:
print(FIGURES["focal-tokens"].reading)

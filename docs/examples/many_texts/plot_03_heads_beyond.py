"""
How many heads show it
======================

Does the typical head bear a claim out, or a few?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("heads-beyond")

# %%
# How to read it:
print(FIGURES["heads-beyond"].reading)

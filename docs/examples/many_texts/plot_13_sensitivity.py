"""
The claims at other thresholds
==============================

Which verdicts hang on the choice of a threshold?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
figure = result.figure("sensitivity")

# %%
# How to read it:
print(FIGURES["sensitivity"].reading)

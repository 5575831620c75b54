"""
The findings at a glance
========================

Every claim of the paper, its number, its interval, and the controls that it rests on. Two control runs take
something away: the order of sentences, and what the weights have learned.
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
controls = [
    headscope.analyze(headscope.load(control=control), "passages:", out=control.replace(":", "-"), progress=False)
    for control in ("rotated", "permuted:0")
]
figure = result.figure("findings", controls=controls)

# %%
# How to read it:
print(FIGURES["findings"].reading)

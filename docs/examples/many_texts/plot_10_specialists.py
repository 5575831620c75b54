"""
Specialists: heads that stand out
=================================

Which heads stand out on all texts alike?
"""

import headscope
from headscope.figures.catalog import FIGURES

model = headscope.load()
result = headscope.analyze(model, "passages:", out="passages", progress=False)
controls = [
    headscope.analyze(headscope.load(control=control), "passages:", out=control.replace(":", "-"), progress=False)
    for control in ("rotated", "permuted:0")
]
figure = result.figure("specialists", controls=controls)

# %%
# How to read it:
print(FIGURES["specialists"].reading)

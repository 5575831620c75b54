"""
All heads of a text
===================

S of every head of every layer, to find the heads that are worth a look.
"""

import headscope

model = headscope.load()
seen = model.inspect(headscope.passages("news")[3]["text"])
figure = seen.plot_grid()

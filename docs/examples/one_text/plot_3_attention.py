"""
What the same head reads
========================

Its attention map, and how much attention each token receives.
"""

import headscope

model = headscope.load()
seen = model.inspect("The ferryman knew the river. The river knew the ferryman, and the children feared the river.")
figure = seen.plot_attention(layer=8, head=0)

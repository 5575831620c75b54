"""
Attention and similarity together
=================================

Both of one head, beside each other.
"""

import headscope

model = headscope.load()
seen = model.inspect("The ferryman knew the river. The river knew the ferryman, and the children feared the river.")
figure = seen.plot_head(layer=8, head=0)

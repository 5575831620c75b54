"""
What a head finds alike
=======================

S of one head, with the tokens on its axes. This one finds repetitions.
"""

import headscope

model = headscope.load()
seen = model.inspect("The ferryman knew the river. The river knew the ferryman, and the children feared the river.")
figure = seen.plot_similarity(layer=8, head=0, theta=0.7)

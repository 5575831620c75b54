"""
Which heads cut texts
=====================

Every head as a square, the darker the more it counts where a text is cut into topics.
"""

import headscope

weights = headscope.Segmenter(headscope.load()).weights
figure = weights.plot()

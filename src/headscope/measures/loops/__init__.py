"""The method's sums as compiled loops, a file for each family.

What `torch_accumulator` says in formulas is done here for every head of a layer in a few visits to each pair: the
statistics cost a small share of the forward pass. Each head is worked on by one thread, windows in their order, sums
in float64, so the numbers do not depend on how many threads there are.

Whatever other files decide (edges of bins, thresholds, numbers of relations) comes as an argument: numba keeps
compiled code on disk and does not notice when another file changes. A change of any file in this folder drops the
compiled code of all.

Shapes: B windows, H heads, T tokens with padding, N tokens that count in a window, P its pairs, K its distinct ids,
R readings, M maps, V = R + M values of a pair.
"""

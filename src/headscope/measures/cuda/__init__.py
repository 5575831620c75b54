"""The accumulator of a graphics card: the sums are made where the model runs."""

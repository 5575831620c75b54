"""Models and their tokenizers: loading, converting, the self-check."""

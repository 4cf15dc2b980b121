"""Tensors and their numerics: algebra, Tucker format, truncation, manifold, storage, kernels."""

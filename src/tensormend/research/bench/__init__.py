"""The benchmark: our methods and their peers on the same problems, the kernels beside a read."""

"""The experiments of the paper, the benchmark and the study on real data."""

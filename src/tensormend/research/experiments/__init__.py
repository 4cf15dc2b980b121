"""The experiments of the paper, and the dense methods they are measured against."""

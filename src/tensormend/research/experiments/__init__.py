"""The experiments of the paper, and the plain dense methods they are measured against."""

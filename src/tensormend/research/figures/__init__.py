"""Figures of the experiments, drawn from their records."""

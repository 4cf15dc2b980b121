"""The experiments of the paper, the benchmark and the study on real data.

They have their records, the runner of grids of cells, worker processes, summaries and pages in
common: the modules beside the packages.
"""

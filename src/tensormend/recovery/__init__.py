"""Recovery from measurements: the problem, the loop, the solvers and the entry point `recover`."""

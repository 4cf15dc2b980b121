"""Print how each method does in the paper's setting: iterations, noise floor, memory, as Markdown.

Run with ``python benchmarks/paper_setting.py``; it takes a few minutes.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys

import tensormend as tm

METHODS = ("sm-qrgd", "rgd", "sempiht", "tiht")
N, RATIO = 100, 0.3
SHAPE = (N, N, N)


def problem(rank: int, seed: int) -> tuple[tm.Tucker, tm.Sampling]:
    truth = tm.simulate.gaussian_tucker(SHAPE, rank, rng=seed)
    return truth, tm.Sampling(SHAPE, tm.simulate.sample_indices(SHAPE, RATIO, rng=seed + 1000))


def count_iterations(n_seeds: int) -> None:
    print(f"\nIterations to true error 1e-10, n={N}, r=5, rho={RATIO}: least-most over seeds\n")
    print("| step | " + " | ".join(METHODS) + " |")
    print("|---" * (len(METHODS) + 1) + "|")
    for step in ("constant", "normalized"):
        cells = []
        for method in METHODS:
            counts = []
            for seed in range(n_seeds):
                truth, operator = problem(5, seed)
                y = operator.forward(truth)
                result = tm.recover(
                    operator, y, 5, method=method, step=step, truth=truth, tol=0, truth_tol=1e-10
                )
                counts.append(result.n_iter if result.success else 10**6)
            cells.append(f"{min(counts)}-{max(counts)}")
        print(f"| {step} | " + " | ".join(cells) + " |")


def count_with_fewer_samples(n_seeds: int) -> None:
    methods = ("sm-qrgd", "rgd", "rbb", "rcg", "rgn")
    print(f"\nIterations to true error 1e-10, n={N}, r=5, least-most over seeds: normalized step,")
    print("spectral init for sm-qrgd and rgd, corrected init for the others\n")
    print("| ratio | " + " | ".join(methods) + " |")
    print("|---" * (len(methods) + 1) + "|")
    for ratio in (0.3, 0.08, 0.03):
        cells = []
        for method in methods:
            counts = []
            for seed in range(n_seeds):
                truth = tm.simulate.gaussian_tucker(SHAPE, 5, rng=seed)
                indices = tm.simulate.sample_indices(SHAPE, ratio, rng=seed + 1000)
                operator = tm.Sampling(SHAPE, indices)
                result = tm.recover(
                    operator,
                    operator.forward(truth),
                    5,
                    method=method,
                    init="spectral" if method in ("sm-qrgd", "rgd") else "corrected",
                    truth=truth,
                    tol=0,
                    truth_tol=1e-10,
                )
                counts.append(result.n_iter if result.success else 10**6)
            cells.append(f"{min(counts)}-{max(counts)}")
        print(f"| {ratio} | " + " | ".join(cells) + " |")


def find_noise_floor() -> None:
    print(f"\nFinal relative error with noise, n={N}, rho={RATIO}, normalized step\n")
    print("| rank | SNR (dB) | " + " | ".join(METHODS) + " | sqrt(D/m) 10^(-SNR/20) |")
    print("|---" * (len(METHODS) + 3) + "|")
    for rank in (3, 5):
        truth, operator = problem(rank, 0)
        for snr in (60, 80, 100):
            sigma = tm.simulate.noise_level(truth, snr)
            y = tm.simulate.add_noise(operator.forward(truth), sigma, rng=2)
            level = 10 ** (-snr / 20)
            errors = [
                tm.recover(
                    operator, y, rank, method=method, truth=truth, tol=0, xtol=1e-5 * level
                ).history.error[-1]
                for method in METHODS
            ]
            expected = math.sqrt(truth.n_parameters / operator.n_measurements) * level
            cells = [f"{error:.4e}" for error in errors]
            print(f"| {rank} | {snr} | " + " | ".join(cells) + f" | {expected:.2e} |")


def run_large(method: str) -> None:
    """Complete 1000 x 1000 x 1000 from 1% of its entries, and print one row."""
    shape = (1000, 1000, 1000)
    truth = tm.simulate.random_tucker(shape, 5, rng=0)
    operator = tm.Sampling(shape, tm.simulate.sample_indices(shape, 0.01, rng=1))
    y = operator.forward(truth)
    result = tm.recover(operator, y, 5, method=method, truth=truth, tol=1e-8, max_iter=150)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    error = result.history.error[-1]
    print(f"| {method} | {result.status.name} | {result.n_iter} | {error:.1e} | {peak:.2f} |")


def measure_memory() -> None:
    print("\nA billion entries, ten million observed: 1000 x 1000 x 1000, r=5, rho=0.01\n")
    print("| method | status | iterations | true error | peak memory (GiB) |")
    print("|---" * 5 + "|")
    for method in ("rgd", "sm-qrgd"):
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "--large", method], check=True)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="problems per cell of the first table")
    parser.add_argument("--large", metavar="METHOD", help="only one run of the large case")
    arguments = parser.parse_args()
    if arguments.large:
        run_large(arguments.large)
        return
    count_iterations(arguments.seeds)
    count_with_fewer_samples(arguments.seeds)
    find_noise_floor()
    measure_memory()


if __name__ == "__main__":
    main()

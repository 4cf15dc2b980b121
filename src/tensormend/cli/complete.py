"""``tensormend complete``: estimate the missing entries of a tensor in a file."""

from __future__ import annotations

import typer

from tensormend.cli import options as o
from tensormend.cli.outputs import Outputs
from tensormend.cli.run import Run
from tensormend.cli.settings import given
from tensormend.errors import InputError

__all__ = ["EXAMPLES", "complete"]

EXAMPLES = (
    "tensormend simulate speeds.npy --shape 30,30,30 --rank 3 --noise 0.05",
    "tensormend complete speeds.npy -o filled.npy",
    "tensormend complete speeds.npy -o rank3.npz --rank 3 --validation-fraction 0.1",
    "tensormend complete speeds.npy --rank 3 --save-model model.npz",
    "tensormend complete speeds.npy -o long.npy --checkpoint run --time-limit 10m",
    "tensormend complete speeds.npy -o smooth.npy --replace-observed --fail-if-unreliable --json",
)


def complete(
    source: o.Source,
    out: o.Out = None,
    save_model: o.SaveModel = None,
    report: o.Report = None,
    replace_observed: o.ReplaceObserved = False,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    variable: o.Variable = None,
    modes: o.Modes = None,
    na_value: o.NaValue = None,
    observed: o.Observed = None,
    rank: o.RankOption = "auto",
    model: o.Model = "auto",
    method: o.Method = "auto",
    validation_fraction: o.ValidationFraction = None,
    center: o.Center = "auto",
    standardize: o.Standardize = None,
    transform: o.Transform = None,
    clip: o.Clip = None,
    tol: o.Tol = None,
    max_iter: o.MaxIter = None,
    checkpoint: o.CheckpointOption = None,
    resume: o.Resume = False,
    checkpoint_interval: o.CheckpointInterval = None,
    time_limit: o.TimeLimit = None,
    memory_limit: o.MemoryLimit = None,
    threads: o.Threads = None,
    seed: o.Seed = 0,
    fail_if_unreliable: o.FailIfUnreliable = False,
) -> None:
    """Estimate the missing entries of a tensor, and assess the result.

    By default some observed entries are held out, models are compared on them, and the best is
    fitted to all observed entries. The summary shows the error on held-out entries and, for
    comparison, the error of means. Progress is shown on stderr. Ctrl-C stops the run; the best
    result so far is written, and the checkpoint is kept.
    """
    if checkpoint_interval is not None and checkpoint is None:
        raise InputError(
            "--checkpoint-interval needs --checkpoint, got none; add --checkpoint FOLDER"
        )
    if fail_if_unreliable and rank != "auto" and validation_fraction is None:
        raise InputError(
            "--fail-if-unreliable needs held-out entries to assess the result, got a rank without "
            "--validation-fraction; add --validation-fraction 0.1"
        )
    load_options = given(variable=variable, modes=modes, na_value=na_value, observed=observed)
    settings = given(
        model=model,
        method=method,
        validation_fraction=validation_fraction,
        center=center,
        standardize=standardize,
        transform=transform,
        clip=clip,
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
        memory_limit=memory_limit,
        threads=threads,
        rng=seed,
    )
    outputs = Outputs(out, save_model, report, replace_observed, force)
    run = Run(source, load_options, rank, settings, outputs, checkpoint, checkpoint_interval)
    outcome = run.execute(resume=resume, quiet=quiet)
    outcome.report(json=json, quiet=quiet)
    raise typer.Exit(outcome.exit_code(fail_if_unreliable=fail_if_unreliable))

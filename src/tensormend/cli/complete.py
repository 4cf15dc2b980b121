"""``tensormend complete``: fill the holes of a file."""

from __future__ import annotations

import typer

from tensormend.cli import options as o
from tensormend.cli.outputs import Outputs
from tensormend.cli.run import Run
from tensormend.cli.settings import given

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
    """Fill the holes of a tensor, and say how far to trust what is filled in.

    Some known entries are held out, models are tried on them, the best is fitted to all entries,
    and the error on what was held out is told beside that of plain means. Progress goes to stderr.
    Ctrl-C ends a run early: the best result so far is written, and a checkpoint stays.
    """
    where = given(variable=variable, modes=modes, na_value=na_value, observed=observed)
    settings = given(
        model=model,
        method=method,
        holdout=validation_fraction,
        center=center,
        scale=standardize,
        log=transform,
        clip=clip,
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
        save_every=checkpoint_interval,
        memory_limit=memory_limit,
        threads=threads,
        rng=seed,
    )
    outputs = Outputs(out, save_model, report, replace_observed, force)
    run = Run(source, where, rank, settings, outputs, checkpoint)
    outcome = run.fill(resume=resume, quiet=quiet)
    outcome.tell(json=json, quiet=quiet)
    raise typer.Exit(outcome.exit_code(fail_if_unreliable=fail_if_unreliable))

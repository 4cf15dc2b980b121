"""Assessment of a completion: held-out error, coverage, noise, and a verdict."""

from tensormend.completion.trust.coverage import measure_coverage
from tensormend.completion.trust.judge import judge
from tensormend.completion.trust.report import Trust, Verdict

__all__ = ["Trust", "Verdict", "judge", "measure_coverage"]

"""How far a completion can be trusted: held-out error, coverage, noise, and a verdict."""

from tensormend.trust.coverage import measure_coverage
from tensormend.trust.judge import judge
from tensormend.trust.report import Trust, Verdict

__all__ = ["Trust", "Verdict", "judge", "measure_coverage"]

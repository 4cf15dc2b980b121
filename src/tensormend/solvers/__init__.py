"""The methods, one file each."""

from tensormend.solvers.iht import TIHT, SeMPIHT
from tensormend.solvers.rgd import RGD
from tensormend.solvers.smqrgd import SMQRGD

__all__ = ["RGD", "SMQRGD", "TIHT", "SeMPIHT"]

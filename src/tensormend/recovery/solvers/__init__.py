"""The methods, one file each."""

from tensormend.recovery.solvers.auto import Auto
from tensormend.recovery.solvers.iht import TIHT, SeMPIHT
from tensormend.recovery.solvers.rbb import RBB
from tensormend.recovery.solvers.rcg import RCG
from tensormend.recovery.solvers.rgd import RGD
from tensormend.recovery.solvers.rgn import RGN
from tensormend.recovery.solvers.scaledgd import ScaledGD
from tensormend.recovery.solvers.shrink import Shrink
from tensormend.recovery.solvers.smqrgd import SMQRGD

__all__ = ["RBB", "RCG", "RGD", "RGN", "SMQRGD", "TIHT", "Auto", "ScaledGD", "SeMPIHT", "Shrink"]

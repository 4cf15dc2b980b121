"""The methods, one file each."""

from tensormend.solvers.auto import Auto
from tensormend.solvers.iht import TIHT, SeMPIHT
from tensormend.solvers.rbb import RBB
from tensormend.solvers.rcg import RCG
from tensormend.solvers.rgd import RGD
from tensormend.solvers.rgn import RGN
from tensormend.solvers.scaledgd import ScaledGD
from tensormend.solvers.shrink import Shrink
from tensormend.solvers.smqrgd import SMQRGD

__all__ = ["RBB", "RCG", "RGD", "RGN", "SMQRGD", "TIHT", "Auto", "ScaledGD", "SeMPIHT", "Shrink"]

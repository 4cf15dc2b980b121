"""The solver classes, imported on demand by the table of methods in `recovery.registry`."""

from typing import TYPE_CHECKING, Any

from tensormend.recovery.registry import METHODS

if TYPE_CHECKING:
    from tensormend.recovery.solvers.auto import Auto as Auto
    from tensormend.recovery.solvers.iht import TIHT as TIHT
    from tensormend.recovery.solvers.iht import SeMPIHT as SeMPIHT
    from tensormend.recovery.solvers.rbb import RBB as RBB
    from tensormend.recovery.solvers.rcg import RCG as RCG
    from tensormend.recovery.solvers.rgd import RGD as RGD
    from tensormend.recovery.solvers.rgn import RGN as RGN
    from tensormend.recovery.solvers.scaledgd import ScaledGD as ScaledGD
    from tensormend.recovery.solvers.shrink import Shrink as Shrink
    from tensormend.recovery.solvers.smqrgd import SMQRGD as SMQRGD

_METHODS = {method.class_name: method for method in METHODS.values()}

__all__ = sorted(_METHODS)

if not TYPE_CHECKING:  # with it, type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = _METHODS[name].load()
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

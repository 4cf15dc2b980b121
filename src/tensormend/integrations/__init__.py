"""Estimators for scikit-learn and the accessor for xarray; each is imported by name."""

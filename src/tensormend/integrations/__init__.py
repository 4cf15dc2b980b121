"""Estimators for scikit-learn, and an accessor for xarray; each module is imported by name."""

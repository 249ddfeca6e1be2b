"""Non-linear least squares over images, volumes, meshes and graphs, and differentiable layers, compiled to vectorised code."""

from sumsq import layers
from sumsq._native import Error
from sumsq._solve import solve

__all__ = ["Error", "layers", "solve"]

"""Reference models."""

from renaissance.models.mlp import mlp as mlp

"""Methods: what is learned from a batch, one file each."""

from resel.methods.resel import Learner, Metrics

__all__ = ["Learner", "Metrics"]

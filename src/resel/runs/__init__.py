"""Disk: bundles (everything saved), run directories and metrics."""

from resel.runs.bundle import Bundle, check_tensors, find_bundle, read_bundle, write_bundle
from resel.runs.directory import RunDirectory, default_run_path, is_in_use
from resel.runs.loggers import MetricsLog, read_metrics
from resel.runs.machine import describe_machine

__all__ = [
    "Bundle",
    "MetricsLog",
    "RunDirectory",
    "check_tensors",
    "default_run_path",
    "describe_machine",
    "find_bundle",
    "is_in_use",
    "read_bundle",
    "read_metrics",
    "write_bundle",
]

"""Disk: bundles (everything saved), the log of the buffer, run directories and metrics."""

from resel.runs._tensors import check_tensors
from resel.runs.bundle import Bundle, find_bundle, read_bundle, read_document, write_bundle
from resel.runs.directory import RunDirectory, default_run_path, is_in_use
from resel.runs.final import final_evaluations
from resel.runs.loggers import MetricsLog, read_metrics
from resel.runs.machine import describe_machine, differences, numeric_machine
from resel.runs.memory import available_memory, format_bytes
from resel.runs.patience import Patience
from resel.runs.segments import (
    Segment,
    SegmentReader,
    read_segment_list,
    remove_segments,
    write_segment,
)

__all__ = [
    "Bundle",
    "MetricsLog",
    "Patience",
    "RunDirectory",
    "Segment",
    "SegmentReader",
    "available_memory",
    "check_tensors",
    "default_run_path",
    "describe_machine",
    "differences",
    "final_evaluations",
    "find_bundle",
    "format_bytes",
    "is_in_use",
    "numeric_machine",
    "read_bundle",
    "read_document",
    "read_metrics",
    "read_segment_list",
    "remove_segments",
    "write_bundle",
    "write_segment",
]

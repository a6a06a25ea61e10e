"""The run around a trainer: its directory, what it saves, and whether it may start or go on."""

from resel.runs._files import settle, whole_directory, write_file, write_json, writing
from resel.runs._json import to_json
from resel.runs._lock import Lock
from resel.runs._reading import parse_json, read_regular
from resel.runs.agents import (
    agent_learned,
    agent_step,
    check_agent_origin,
    is_policy_only,
    learned_before,
    read_agent,
    save_agent,
    saved_privileged,
    use_weights,
)
from resel.runs.bundle import Bundle, find_bundle, read_bundle, read_document, write_bundle
from resel.runs.directory import RunDirectory, default_run_path, is_in_use
from resel.runs.load_run import open_trainer, restore_newest
from resel.runs.machine import describe_machine, differences, numeric_machine
from resel.runs.memory import available_memory, format_bytes
from resel.runs.metrics import MetricsLog, read_metrics
from resel.runs.outlook import evaluation_steps, learning_begins, updates_by, updates_planned
from resel.runs.own_config import MAY_DIFFER
from resel.runs.preflight import ENDED, Resume, check_past, finished_result, saved_config
from resel.runs.replay_log import ReplayLog, restore_trainer
from resel.runs.retry import RetryWrites
from resel.runs.run import Run
from resel.runs.segments import (
    Segment,
    SegmentReader,
    read_segment_list,
    remove_segments,
    write_segment,
)
from resel.runs.threads import threads_so_far
from resel.runs.warm_start import WarmStart, warm_start

__all__ = [
    "ENDED",
    "MAY_DIFFER",
    "Bundle",
    "Lock",
    "MetricsLog",
    "ReplayLog",
    "Resume",
    "RetryWrites",
    "Run",
    "RunDirectory",
    "Segment",
    "SegmentReader",
    "WarmStart",
    "agent_learned",
    "agent_step",
    "available_memory",
    "check_agent_origin",
    "check_past",
    "default_run_path",
    "describe_machine",
    "differences",
    "evaluation_steps",
    "find_bundle",
    "finished_result",
    "format_bytes",
    "is_in_use",
    "is_policy_only",
    "learned_before",
    "learning_begins",
    "numeric_machine",
    "open_trainer",
    "parse_json",
    "read_agent",
    "read_bundle",
    "read_document",
    "read_metrics",
    "read_regular",
    "read_segment_list",
    "remove_segments",
    "restore_newest",
    "restore_trainer",
    "save_agent",
    "saved_config",
    "saved_privileged",
    "settle",
    "threads_so_far",
    "to_json",
    "updates_by",
    "updates_planned",
    "use_weights",
    "warm_start",
    "whole_directory",
    "write_bundle",
    "write_file",
    "write_json",
    "write_segment",
    "writing",
]

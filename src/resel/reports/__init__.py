"""Reports: a run, or a folder of runs, as one page that needs nothing but a browser."""

from resel.reports.report import Report, make_report

__all__ = ["Report", "make_report"]

"""Reports: a run, or a folder of runs, as one page that needs nothing but a browser; and the folder
of an agent, with its card."""

from resel.reports.agent_card import Wanted, write_agent_folder
from resel.reports.report import Report, make_report
from resel.reports.tuning_page import tuning_page

__all__ = ["Report", "Wanted", "make_report", "tuning_page", "write_agent_folder"]

"""Trained agents that come with resel, each with its card; `zoo:NAME` stands for one anywhere."""

from resel.zoo._card import CARD, Card, read_card, write_card
from resel.zoo._entries import Entry, entries, get_entry, locate

__all__ = [
    "CARD",
    "Card",
    "Entry",
    "entries",
    "get_entry",
    "locate",
    "read_card",
    "write_card",
]

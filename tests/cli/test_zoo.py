"""`resel zoo`: agents that come along, and cards for those of one's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from terminal import read, refused

from resel import Agent
from resel.cli import main
from resel.errors import ReselError
from resel.zoo import _entries, entries, get_entry, read_card

MOST = 3_000_000
"""Bytes of all agents: they are in every installation."""


def test_every_agent_can_be_used() -> None:
    found = entries()
    assert {"pendulum-v", "tmaze"} <= {entry.name for entry in found}
    assert sum(entry.size for entry in found) < MOST
    for entry in found:
        assert entry.problem is None and entry.card is not None
        card, text = entry.card, (entry.folder / "README.md").read_text()
        assert card.name == entry.name and card.command in text and card.episodes >= 100
        agent = Agent.load(f"zoo:{entry.name}")
        assert (agent.config.task, agent.config.method) == (card.task, card.method)
        agent.close()


def test_list(capsys: Any) -> None:
    assert main(["zoo", "list"]) == 0
    assert "zoo:NAME" in capsys.readouterr().out
    assert main(["zoo", "list", "--json"]) == 0
    cards = json.loads(capsys.readouterr().out)
    assert [card["name"] for card in cards] == [entry.name for entry in entries()]


def test_names_are_taken_where_paths_are(capsys: Any) -> None:
    assert main(["eval", "zoo:tmaze", "--episodes", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["return_mean"] == 1.0
    assert main(["zoo", "watch", "tmaze", "--out", "t.png"]) == 0 and Path("t.png").exists()
    assert "Did you mean tmaze?" in refused(capsys, "eval", "zoo:tmase")
    assert "There are: " in refused(capsys, "watch", "zoo:xyz", "--out", "f.gif")
    assert "without the optimisers" in refused(capsys, "diagnose", "zoo:tmaze")
    with pytest.raises(ReselError, match="no agent 'tmase' in the zoo"):
        Agent.load("zoo:tmase")


def test_get(capsys: Any) -> None:
    assert main(["zoo", "get", "tmaze"]) == 0
    assert read_card(Path("tmaze")) == get_entry("tmaze").card
    assert Agent.load("tmaze").config.task == "TMaze-v0"
    assert "--out tmaze is there already" in refused(capsys, "zoo", "get", "tmaze")


def test_altered_agents_are_refused(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(_entries, "AGENTS", Path("agents").absolute())
    folder, original = Path("agents/tmaze"), get_entry  # looked up in a copy from here on
    source = Path(_entries.__file__).with_name("agents") / "tmaze"

    def fails(words: str) -> None:
        assert words in refused(capsys, "eval", "zoo:tmaze")
        assert main(["zoo", "list"]) == 0 and "is left out" in capsys.readouterr().err
        shutil.rmtree(folder)
        shutil.copytree(source, folder)

    shutil.copytree(source, folder)
    assert original("tmaze").card is not None
    card = read(folder / "card.json")
    card["card"]["return_mean"] = 100.0
    (folder / "card.json").write_text(json.dumps(card))
    fails("card.json was altered")
    (folder / "card.json").write_text(json.dumps({**read(source / "card.json"), "version": 2}))
    fails("Update resel")
    (folder / "card.json").write_text("{")
    fails("cannot be read as a card")
    (folder / "weights.safetensors").write_bytes(b"other")
    fails("is not the file that")
    (folder / "curve.png").unlink()
    fails("is missing")
    assert main(["eval", "zoo:tmaze", "--episodes", "1"]) == 0


def test_a_card_of_one_s_own(finished: Path, capsys: Any) -> None:
    command = ["zoo", "card", str(finished), "--out", "mine", "--episodes", "4", "--name", "me"]
    assert main([*command, "--commit", "abc123", "--note", "The best of three seeds."]) == 0
    said = capsys.readouterr().out
    card = read_card(Path("mine"))
    assert (card.name, card.task, card.seed, card.steps) == ("me", "TMaze-v0", 1, 60)
    assert Agent.load("mine").policy_only
    assert card.episodes == 4 and card.commit == "abc123" and "Written: mine/card.json" in said
    assert {"manifest.json", "weights.safetensors", "agent.json", "curve.png"} <= set(card.files)
    assert main(["eval", "mine", "--episodes", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["return_mean"] == card.return_mean
    text = Path("mine/README.md").read_text()
    front = text.split("---")[1]
    for line in ("library_name: resel", "- reinforcement-learning", "- type: mean_reward"):
        assert line in front
    assert card.command in text and "--n-critics 2" in card.command
    assert card.note is not None and f"\n{card.note}\n" in text
    before = sorted(Path("mine").iterdir())
    assert "is there already" in refused(capsys, *command)
    assert sorted(Path("mine").iterdir()) == before
    assert "There is no" in refused(capsys, "zoo", "card", "nothing", "--out", "b")
    assert not Path("b").exists()

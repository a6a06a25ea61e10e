"""An agent as a folder for others: its weights, its card, its curve, a film, and a page of words.

The page begins with the facts that model hubs read.
"""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import resel
from resel.agent import Agent
from resel.analysis import draw_episodes
from resel.analysis.runs import WITHOUT_EFFECT, RunRecord, read_run
from resel.config import Config
from resel.errors import ConfigError, MissingDependencyError, NoPicturesError
from resel.experiments import Setting
from resel.methods import get_method, run_label
from resel.reports.curves import draw
from resel.reports.facts import changed_settings
from resel.reports.figures import file_name
from resel.runs import agent_learned, agent_step, save_agent
from resel.tasks import get_task, short_name
from resel.training import evaluate, evaluation_seeds
from resel.training.threads import threads_for
from resel.training.video import can_be_filmed, film
from resel.zoo import Card, write_card

_SIDE = 240
"""Pixels of a film, which others are to load."""
_EVALUATION_SEED = 1
_HUB_TAGS = ("reinforcement-learning", "recurrent", "partially-observable", "resel")


@dataclass(frozen=True)
class Wanted:
    """What a card is to say that a run does not."""

    name: str | None = None
    """The task's, in small letters, if not given."""
    agent: str = "last"
    episodes: int = 100
    commit: str | None = None
    whole: bool = False
    """With critics and targets, to learn on."""
    note: str | None = None
    """A sentence, as how the seed was chosen."""


def write_agent_folder(run: Path, out: Path, wanted: Wanted) -> Card:
    """Measure an agent of a run, and write it to a new folder with all that belongs to it."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} is there already: name a new folder, or remove it first.")
    record = read_run(run)
    folder = run / "agents" / wanted.agent
    agent, step = Agent.load(folder), agent_step(folder)
    config = agent.config
    if not config.task:
        raise ConfigError(
            f"The agent of {run} learned in an environment without a name: nobody could make that "
            "again, so it cannot have a card."
        )
    with closing(agent):
        env = agent.make_evaluation_env()
        seeds = evaluation_seeds(_EVALUATION_SEED, wanted.episodes)
        with threads_for(config), closing(env):
            found = evaluate(agent.actor, env, seeds)
            step = record.steps if step is None and wanted.agent == "last" else step
            learned = agent_learned(folder)
            save_agent(out, agent.learner, env, step, learned=learned, policy_only=not wanted.whole)
        draw([record], out / "curve.png")
        seen = _picture(agent, config, out, seeds[:1])
    card = Card(
        wanted.name or file_name(re.sub(r"-v\d+$", "", short_name(config.task).lower())),
        config.task,
        config.method,
        config.encoder,
        record.seed,
        step,
        wanted.episodes,
        _EVALUATION_SEED,
        found.return_mean,
        found.return_std,
        found.length_mean,
        found.success_rate,
        shlex.join(["resel", *train_command(record.config)]),
        str((record.environment.get("versions") or {}).get("resel", resel.__version__)),
        wanted.commit or record.environment.get("commit"),
        record.seconds,
        wanted.note,
    )
    (out / "README.md").write_text(_page(card, record, seen), encoding="utf-8")
    return write_card(out, card)


def train_command(config: Config) -> list[str]:
    """The words after `resel` that train with these settings, the seed among them."""
    changed = {name: value for name, (value, _) in changed_settings(config).items()}
    told = {n: v for n, v in changed.items() if n not in WITHOUT_EFFECT}
    encoder = {} if config.encoder is None else {"encoder": config.encoder}
    setting = Setting(config.task, {**encoder, **told}, method=config.method)
    return ["train", *setting.flags(config.training.seed)]


def _picture(agent: Agent, config: Config, out: Path, seeds: list[int]) -> str:
    """An episode as a film, or as a drawing where the environment cannot be filmed; its name."""
    if can_be_filmed(config):
        try:
            with closing(agent.make_evaluation_env(render_mode="rgb_array")) as env:
                film(agent.actor, env, seeds, out / "film.gif", _SIDE)
            return "film.gif"
        except (NoPicturesError, MissingDependencyError):
            (out / "film.gif").unlink(missing_ok=True)
    with closing(agent.make_evaluation_env()) as env:
        draw_episodes(agent.actor, env, seeds, out / "episode.png")
    return "episode.png"


def _page(card: Card, record: RunRecord, seen: str) -> str:
    """README.md."""
    spec, method = get_task(card.task), get_method(card.method)
    success = "" if card.success_rate is None else f", success {card.success_rate:.0%}"
    about = "" if spec is None else f": {spec.summary}"
    facts = {
        "task": f"`{card.task}`{about}",
        "method": f"{method.title} ({run_label(record.config)})",
        "seed": card.seed,
        "steps": "not known" if card.steps is None else f"{card.steps:,}",
        f"return over {card.episodes} episodes": f"{_score(card)}{success}",
        "trained with": f"resel {card.resel}"
        + (f", commit `{card.commit}`" if card.commit else ""),
        "training took": "not known"
        if card.seconds is None
        else f"{card.seconds / 60:.0f} min by the clock",
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return f"""{_front_matter(card)}
# {card.name}: {method.title} on {card.task}

| | |
|---|---|
{rows}

±: the standard deviation over episodes of the deterministic policy, chosen by the seed
{card.evaluation_seed} of `resel eval`. One seed of training: others may come out better or worse.
{"" if card.note is None else card.note + chr(10)}
![an episode]({seen})
![learning curve](curve.png)

## Use

```python
from resel import Agent

agent = Agent.load("PATH-TO-THIS-FOLDER")
print(agent.evaluate(episodes=10))
```

```bash
resel eval PATH-TO-THIS-FOLDER --episodes {card.episodes}
```

## Train such an agent

```bash
{card.command}
```

`card.json` has these facts and the SHA-256 of every file; no file holds code.
"""


def _score(card: Card) -> str:
    return f"{card.return_mean:.2f} ± {card.return_std:.2f}"


def _front_matter(card: Card) -> str:
    """What model hubs read: YAML, in the words of a model index."""
    tags = "\n".join(f"- {tag}" for tag in dict.fromkeys((*_HUB_TAGS, card.task, card.method)))
    return f"""---
library_name: resel
pipeline_tag: reinforcement-learning
tags:
{tags}
model-index:
- name: {card.name}
  results:
  - task:
      type: reinforcement-learning
      name: reinforcement-learning
    dataset:
      name: {card.task}
      type: {card.task}
    metrics:
    - type: mean_reward
      name: mean_reward
      value: {card.return_mean:.2f} +/- {card.return_std:.2f}
      verified: false
---
"""

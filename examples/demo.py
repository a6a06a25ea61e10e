"""What `make demo` runs: an agent learns to remember, beside one that cannot.

In POPGym's RepeatPrevious cards are shown one after another, and at each the agent names the suit
of the card three before. Cards are drawn at random, so an agent without a memory can only guess: a
quarter of its answers are right, and its return is near -0.5. With all of them right it is 1.
"""

import subprocess
import sys
from pathlib import Path

from resel import RESeL
from resel.cli import main
from resel.runs import RunDirectory, read_metrics
from resel.tasks import make_env

TASK = "popgym-RepeatPreviousEasy-v0"
FOLDER = Path("demo-output")
AGENTS = {"mamba": "with memory", "mlp": "without"}
SUITS = "♠♣♡♢"
BACK = 3


def words(encoder: str) -> list[str]:
    """The command that trains one of the two agents."""
    folder = ["--run-dir", str(FOLDER / encoder), "--resume", "auto"]
    return ["train", TASK, "--encoder", encoder, "--steps", "7000", *folder]


def command(*given: str) -> None:
    """Run one `resel` command and stop the demo if it fails."""
    print("\n$ resel", *given, flush=True)
    code = main(list(given))
    if code:
        sys.exit(code)


def last_return(encoder: str) -> float:
    """Of the last evaluation."""
    run = RunDirectory.open(FOLDER / encoder, read_only=True)
    found = [line for line in read_metrics(run.metrics_path) if line["kind"] == "eval"]
    return float(found[-1]["return_mean"])


def play(encoder: str, seed: int) -> tuple[str, str]:
    """The cards of one episode that are asked for, and the answers."""
    agent, env = RESeL.load(FOLDER / encoder), make_env(TASK)
    observation, _ = env.reset(seed=seed)
    cards, answers, state, done = [], [], None, False
    while not done:
        action, state = agent.predict(observation, state)  # state is all the memory there is
        cards.append(SUITS[int(observation)])
        answers.append(SUITS[int(action)])
        observation, _, terminated, truncated, _ = env.step(action)
        done = terminated or truncated
    return "".join(cards[:-BACK]), "".join(answers[BACK:])


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    print("Beside it, the same without a memory:\n$ resel", *words("mlp"), flush=True)
    with (FOLDER / "mlp.log").open("w") as log:
        beside = subprocess.Popen(
            [sys.executable, "-m", "resel", *words("mlp")], stdout=log, stderr=log
        )
        command(*words("mamba"))
        if beside.wait():
            sys.exit(f"The other training failed: see {log.name}.")
    runs = [str(FOLDER / encoder) for encoder in AGENTS]
    command("plot", *runs, "--out", str(FOLDER / "learning-curve.png"))
    asked, _ = play("mamba", seed=7)
    print(f"\nOne episode: the card {BACK} before, and what was answered.")
    print(f"  {'asked for':<12s}{asked}")
    for encoder, what in AGENTS.items():
        _, answers = play(encoder, seed=7)
        right = sum(a == c for a, c in zip(answers, asked, strict=True))
        print(f"  {what:<12s}{answers}  {right} of {len(asked)} right")
    print(
        f"\nReturn after training: {last_return('mamba'):.2f} with memory, "
        f"{last_return('mlp'):.2f} without (guessing: -0.5, all right: 1).\n"
        f"Learning curves: {FOLDER / 'learning-curve.png'}\n"
        f"Run directory: {FOLDER / 'mamba'} (try: .venv/bin/resel eval {FOLDER / 'mamba'})"
    )

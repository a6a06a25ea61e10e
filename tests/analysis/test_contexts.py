"""Contexts with what the agent could not see, and reading one from the other."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from resel import RESeL
from resel.analysis import context_embeddings, context_map, read_out_score
from resel.errors import BadInputError, MissingDependencyError
from resel.tasks import make_env


@pytest.fixture(scope="module")
def agent(tiny: dict[str, Any]) -> RESeL:
    return RESeL("Wind-v0", **tiny)


def test_contexts_of_a_task_with_a_hidden_variable(agent: RESeL) -> None:
    found = context_embeddings(agent, episodes=4, every=10)
    assert found.context.shape == (4 * 8, 4) and found.context.dtype == np.float32
    assert found.step.tolist() == list(range(0, 75, 10)) * 4
    assert found.episode.tolist() == sorted(list(range(4)) * 8)
    assert list(found.hidden) == ["hidden", "wind"] and found.hidden["wind"].shape == (32, 2)
    scaled = (found.hidden["wind"] + 0.08) / 0.16
    np.testing.assert_allclose(found.hidden["hidden"], scaled, atol=1e-6)
    winds = found.hidden["wind"].reshape(4, 8, 2)
    assert (winds == winds[:, :1]).all() and len(np.unique(winds[:, 0], axis=0)) > 1
    contexts = found.context.reshape(4, 8, 4)
    # Every episode begins at the same place with no past; later the wind makes the difference.
    np.testing.assert_allclose(contexts[:, 0], contexts[:1, 0].repeat(4, 0), rtol=1e-5)
    assert not np.allclose(contexts[0, 5], contexts[1, 5])
    again = context_embeddings(agent, "Wind-v0", episodes=4, every=10)
    np.testing.assert_array_equal(again.context, found.context)


def test_entries_of_info_that_are_asked_for(agent: RESeL) -> None:
    env = make_env("Wind-v0")
    found = context_embeddings(agent, env, episodes=2, hidden=("task",))
    assert found.hidden["task"].shape == (150, 1)
    env.reset(seed=0)  # it is the caller's, and still open
    with pytest.raises(
        BadInputError, match="info has no 'gravity' at step 0, but task, hidden, wind"
    ):
        context_embeddings(agent, env, episodes=2, hidden=("gravity",))
    with pytest.raises(BadInputError, match="The agent acts in"):
        context_embeddings(agent, "Pendulum-V-v0", episodes=2)


def test_an_environment_without_a_name(tiny: dict[str, Any], toy: Any) -> None:
    agent = RESeL(toy(), **tiny)
    with pytest.raises(BadInputError, match="has no name"):
        context_embeddings(agent)
    assert context_embeddings(agent, toy(), episodes=2).hidden == {}


def episodes_of(count: int, length: int = 20, seed: int = 0) -> tuple[Any, Any, Any]:
    """Contexts in which a number per episode stands, mixed with noise."""
    rng = np.random.default_rng(seed)
    groups = np.arange(count).repeat(length)
    value = rng.uniform(2.9, 33.1, count)[groups]
    mixing = rng.standard_normal((5, 6))
    parts = np.column_stack([value, rng.standard_normal((count * length, 4))])
    return parts @ mixing, value, groups


def test_a_number_that_stands_in_the_context_is_read_out() -> None:
    context, value, groups = episodes_of(20)
    assert read_out_score(context, value, groups, ridge=1e-9) > 0.999
    assert 0.9 < read_out_score(context, value, groups) <= 1
    two = np.column_stack([value, -2 * value])
    assert read_out_score(context, two, groups, ridge=1e-9) > 0.999


def test_a_number_that_does_not_is_not() -> None:
    _, value, groups = episodes_of(20)
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((len(value), 6))
    assert abs(read_out_score(noise, value, groups)) < 0.2
    # Contexts that only tell the episode apart: learning them by heart would score 1.
    by_heart = rng.standard_normal((20, 30))[groups]
    assert read_out_score(by_heart, value, groups) < 0.5
    constant = np.ones((len(value), 3))
    assert read_out_score(constant, value, groups) <= 0.01


def test_the_score_against_ridge_regression_by_hand() -> None:
    context, value, groups = episodes_of(4, length=3)
    missed = 0.0
    for fold in range(2):
        tested = np.isin(groups, [fold, fold + 2])
        x, y = context[~tested], value[~tested]
        z, new = ((part - x.mean(0)) / x.std(0) for part in (x, context[tested]))
        penalised = np.vstack([z, np.sqrt(0.5 * len(z)) * np.eye(6)])
        weights = np.linalg.lstsq(penalised, np.append(y - y.mean(), np.zeros(6)), rcond=None)[0]
        missed += float(((value[tested] - y.mean() - new @ weights) ** 2).sum())
    expected = 1 - missed / ((value - value.mean()) ** 2).sum()
    assert read_out_score(context, value, groups, folds=2, ridge=0.5) == pytest.approx(expected)


def test_what_cannot_be_scored() -> None:
    context, value, groups = episodes_of(6)
    with pytest.raises(BadInputError, match="do not belong together"):
        read_out_score(context[1:], value, groups)
    with pytest.raises(BadInputError, match=r"6 group\(s\) cannot be parted into 7 folds"):
        read_out_score(context, value, groups, folds=7)
    with pytest.raises(BadInputError, match="the same everywhere"):
        read_out_score(context, np.ones(len(value)), groups)


def test_the_map_keeps_clusters_apart() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 10)) * 20
    points = np.concatenate([centre + rng.normal(size=(30, 10)) for centre in centres])
    places = context_map(points)
    assert places.shape == (90, 2) and np.isfinite(places).all()
    middles = places.reshape(3, 30, 2).mean(1)
    spread = np.linalg.norm(places.reshape(3, 30, 2) - middles[:, None], axis=-1).max()
    apart = min(np.linalg.norm(middles[i] - middles[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert apart > spread
    assert np.array_equal(places, context_map(points)), "seeded"
    assert not context_map(np.ones((10, 3))).any()


def test_a_map_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[report\]'"):
        context_map(np.zeros((5, 2)))

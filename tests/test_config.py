"""Settings: checked when built, layered, and the same after JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.config import GROUPS, SIZES, Config, parse_count
from resel.errors import ConfigError, ReselError
from resel.methods import Method, get_method, methods
from resel.networks import encoders

every_method = pytest.mark.parametrize("method", methods()[0], ids=lambda method: method.name)
every_encoder = pytest.mark.parametrize("encoder", [spec.name for spec in encoders()[0]])


def test_defaults_are_the_papers() -> None:
    config = Config.build()
    network, algorithm, encoder = config.network, config.algorithm, config.encoder_settings
    assert (network.embedding, network.width, network.head_width) == (128, 256, 256)
    assert (encoder.n_layers, encoder.state_size, encoder.conv_kernel) == (1, 64, 8)
    assert config.encoder == "mamba" and encoder.feed_forward and not network.reward_input
    assert (algorithm.n_critics, network.head_layers, algorithm.subset_size) == (8, 2, 2)
    assert (algorithm.lr_context_encoder, algorithm.lr_policy) == (1e-5, 3e-4)
    assert (algorithm.lr_critic, algorithm.lr_alpha) == (1e-3, 1e-4)
    assert (algorithm.gamma, algorithm.tau, algorithm.policy_delay) == (0.99, 0.005, 2)
    assert (algorithm.batch_steps, config.training.warmup_steps) == (1000, 5000)
    assert not algorithm.clamp_target_values and not algorithm.normalize_observations


@every_method
@every_encoder
def test_setting_names_are_unique_across_groups(method: Method, encoder: str) -> None:
    names = {"method": method.name} | ({} if method.encoder is None else {"encoder": encoder})
    config = Config.build("", names)
    found = [f.name for group in GROUPS for f in dataclasses.fields(getattr(config, group))]
    assert len(found) == len(set(found))
    assert config.flat().keys() == {"encoder", *found}
    for group in GROUPS:
        for f in dataclasses.fields(getattr(config, group)):
            assert config.group_of(f.name) == group


@every_method
def test_the_paper_size_is_the_default(method: Method) -> None:
    config = Config.build("", {"method": method.name})
    assert config.replace(**config.sized("paper")) == config


def test_smaller_sizes_shrink_what_is_marked_and_nothing_else() -> None:
    config = Config.build()
    for size, factor in SIZES.items():
        changed = config.sized(size)
        assert changed == {name: round(factor * config.flat()[name]) for name in changed}
    assert {"width", "embedding", "head_width", "state_size"} == set(changed)
    with pytest.raises(ConfigError, match="size='huge' is not known: choose one of paper, small"):
        config.sized("huge")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 0),
        ("embedding", -1),
        ("conv_kernel", -1),
        ("n_layers", 0),
        ("n_critics", 0),
        ("lr_policy", 0.0),
        ("lr_critic", -1e-3),
        ("lr_context_encoder", float("nan")),
        ("lr_alpha", float("inf")),
        ("reward_scale", 0),
        ("lr_scope", "everything"),
        ("gamma", 1.01),
        ("gamma", -0.1),
        ("gamma", float("nan")),
        ("tau", 2.0),
        ("alpha", -0.1),
        ("probability_floor", -0.1),
        ("probability_floor", float("nan")),
        ("alpha", float("inf")),
        ("target_entropy_scale", float("nan")),
        ("batch_steps", 0),
        ("context_length", 0),
        ("subset_size", 0),
        ("subset_size", 9),
        ("n_critics", 1),
        ("policy_delay", 0),
        ("steps", 0),
        ("steps", 10**30),
        ("warmup_steps", 10**13),
        ("seed", -1),
        ("num_envs", 0),
        ("max_episode_steps", 0),
        ("eval_every", -1),
        ("threads", -1),
        ("device", "tpu"),
    ],
)
def test_values_that_cannot_work(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"\b{name}="):
        Config.build().replace(**{name: value})


@pytest.mark.parametrize("encoder", ["mambo", ["mamba"], 3])
def test_an_encoder_that_does_not_exist(encoder: Any) -> None:
    for build in (Config.build().replace, lambda **settings: Config.build("", settings)):
        with pytest.raises(ConfigError, match=rf"no encoder {re.escape(repr(encoder))}.*mamba"):
            build(encoder=encoder)


@pytest.mark.parametrize("method", ["reseI", ["resel"], 3])
def test_a_method_that_does_not_exist(method: Any) -> None:
    with pytest.raises(ConfigError, match=rf"no method {re.escape(repr(method))}.*resel"):
        Config.build("", {"method": method})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 256.0),
        ("width", "256"),
        ("width", True),
        ("width", None),
        ("steps", 1e6),
        ("gamma", "0.9"),
        ("gamma", True),
        ("gamma", None),
        ("feed_forward", 1),
        ("reward_input", "yes"),
        ("device", 0),
        ("alpha", "auto"),
        ("context_length", 1.5),
    ],
)
def test_values_of_the_wrong_type(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{name}=.* has the wrong type"):
        Config.build().replace(**{name: value})


def test_words_that_were_meant_are_named() -> None:
    with pytest.raises(ConfigError, match="expected float or 'auto'"):
        Config.build().replace(lr_context_encoder="Auto")


@pytest.mark.parametrize("name", ["context_length", "alpha", "target_entropy_scale"])
def test_optional_settings_take_none(name: str) -> None:
    number = {"context_length": 64}.get(name, 0.5)
    config = Config.build().replace(**{name: number})
    assert config.flat()[name] == number
    assert config.replace(**{name: None}) == Config.build()


def test_whole_numbers_serve_as_floats() -> None:
    assert Config.build().replace(gamma=1).algorithm.gamma == 1


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1"])
def test_devices(device: str) -> None:
    assert Config.build().replace(device=device).training.device == device


def test_an_unknown_setting_is_named_with_what_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"'lr_polcy'.*Did you mean .*lr_policy"):
        Config.build().replace(lr_polcy=1e-3)
    with pytest.raises(ConfigError, match=r"no setting named 'qqqq'\.$"):
        Config.build().replace(qqqq=1)
    with pytest.raises(ConfigError, match="no setting named 'network'"):
        Config.build().replace(network=Config.build().network)


def test_errors_are_of_the_house() -> None:
    assert issubclass(ConfigError, ReselError) and ConfigError.exit_code == 2


def test_later_layers_win() -> None:
    config = Config.build("T", {"gamma": 0.5, "width": 64}, {"gamma": 0.7}, {"steps": 10})
    assert (config.task, config.algorithm.gamma) == ("T", 0.7)
    assert (config.network.width, config.training.steps) == (64, 10)
    untouched = {n: v for n, v in config.flat().items() if n not in ("gamma", "width", "steps")}
    defaults = Config.build().flat()
    assert untouched == {n: defaults[n] for n in untouched}


def test_layers_are_judged_together() -> None:
    """A value that cannot work may be put right by a later layer."""
    assert Config.build("", {"gamma": 3.0}, {"gamma": 0.9}).algorithm.gamma == 0.9
    fewer = Config.build("", {"n_critics": 1}, {"subset_size": 1})
    assert (fewer.algorithm.n_critics, fewer.algorithm.subset_size) == (1, 1)


def test_replace_leaves_the_original() -> None:
    config = Config.build()
    changed = config.replace(task="X", width=32, gamma=0.5)
    assert config == Config.build() and changed != config
    assert (changed.task, changed.network.width) == ("X", 32)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.task = "Y"  # type: ignore[misc]


rates = st.floats(1e-8, 1.0)
some_settings = st.fixed_dictionaries(
    {},
    optional={
        "encoder": st.sampled_from(["mamba", "gru", "lstm", "mlp"]),
        "width": st.integers(1, 1024),
        "feed_forward": st.booleans(),
        "conv_kernel": st.integers(0, 16),
        "n_critics": st.integers(2, 16),
        "lr_context_encoder": rates,
        "lr_policy": rates,
        "lr_scope": st.sampled_from(["encoder", "rnn"]),
        "gamma": st.floats(0, 1),
        "alpha": st.none() | st.floats(0, 10),
        "target_entropy_scale": st.none() | st.floats(-5, 5),
        "context_length": st.none() | st.integers(1, 10**6),
        "seed": st.integers(0, 2**63),
        "steps": st.integers(1, 10**9),
        "max_episode_steps": st.none() | st.integers(1, 10**6),
        "device": st.sampled_from(["auto", "cpu", "cuda:3"]),
    },
)


@settings(max_examples=100, deadline=None)
@given(task=st.text(max_size=20), changes=some_settings)
def test_json_round_trip(task: str, changes: dict[str, Any]) -> None:
    config = Config.build(task, changes)
    again = Config.from_json(json.loads(json.dumps(config.to_json(), allow_nan=False)))
    assert again == config
    for name, value in changes.items():
        if name in ("feed_forward", "conv_kernel") and config.encoder != "mamba":
            assert name not in again.flat()
        else:
            assert again.flat()[name] == value


def test_json_may_leave_settings_out() -> None:
    assert Config.from_json({}) == Config.build()
    assert Config.from_json({"task": "T", "network": {"width": 8}}) == Config.build(
        "T", {"width": 8}
    )


def test_settings_that_a_method_no_longer_has() -> None:
    method = get_method("resel")
    former = method.former
    assert former and isinstance(hash(method), int)
    assert Config.from_json({"algorithm": {**former, "gamma": 0.9}}) == Config.build(
        "", {"gamma": 0.9}
    )
    for name, value in former.items():
        assert name not in Config.build().flat()
        with pytest.raises(ConfigError, match=f"{name}=.* this version no longer has"):
            Config.from_json({"algorithm": {name: not value}})


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"netwrok": {}}, "netwrok"),
        ({"network": {"gamma": 0.9}}, "network.gamma"),
        ({"algorithm": {"new_trick": 1}}, "algorithm.new_trick"),
        ({"network": 3}, "'network'"),
        ({"encoder": ["mamba"]}, "encoder="),
        ({"method": None}, "method="),
        ({"task": 3}, "task="),
        ({"encoder": "gru", "encoder_settings": {"conv_kernel": 4}}, "encoder_settings.conv_ker"),
        ({"network": {"width": "8"}}, "width="),
        ({"training": {"steps": 2.5}}, "steps="),
        ({"algorithm": {"subset_size": 9}}, "subset_size=9"),
    ],
)
def test_json_that_cannot_be_read(data: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Config.from_json(data)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("20000", 20_000),
        ("20_000", 20_000),
        ("1.5e6", 1_500_000),
        ("2e4", 20_000),
        ("1E3", 1000),
        ("5.0", 5),
        ("-3", -3),
    ],
)
def test_counts_as_people_write_them(text: str, value: int) -> None:
    assert parse_count(text) == value
    assert type(parse_count(text)) is int


@pytest.mark.parametrize(
    "text", ["", "many", "1.5", "1e-3", "nan", "inf", "1e999", "0x10", "1,000"]
)
def test_counts_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="write 20000, 20_000 or 2e4"):
        parse_count(text)


@settings(deadline=None)
@given(st.integers(-(2**53), 2**53))
def test_every_count_is_read_exactly(number: int) -> None:
    assert parse_count(str(number)) == number
    assert parse_count(f"{number:_}") == number

"""Which observations are images, and how they are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from image_worlds import Cameras

from resel.envs import CheckedEnv, FlatImage, ImageShape, ObservationSpec
from resel.errors import BadInputError, EnvironmentFault, UnsupportedSpaceError

BIG = 2**31 - 1


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), ImageShape(84, 84, 3, False, 255)),
        (spaces.Box(0, 255, (3, 84, 84), np.uint8), ImageShape(84, 84, 3, True, 255)),
        (spaces.Box(0, 255, (210, 160, 3), np.uint8), ImageShape(210, 160, 3, False, 255)),
        (spaces.Box(0, 255, (4, 84, 100), np.uint8), ImageShape(84, 100, 4, True, 255)),
        (spaces.Box(0, 1, (7, 7, 20), np.uint8), ImageShape(7, 7, 20, False, 1)),
        (spaces.Box(0, 10, (7, 7, 7), np.uint8), ImageShape(7, 7, 7, False, 10)),
        (spaces.Box(0, 255, (9, 8), np.uint8), ImageShape(9, 8, 1, False, 255)),
        (spaces.Box(0, 1, (8, 8, 3), np.float32), ImageShape(8, 8, 3, False, 1)),
        (spaces.Box(0, 255, (8, 8, 3), np.float32), ImageShape(8, 8, 3, False, 255)),
        (spaces.Box(0, 0.5, (8, 8, 3), np.float32), ImageShape(8, 8, 3, False, 1)),
        (FlatImage(3, 5, 5), ImageShape(5, 5, 3, True, 1)),
        (spaces.Box(0, 1, (8, 8), np.float32), None),
        (spaces.Box(-np.inf, np.inf, (8, 8, 3), np.float32), None),
        (spaces.Box(0, BIG, (8, 8, 3), np.int32), None),
        (spaces.Box(0, 255, (128,), np.uint8), None),
        (spaces.Box(0, 255, (2, 8, 8, 3), np.uint8), None),
        (spaces.Discrete(3), None),
    ],
    ids=str,
)
def test_an_image_is_told_by_its_space(
    space: spaces.Space[Any], expected: ImageShape | None
) -> None:
    assert ObservationSpec.of(space).images == (() if expected is None else (expected,))


def test_images_lie_as_bytes_between_the_bytes_of_other_numbers() -> None:
    spec, world = ObservationSpec.of(Cameras.LAYOUT), Cameras()
    assert spec.size == 3 + 3 * 14 * 16 + 3 + 5 * 6
    assert spec.dtype == np.uint8 and spec.stored_size == 4 * 3 + 3 * 14 * 16 + 4 * 3 + 5 * 6
    far, near = spec.images
    assert far == ImageShape(14, 16, 3, True, 255, 3)
    assert near == ImageShape(5, 6, 1, False, 10, 3 + 3 * 14 * 16 + 3)
    seen = [world.reset(seed=seed)[0] for seed in range(3)]
    stored = [spec.encode(one) for one in seen]
    for one, kept in zip(seen, stored, strict=True):
        expected = np.concatenate(
            [one["arm"], one["far"].reshape(-1), np.eye(3)[one["gear"]], one["near"].reshape(-1)]
        )
        np.testing.assert_array_equal(spec.numbers(kept), expected.astype(np.float32))
    together = spec.encode_batch(seen, 3)
    np.testing.assert_array_equal(together, np.stack(stored))
    np.testing.assert_array_equal(
        spec.numbers(together), np.stack([spec.numbers(one) for one in stored])
    )


def test_an_image_is_stored_as_it_is_and_copied() -> None:
    spec = ObservationSpec.of(spaces.Box(0, 255, (4, 5, 3), np.uint8))
    picture = np.arange(60, dtype=np.uint8).reshape(3, 4, 5).transpose(1, 2, 0)
    stored = spec.encode(picture)
    assert stored.dtype == np.uint8 and stored.tobytes() == picture.tobytes()
    kept = stored.copy()
    picture[:] = 0
    np.testing.assert_array_equal(stored, kept)
    for same in (kept.reshape(4, 5, 3).tolist(), kept.reshape(4, 5, 3).astype(np.float64)):
        np.testing.assert_array_equal(spec.encode(same), kept)


@pytest.mark.parametrize("value", [0.5, -1, 256])
def test_pixels_that_are_none_are_refused(value: float) -> None:
    spec = ObservationSpec.of(spaces.Box(0, 255, (4, 5), np.uint8))
    picture = np.zeros((4, 5), np.float32)
    picture[2, 1] = value
    with pytest.raises(
        BadInputError, match=rf"holds {value:g} at index \(2, 1\).*declare the spac"
    ):
        spec.encode(picture)
    with pytest.raises(BadInputError, match=r"shape \(5, 4\), expected \(4, 5\)"):
        spec.encode(np.zeros((5, 4), np.uint8))


def test_spaces_that_store_alike_are_described_alike() -> None:
    def described(*arguments: Any) -> Any:
        return ObservationSpec.of(spaces.Box(*arguments)).to_json()

    shape = (8, 8, 3)
    assert described(0, 1, shape, np.float32) == {"type": "Box", "shape": [8, 8, 3]}
    assert described(0, 255, shape, np.uint8) == described(np.uint8(0), 255, shape, np.uint8)
    assert described(0, 255, shape, np.uint8) != described(0, 1, shape, np.float32)
    assert described(0, 255, shape, np.uint8) != described(0, 10, shape, np.uint8)


def test_a_pixel_above_its_bound_is_told() -> None:
    class TooBright(Cameras):
        def _seen(self) -> dict[str, Any]:
            return {**super()._seen(), "near": np.full((5, 6), 11, np.uint8)}

    told: list[str] = []
    CheckedEnv(TooBright(), tell=told.append).reset(1)
    assert len(told) == 1 and "has 11 as number 678, outside the [0, 10]" in told[0]


def test_an_environment_that_shows_other_numbers_than_it_declares_is_named() -> None:
    class Floats(Cameras):
        def _seen(self) -> dict[str, Any]:
            return {**super()._seen(), "near": np.full((5, 6), 0.5, np.float32)}

    with pytest.raises(EnvironmentFault, match=r"observation\['near'\] holds 0.5 .* of uint8"):
        CheckedEnv(Floats()).reset(1)


def test_the_text_of_a_mission_is_refused_with_the_wrapper() -> None:
    class MissionSpace(spaces.Space[str]):
        pass

    space = spaces.Dict({"image": spaces.Box(0, 255, (7, 7, 3), np.uint8), "m": MissionSpace()})
    with pytest.raises(UnsupportedSpaceError, match=r"ImgObsWrapper.*minigrid:grid_env"):
        ObservationSpec.of(space)

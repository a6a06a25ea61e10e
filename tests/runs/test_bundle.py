"""Bundles come back as they were written, or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.errors import BadInputError, DamagedFileError, RunDirectoryError, StorageError
from resel.runs import find_bundle, read_bundle, write_bundle
from resel.runs._manifest import VERSION
from resel.training import check_tensors

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
TENSORS = {"policy": {"w": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(7)}}
DOCUMENTS = {"config": {"gamma": 0.99, "name": "x"}, "confiG": [1, None, True]}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "agent"
    write_bundle(path, "agent", TENSORS, DOCUMENTS)
    return path


def edit_manifest(path: Path, **changes: Any) -> None:
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def assert_damaged(path: Path, *words: str) -> None:
    with pytest.raises(DamagedFileError) as caught:
        read_bundle(path, "agent")
    for word in words:
        assert word in str(caught.value)


@st.composite
def any_tensor(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    seed = draw(st.integers(0, 2**31))
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3
    tensor = values.to(draw(st.sampled_from(DTYPES)))
    return tensor.transpose(0, -1) if tensor.dim() > 1 and draw(st.booleans()) else tensor


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Lone surrogates included: JSON can carry them.
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    tensors=st.dictionaries(
        st.sampled_from(["policy", "critic.target", "a-b_0"]),
        st.dictionaries(st.text(max_size=5), any_tensor(), max_size=3),
    ),
    documents=st.dictionaries(st.sampled_from(["config", "policy", "rng"]), plain_json),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    tensors: dict[str, dict[str, torch.Tensor]],
    documents: dict[str, Any],
) -> None:
    path = tmp_path_factory.mktemp("round") / "bundle"
    write_bundle(path, "checkpoint", tensors, documents)
    bundle = read_bundle(path, "checkpoint")
    assert bundle.documents == documents
    assert bundle.tensors.keys() == tensors.keys()
    for name, group in tensors.items():
        assert bundle.tensors[name].keys() == group.keys()
        check_tensors(bundle.tensors[name], group, name)
        for key, tensor in group.items():
            assert torch.equal(bundle.tensors[name][key], tensor)
    assert [entry.name for entry in path.parent.iterdir()] == ["bundle"]


def test_tensors_that_share_memory_are_saved_apart(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    weight = torch.nn.Parameter(torch.ones(3))
    group = {"a": base, "b": base, "half": base[6:], "strided": base[::2], "p": weight, "q": weight}
    group["row"] = torch.arange(3.0).expand(4, 3)
    write_bundle(tmp_path / "x", "agent", {"t": group}, {})
    loaded = read_bundle(tmp_path / "x", "agent").tensors["t"]
    assert all(torch.equal(loaded[name], group[name]) for name in group)
    loaded["a"][0] = 100
    assert loaded["b"][0] == 0


def test_loaded_tensors_do_not_follow_the_file(saved: Path) -> None:
    loaded = read_bundle(saved, "agent").tensors["policy"]
    with (saved / "policy.safetensors").open("r+b") as stream:
        stream.seek(-24, os.SEEK_END)
        stream.write(b"\xff" * 24)
    assert torch.equal(loaded["w"], TENSORS["policy"]["w"])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_flipped_bit_anywhere_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("flip") / "agent"
    write_bundle(path, "agent", TENSORS, {"x": [1], "y": [2]})
    file = data.draw(st.sampled_from(sorted(path.iterdir())))
    content = bytearray(file.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)
    assert_damaged(path)


def test_a_name_flipped_into_its_neighbour_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    write_bundle(path, "agent", {}, {"x": 1, "y": 2})
    manifest = path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("x.json", "y.json"))
    assert_damaged(path, "manifest.json", "twice")


@pytest.mark.parametrize("file", ["policy.safetensors", "config.json", "manifest.json"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_truncated(saved: Path, file: str, keep: float) -> None:
    content = (saved / file).read_bytes()
    (saved / file).write_bytes(content[: int(len(content) * keep)])
    assert_damaged(saved, str(saved / file), "earlier copy")


@pytest.mark.parametrize("file", ["policy.safetensors", "config.json", "manifest.json"])
def test_missing(saved: Path, file: str) -> None:
    (saved / file).unlink()
    assert_damaged(saved, file, "earlier copy")


def test_longer_or_of_equal_size(saved: Path) -> None:
    file = saved / "config.json"
    content = file.read_bytes()
    file.write_bytes(content + b" ")
    assert_damaged(saved, "config.json", f"{len(content) + 1} bytes instead of {len(content)}")
    file.write_bytes(content.replace(b"0.99", b"0.98"))
    assert_damaged(saved, "config.json", "SHA-256")


def test_renamed_and_extra_files(saved: Path) -> None:
    (saved / "extra.json").write_text("{}")
    assert "extra" not in read_bundle(saved, "agent").documents
    (saved / "policy.safetensors").rename(saved / "actor.safetensors")
    assert_damaged(saved, "policy.safetensors", "missing")


@pytest.mark.parametrize("file", ["policy.safetensors", "manifest.json"])
def test_links_are_not_followed(saved: Path, file: str) -> None:
    elsewhere = saved.parent / "elsewhere"
    (saved / file).rename(elsewhere)
    (saved / file).symlink_to(elsewhere)
    assert_damaged(saved, file, "regular file")


def test_hard_links_are_not_read(saved: Path) -> None:
    """Whoever has the other name could change the file at any time."""
    os.link(saved / "policy.safetensors", saved.parent / "elsewhere")
    assert_damaged(saved, "policy.safetensors", "hard link")


def test_folders_and_pipes_are_not_read(saved: Path) -> None:
    (saved / "policy.safetensors").unlink()
    os.mkfifo(saved / "policy.safetensors")
    assert_damaged(saved, "regular file")


@pytest.mark.parametrize(
    "name",
    ["../config.json", "/etc/x.json", "a/b.json", "manifest.json", ".x.json", "x.pkl", "", "x\n"],
)
def test_names_that_lead_elsewhere(saved: Path, name: str) -> None:
    edit_manifest(saved, files={name: {"size": 2, "sha256": "0" * 64}})
    assert_damaged(saved, "manifest.json", "plain file name")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"format": "other"}, "resel-bundle"),
        ({"version": VERSION + 1}, "Update resel"),
        ({"version": VERSION - 1}, "older resel"),
        ({"version": 0}, "version"),
        ({"version": True}, "version"),
        ({"version": "1"}, "version"),
        ({"kind": "virus"}, "virus"),
        ({"files": []}, "files"),
        ({"more": 1}, "exactly"),
        ({"files": {"config.json": 3}}, "config.json"),
        ({"files": {"config.json": {"size": 1}}}, "config.json"),
        ({"files": {"config.json": {"size": "1", "sha256": ""}}}, "config.json"),
        ({"files": {"config.json": {"size": 1, "sha256": 3}}}, "config.json"),
        ({"files": {"config.json": {"size": -1, "sha256": "0" * 64}}}, "config.json"),
        ({"files": {"config.json": {"size": 1, "sha256": "Z" * 64}}}, "config.json"),
    ],
)
def test_manifest_fields(saved: Path, changes: dict[str, Any], word: str) -> None:
    edit_manifest(saved, **changes)
    assert_damaged(saved, "manifest.json" if "config" not in word else "", word)


@pytest.mark.parametrize("text", ["[]", "null", "{", "[" * 100_000, "\x00", '"x"'])
def test_manifest_that_is_no_object(saved: Path, text: str) -> None:
    (saved / "manifest.json").write_text(text)
    assert_damaged(saved, "manifest.json")


def test_huge_manifest_is_not_read(saved: Path) -> None:
    with (saved / "manifest.json").open("wb") as stream:
        stream.truncate(10**12)
    assert_damaged(saved, "manifest.json", "1000000000000 bytes")


def test_a_valid_checksum_does_not_make_a_file_valid(saved: Path) -> None:
    import hashlib

    for file in ("policy.safetensors", "config.json"):
        garbage = b"\xff" * 64
        (saved / file).write_bytes(garbage)
        entry = {"size": 64, "sha256": hashlib.sha256(garbage).hexdigest()}
        edit_manifest(saved, files={file: entry})
        assert_damaged(saved, file)


def test_wrong_kind(saved: Path) -> None:
    with pytest.raises(DamagedFileError, match="saved agent, but a saved checkpoint is needed"):
        read_bundle(saved, "checkpoint")


def test_no_bundle_there(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="no saved agent at"):
        read_bundle(tmp_path / "nothing", "agent")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="is a file"):
        read_bundle(tmp_path / "file", "agent")
    assert_damaged(tmp_path, "no manifest.json")


@pytest.mark.parametrize("content", ["notes.txt", "manifest.json", "policy.safetensors"])
def test_a_folder_of_somebody_else_is_not_replaced(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / content).write_text("{}")
    with pytest.raises(RunDirectoryError, match="not a bundle"):
        write_bundle(folder, "agent", TENSORS, DOCUMENTS)
    assert [(e.name, e.read_text()) for e in folder.iterdir()] == [(content, "{}")]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_added_to_a_bundle_is_not_lost(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"notes\.txt"):
        write_bundle(saved, "agent", {}, {})
    assert (saved / "notes.txt").read_text() == "mine"
    assert read_bundle(saved, "agent").documents == DOCUMENTS


def test_a_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "agent"
    file.write_text("mine")
    with pytest.raises(RunDirectoryError, match="is a file"):
        write_bundle(file, "agent", {}, {})
    assert file.read_text() == "mine"
    with pytest.raises(RunDirectoryError, match="could not be saved"):
        write_bundle(file / "below", "agent", {}, {})


def test_an_empty_folder_and_a_link_may_be_saved_to(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for number in (1, 2):
        write_bundle(tmp_path / "link", "agent", {}, {"n": number})
        assert read_bundle(tmp_path / "empty", "agent").documents == {"n": number}
    assert (tmp_path / "link").is_symlink()


def test_a_damaged_bundle_may_be_replaced(saved: Path) -> None:
    (saved / "policy.safetensors").unlink()
    write_bundle(saved, "agent", {}, {"n": 1})
    assert read_bundle(saved, "agent").documents == {"n": 1}


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".x", "manifest", "a b"])
def test_names_that_cannot_be_saved(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError):
        write_bundle(tmp_path / "x", "agent", {}, {name: 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, torch.ones(1)])
def test_documents_that_cannot_be_saved(saved: Path, value: Any) -> None:
    with pytest.raises(BadInputError, match="'bad' cannot be saved as JSON"):
        write_bundle(saved, "agent", {}, {"bad": value})
    assert read_bundle(saved, "agent").documents == DOCUMENTS


def test_a_failed_save_leaves_no_litter(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(StorageError, match="No space left"):
        write_bundle(saved, "agent", {}, {"n": 1})
    assert list(saved.parent.iterdir()) == [saved]
    assert read_bundle(saved, "agent").documents == DOCUMENTS


def test_find(saved: Path, tmp_path: Path) -> None:
    assert find_bundle(saved) == saved
    assert find_bundle(tmp_path / "none") is None
    saved.rename(tmp_path / ".old-agent")
    assert find_bundle(saved) == tmp_path / ".old-agent"
    saved.mkdir()  # somebody put a folder of theirs there: it counts, not our remains
    assert find_bundle(saved) is None


EXPECTED = {"w": torch.zeros(2, 3), "n": torch.zeros((), dtype=torch.int64), "e": torch.zeros(0)}


def test_check_tensors_accepts_what_fits() -> None:
    check_tensors(EXPECTED, {k: v.to("meta") for k, v in EXPECTED.items()}, "the policy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": None}, "w is missing"),
        ({"v": torch.zeros(1)}, "v is unknown"),
        ({"w": torch.zeros(3, 2)}, r"w has shape \(3, 2\), expected \(2, 3\)"),
        ({"w": torch.zeros(2, 3).double()}, r"w has dtype torch.float64, expected torch.float32"),
        ({"w": torch.full((2, 3), float("nan"))}, "w holds values that are not finite"),
        ({"w": torch.full((2, 3), float("inf"))}, "w holds values that are not finite"),
        ({f"x{i}": torch.zeros(1) for i in range(5)}, "x2 is unknown \\(and 2 more\\)"),
    ],
)
def test_check_tensors_refuses(change: dict[str, torch.Tensor | None], message: str) -> None:
    tensors = {k: v for k, v in {**EXPECTED, **change}.items() if v is not None}
    with pytest.raises(DamagedFileError, match=message) as caught:
        check_tensors(tensors, EXPECTED, "the policy in agents/last")
    assert "agents/last" in str(caught.value)


def test_a_reader_sees_one_bundle_while_it_is_replaced(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old files checked and new ones loaded must not be mixed."""
    import resel.runs.bundle as module

    parse = module.parse_json
    calls: list[Path] = []

    def parse_late(path: Path, data: bytes) -> Any:
        calls.append(path)
        if len(calls) == 1:  # the first document is the old one already
            write_bundle(saved, "agent", TENSORS, dict.fromkeys(DOCUMENTS, "new"))
        return parse(path, data)

    monkeypatch.setattr(module, "parse_json", parse_late)
    assert set(map(str, read_bundle(saved, "agent").documents.values())) == {"new"}


def test_a_reader_survives_removal_of_the_old_bundle(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resel.runs.bundle as module

    read = module.read_checked
    done: list[bool] = []

    def read_late(path: Path, size: int, digest: str) -> bytes:
        if not done:
            done.append(True)
            shutil.rmtree(saved)
            write_bundle(saved, "agent", {}, {"n": 1})
        return read(path, size, digest)

    monkeypatch.setattr(module, "read_checked", read_late)
    assert read_bundle(saved, "agent").documents == {"n": 1}


def test_documents_with_too_many_values_are_neither_written_nor_read(tmp_path: Path) -> None:
    """A short text can hold numbers that take many times its size in memory."""
    path = tmp_path / "agent"
    with pytest.raises(BadInputError, match="more than 200000 values"):
        write_bundle(path, "agent", {}, {"x": [0] * 200_001})
    assert not path.exists()
    write_bundle(path, "agent", {}, {"x": [0] * 200_000})
    assert read_bundle(path, "agent").documents["x"] == [0] * 200_000

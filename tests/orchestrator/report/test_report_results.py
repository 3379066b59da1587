"""What a report reads: trials, settings that were swept one by one or whole, and folders that
hold nothing.
"""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.errors import ConfigError
from orchestrator.report.data import Results, lookup, read_results, results, rows
from orchestrator.results.log import Log
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.sweeps import write_sweep as write_manifest
from tests.support.synthetic_results import write_sweep

RATIO = "data.split.minority_ratio"


@pytest.mark.parametrize("name", ["empty", "nowhere", "foreign"])
def test_a_folder_without_results_is_a_clear_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    Log(tmp_path / "foreign", "foreign").finish({"version": 3})
    with pytest.raises(FolderError, match="contains no results"):
        read_results(tmp_path / name)


def test_a_sweep_without_trials_and_one_with_a_damaged_manifest(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "s")
    write_manifest(folder, "s", "name: s", [])
    with pytest.raises(FolderError, match="lists no trial"):
        read_results(folder.path)
    folder.manifest.write_text("{")
    with pytest.raises(FolderError, match="manifest.json"):
        read_results(folder.path)


def test_settings_are_the_swept_keys_without_the_seed(tmp_path: Path) -> None:
    ratios, algorithms = [0.3, 0.1], ["ifca_mir", "ifca"]
    grid: dict[str, list[Any]] = {"seed": [0, 1], RATIO: ratios, "clustering.name": algorithms}
    found = read_results(write_sweep(tmp_path / "s", grid))
    assert found.keys == (RATIO, "clustering.name")
    expected = [(0.1, "ifca"), (0.1, "ifca_mir"), (0.3, "ifca"), (0.3, "ifca_mir")]
    assert [setting.values for setting in found.settings] == expected
    assert [trial["seed"] for trial in found.settings[0].trials] == [0, 1]


def test_a_slot_swept_whole_is_told_by_what_differs_in_it(tmp_path: Path) -> None:
    pairs = [
        {"minority": [0, 20], "majority": [20, 40]},
        {"minority": [0, 25], "majority": [25, 50]},
    ]
    found = read_results(write_sweep(tmp_path / "s", {"data.split": pairs, "seed": [0]}))
    assert found.keys == ("data.split.minority", "data.split.majority")
    assert [setting.values for setting in found.settings] == [
        ([0, 20], [20, 40]),
        ([0, 25], [25, 50]),
    ]


def made(*configs: dict, declared: tuple[str, ...]) -> Results:
    table = [{"id": str(i), "status": "finished", "seed": 0} for i in range(len(configs))]
    return results(
        Path("made_up"), table, declared, {str(i): config for i, config in enumerate(configs)}
    )


def test_a_group_with_a_dot_in_its_name_has_metrics_and_no_settings() -> None:
    table = [
        {"id": str(n), "status": "finished", "seed": n, "accuracy_v1.5": 0.5 + n / 10}
        for n in range(2)
    ]
    found = results(Path("made_up"), table, (), {})
    assert (found.keys, found.metrics) == ((), ("accuracy_v1.5",))
    assert found.settings[0].estimate("accuracy_v1.5").mean == pytest.approx(0.55)


def test_fields_that_follow_from_the_component_are_no_settings() -> None:
    none, noisy = {"name": "none"}, {"name": "global_dp", "noise": 1.0}
    assert made({"privacy": none}, {"privacy": noisy}, declared=("privacy",)).keys == (
        "privacy.name",
    )
    quiet = {"name": "global_dp", "noise": 0.5}
    three = made({"privacy": none}, {"privacy": noisy}, {"privacy": quiet}, declared=("privacy",))
    assert three.keys == ("privacy.name", "privacy.noise")
    assert [s.values for s in three.settings] == [
        ("none", None),
        ("global_dp", 0.5),
        ("global_dp", 1.0),
    ]


def test_lists_of_attacks_are_told_by_the_attacks_fields() -> None:
    one, two = ([{"name": "shadow_mia", "every": 5, "shadows": n}] for n in (3, 1))
    found = made({"attacks": one}, {"attacks": two}, declared=("attacks",))
    assert found.keys == ("attacks.shadow_mia.shadows",)


def test_whole_slots_as_json_text_need_no_resolved_run() -> None:
    splits = ('{"name": "groups", "minority": [0, 20]}', '{"name": "groups", "minority": [0, 25]}')
    table = [
        {"id": str(i), "status": "unfinished", "data.split": split}
        for i, split in enumerate(splits)
    ]
    found = results(
        Path("made_up"),
        rows(table),
        ("data.split",),
        {"0": {"data": {"split": {"draw": "per_client"}}}},
    )
    assert found.keys == ("data.split.minority",)
    assert [setting.values for setting in found.settings] == [([0, 20],), ([0, 25],)]


def test_a_list_of_components_is_entered_by_name_or_position() -> None:
    config = {"attacks": [{"name": "shadow_mia", "every": 5}], "rounds": 3}
    assert lookup(config, "attacks.shadow_mia.every") == lookup(config, "attacks.0.every") == 5
    assert lookup(config, "attacks.lira.every") is None
    assert lookup(config, "rounds.deeper") is None
    assert lookup(None, "rounds") is None


def test_a_sweep_file_for_people_is_not_read_and_a_damaged_config_stops_the_report(
    tmp_path: Path,
) -> None:
    folder = write_sweep(tmp_path / "s", {"clustering.name": ["ifca", "ifca_mir"], "seed": [0]})
    (folder / "sweep.yaml").write_text("a: [")
    assert read_results(folder).keys == ("clustering.name",)
    config = min(folder.glob("trials/*/config.yaml"))
    config.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError) as refused:
        read_results(folder)
    assert str(config) in str(refused.value)

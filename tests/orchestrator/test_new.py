"""``fedpriv new`` as a command: it writes a sweep that runs, or says why not and writes nothing."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from algorithms.training import dp_sgd
from datasets import build_federation
from orchestrator.cli import main
from orchestrator.cluster.data_checks import data_problems
from orchestrator.commands import Choices, prepare
from orchestrator.config.sweep_file import Sweep, load_sweep
from tests.support.command import fedpriv


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """Four hospitals with 100 patients each, in a folder beside the one of the sweep file."""
    draw = random.Random(0)
    (tmp_path / "data").mkdir()
    (tmp_path / "work").mkdir()
    path = tmp_path / "data" / "patients.csv"
    lines = ["id,age,sex,pressure,hospital,outcome"]
    for i in range(400):
        age, pressure = draw.randint(20, 90), round(draw.gauss(120, 15), 1)
        outcome = "ill" if age + draw.gauss(0, 10) > 60 else "well"
        lines.append(
            f"{i},{age},{draw.choice('fm')},{pressure},{['north', 'south', 'east', 'west'][i % 4]},{outcome}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("options", [[], ["--client", "hospital"]])
def test_a_table_becomes_a_sweep(patients, tmp_path, capsys, options):
    output = tmp_path / "work" / "sweep.yaml"
    assert (
        main(["new", str(patients), "--label", "outcome", *options, "--output", str(output)]) == 0
    )
    said = capsys.readouterr().out
    assert "patients.csv: 400 rows, 6 columns" in said
    assert "label outcome: 2 classes: ill" in said
    assert f"next: fedpriv run {output} --dry-run" in said
    assert "path: ../data/patients.csv" in output.read_text()
    assert [one.name for one in output.parent.iterdir()] == ["sweep.yaml"]
    sweep = load_sweep(output)
    assert len(sweep.runs) == 9
    assert data_problems(sweep, download=False) == []
    run = sweep.runs[0]
    assert (run.split.name, run.data.config.clients) == (
        ("natural", 3) if options else ("dirichlet", 7)
    )


def sites(folder: Path, kind: str) -> tuple[Path, list[str]]:
    """Four clients of 60 to 120 examples, as a table, arrays or images; and the options."""
    draw = np.random.default_rng(0)
    client = np.repeat(range(4), [60, 80, 100, 120])
    y = draw.integers(0, 2, len(client))
    x = draw.normal(y[:, None], 1, (len(client), 6)).astype(np.float32)
    path = folder / {"table": "t.parquet", "arrays": "t.npz", "images": "t"}[kind]
    if kind == "table":
        columns = {f"x{i}": x[:, i] for i in range(6)}
        pd.DataFrame(columns | {"y": y, "site": client}).to_parquet(path)
        return path, ["--label", "y", "--client", "site"]
    if kind == "arrays":
        np.savez(path, x=x, y=y, client=client)
        return path, ["--client", "client"]
    pixels = draw.integers(0, 255, (len(client), 8, 8), np.uint8)
    for i, image in enumerate(pixels):
        place = path / f"site{client[i]}" / "ab"[y[i]]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{i}.png")
    return path, ["--layout", "client/class"]


@pytest.mark.parametrize("kind", ["table", "arrays", "images"])
def test_the_first_command_that_new_names_ends_well(tmp_path, capsys, kind):
    """The dry run of what it wrote: with clients of the data set aside for the server."""
    source, options = sites(tmp_path, kind)
    output = str(tmp_path / "new.yaml")
    assert main(["new", str(source), *options, "--output", output]) == 0
    assert "server: [" in Path(output).read_text()
    assert main(["run", output, "--dry-run", "--results", str(tmp_path / "r")]) == 0
    assert "estimate: " in capsys.readouterr().out


def test_an_attack_that_the_data_do_not_allow_is_left_out_and_said(tmp_path, capsys):
    """20 clients with 40 rows each, of 48 that differ: no test row is none of a member's."""
    draw = random.Random(0)
    lines = [
        f"{i % 20},{draw.randrange(2)},{draw.randrange(12)},{draw.randrange(2)}" for i in range(800)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["c,a,b,y", *lines]))
    command = ["new", str(tmp_path / "t.csv"), "--label", "y", "--client", "c"]
    written = tmp_path / "new.yaml"
    assert main([*command, "--output", str(written)]) == 0
    said = capsys.readouterr().out
    sweep = load_sweep(written)
    assert "shadow_mia" not in [attack.name for attack in sweep.runs[0].attacks]
    assert "warning: the attack shadow_mia is left out: " in said
    assert data_problems(sweep, download=False) == []
    assert main([*command, "--output", str(written), "--force", "--duplicates", "keep"]) == 0
    sweep = load_sweep(written)
    assert "shadow_mia" in [attack.name for attack in sweep.runs[0].attacks]


@pytest.mark.slow
def test_what_was_written_runs(patients, tmp_path):
    output = tmp_path / "work" / "sweep.yaml"
    assert (
        main(
            [
                "new",
                str(patients),
                "--label",
                "outcome",
                "--client",
                "hospital",
                "--output",
                str(output),
            ]
        )
        == 0
    )
    sets = (
        "base.rounds=2",
        "base.attacks.shadow_mia.every=2",
        "base.attacks.calibrated_mia.replicas=2",
    )
    seeds = "sweep.seed.grid_search=[0]"
    done = fedpriv(
        output, tmp_path / "results", *(word for one in (*sets, seeds) for word in ("--set", one))
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for measured in ("accuracy", "SIA", "calibrated"):
        assert measured in done.stdout


def test_a_sweep_file_is_replaced_only_by_force(patients, tmp_path, capsys):
    output = tmp_path / "work" / "sweep.yaml"
    output.write_text("mine")
    command = ["new", str(patients), "--label", "outcome", "--output", str(output)]
    assert main(command) == 2
    assert "exists already; name another file, or add --force" in capsys.readouterr().err
    assert output.read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert output.read_text() != "mine"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--label", "outcom"],
            "--label: patients.csv has no column 'outcom'. Did you mean 'outcome'?",
        ),
        (["--label", "pressure"], "--label: column 'pressure' is continuous"),
        ([], "--label: is missing"),
        (["--label", "outcome", "--group", "sex"], "--group: is the group of a client"),
        (
            ["--label", "outcome", "--client", "hospital", "--group", "sex"],
            "--group: column 'sex' must be the same in all examples of a client",
        ),
        (
            ["--label", "outcome", "--output", "nowhere/sweep.yaml"],
            "nowhere is no folder that can be written to",
        ),
        (["--label", "outcome", "--output", "."], "--output: . is a folder"),
    ],
)
def test_what_is_refused_writes_nothing(patients, tmp_path, capsys, monkeypatch, options, sentence):
    monkeypatch.chdir(tmp_path / "work")
    before = sorted(tmp_path.rglob("*"))
    assert main(["new", str(patients), *options]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert "nothing was written" in shown.err
    assert "Traceback" not in shown.err
    assert sorted(tmp_path.rglob("*")) == before


def test_columns_and_words_are_what_the_options_say(patients, tmp_path, capsys):
    patients.write_text(patients.read_text().replace(",south,", ",NA,").replace("\n7,", "\n7,old"))
    output = tmp_path / "work" / "sweep.yaml"
    command = [
        "new",
        str(patients),
        "--label",
        "outcome",
        "--client",
        "hospital",
        "--output",
        str(output),
    ]
    assert main(command) == 2
    age, hospital = sorted(capsys.readouterr().err.splitlines()[:2], reverse=True)
    assert "new: column 'age' mixes numbers and texts" in age and ",old46'" in age
    assert hospital.startswith("--client: column 'hospital' has 100 missing values")
    kept = hospital.split("--nulls '")[1].split("'")[0]
    assert (
        main(
            [
                *command,
                "--nulls",
                kept,
                "--drop",
                "age",
                "--drop",
                "sex",
                "--categories",
                "pressure",
            ]
        )
        == 0
    )
    config = load_sweep(output).runs[0].data.config
    assert config.drop == ("age", "sex", "id") and config.categories == ("pressure",)
    assert config.nulls == tuple(kept.split(","))
    assert data_problems(load_sweep(output), download=False) == []
    assert main([*command, "--nulls", "", "--drop", "age", "--force"]) == 0
    assert load_sweep(output).runs[0].data.config.nulls == ()
    assert "client hospital: 4 clients: NA " in capsys.readouterr().out


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u0085"])
def test_a_class_does_not_choose_what_runs(patients, tmp_path, capsys, monkeypatch, sign):
    monkeypatch.chdir(tmp_path / "work")
    Path("evil.py").write_text("open('ran', 'w').close()\n")
    text = patients.read_text(encoding="utf-8").replace(",ill", f",ill{sign}code: evil.py #")
    patients.write_text(text, encoding="utf-8")
    assert main(["new", str(patients), "--label", "outcome"]) == 0
    assert not Path("ran").exists()
    assert load_sweep(Path("sweep.yaml")).code == ()
    assert not Path("ran").exists()
    assert sign not in capsys.readouterr().out


def made(folder: Path, source: Path, *options: str) -> Sweep:
    """The sweep for some data, which can be partitioned with each of its seeds."""
    output = folder / "new.yaml"
    assert main(["new", str(source), *options, "--output", str(output), "--force"]) == 0
    sweep = load_sweep(output)
    for run in sweep.runs[:3]:
        build_federation(
            run.data,
            run.split,
            output.parent,
            lambda _, seed=run.seed: np.random.default_rng(seed),
            download=False,
        )
    return sweep


def test_repeated_examples_of_arrays_and_images_are_dropped(tmp_path, capsys):
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 255, (120, 3, 8, 8), np.uint8)
    labels = np.arange(120) // 2 % 2
    pixels[7], labels[7] = pixels[3], labels[3]
    np.savez(tmp_path / "a.npz", x=pixels, y=labels)
    for i in range(120):
        path = tmp_path / "pets" / ("cat", "dog")[labels[i]] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[i].transpose(1, 2, 0)).save(path)
    (tmp_path / "pets" / "cat" / ".ipynb_checkpoints").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "pets" / "cat" / ".ipynb_checkpoints" / "0.png")
    for name in ("a.npz", "pets"):
        assert made(tmp_path, tmp_path / name).runs[0].data.config.duplicates == "drop"
        assert (
            "repeated examples are dropped: 1 of 120 equal another one" in capsys.readouterr().out
        )


def test_what_is_not_read_of_a_folder_is_said_before_and_after(tmp_path, capsys):
    """By `fedpriv new`, and once by each run, for a sweep file of the user's own may be wrong,
    too.
    """
    draw = np.random.default_rng(0)
    for i in range(120):
        path = (
            tmp_path / "pets" / ("Train", "Test")[i % 3 == 2] / ("cat", "dog")[i % 2] / f"{i}.png"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (8, 8), np.uint8)).save(path)
    (tmp_path / "pets/Train/fish").mkdir()
    (tmp_path / "pets/Train/fish/1.gif").write_text("")
    sweep = made(tmp_path, tmp_path / "pets")
    remarks = [
        "Test is the test part, Train is the training part",
        "not read: 1 .gif in Train/fish",
        "there is no class fish, as none of its files is read",
    ]
    assert [line for line in capsys.readouterr().out.splitlines() if line in remarks] == remarks
    prepare(sweep, Choices(tmp_path / "results", dry=True))
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("data pets: ")] == [
        f"data pets: {line}" for line in remarks
    ]


@pytest.mark.parametrize(
    "sizes",
    [
        [100, 100, 9],
        [100, 100, 10],
        list(range(1, 30)),
        [7, 8, 9, 10, 11, 12] * 8,
        [10] * 30 + [300] * 5,
    ],
)
def test_clients_of_any_size_are_kept_or_left_out_as_the_split_does(tmp_path, sizes):
    draw = random.Random(0)
    rows = [
        f"{draw.gauss(0, 1)},{draw.gauss(0, 1)},c{who},{i % 2}"
        for who, n in enumerate(sizes)
        for i in range(n)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,who,y", *rows]))
    sweep = made(tmp_path, tmp_path / "t.csv", "--label", "y", "--client", "who")
    assert sweep.runs[0].data.config.clients >= 2


@pytest.mark.parametrize("share", [5, 2])
def test_a_small_training_part_that_the_file_names(tmp_path, share):
    draw = random.Random(0)
    rows = [
        f"{draw.gauss(0, 1)},{draw.gauss(0, 1)},{'train' if i % share == 0 else 'test'}"
        for i in range(200)
    ]
    lines = ["a,b,split,y", *(f"{row},{i // share % 2}" for i, row in enumerate(rows))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    config = made(tmp_path, tmp_path / "t.csv", "--label", "y").runs[0].data.config
    assert (config.shadow_size, config.part) == (200 // share // 4, "split")
    assert "test_share" not in (tmp_path / "new.yaml").read_text()


def test_a_training_part_with_next_to_nothing_is_refused(tmp_path, capsys):
    rows = [
        f"{i % 71 + i / 1000},{'train' if i % 20 == 0 else 'test'},{i // 20 % 2}"
        for i in range(200)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["a,split,y", *rows]))
    assert (
        main(
            ["new", str(tmp_path / "t.csv"), "--label", "y", "--output", str(tmp_path / "new.yaml")]
        )
        == 2
    )
    assert (
        "the training part has 10 examples and the test part 190; at least 20 and 2"
        in capsys.readouterr().err
    )


def test_everything_that_is_wrong_is_said_at_once(patients, tmp_path, capsys):
    rows = patients.read_text().splitlines()
    rows[5] = rows[5].rsplit(",", 1)[0] + ","
    rows[7] = ",".join([*rows[7].split(",")[:1], "old", *rows[7].split(",")[2:]])
    patients.write_text("\n".join(rows) + "\n")
    (tmp_path / "work" / "sweep.yaml").write_text("mine")
    command = [
        "new",
        str(patients),
        "--label",
        "outcome",
        "--client",
        "hospitl",
        "--layout",
        "class",
    ]
    assert main([*command, "--output", str(tmp_path / "work" / "sweep.yaml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    for place in ("--output: ", "--layout: ", "--client: ", "--label: ", "new: column 'age' mixes"):
        assert sum(place in line for line in lines) == 1, place


def test_what_is_written_takes_statistics_of_the_server_and_has_an_epsilon(patients, tmp_path):
    output = tmp_path / "work" / "sweep.yaml"
    assert main(["new", str(patients), "--label", "outcome", "--output", str(output)]) == 0
    assert "statistics: server" in output.read_text()
    private = [run for run in load_sweep(output).runs if run.training.name == "dp_sgd"]
    assert private and all(
        dp_sgd.guarantee(run.training.config, run).startswith("dp") for run in private
    )

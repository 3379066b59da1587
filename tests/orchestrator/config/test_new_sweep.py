"""The sweep that `fedpriv new` writes: valid whatever was found, and divided so that every
purpose has examples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.profile import Profile
from orchestrator.config.document import read
from orchestrator.config.listing import sweep_schema
from orchestrator.config.new_sweep import MOST_CLIENTS, MOST_EACH, choices, new_sweep, sizes
from orchestrator.config.run import trial_id
from orchestrator.config.sweep_file import load_sweep


def profile_of(
    counts: int | dict[str, int], one_class: tuple[str, ...] = (), **changed: Any
) -> Profile:
    """Of a table with so many examples, three in ten for testing: of each client, where they are
    named.
    """
    clients = counts if isinstance(counts, dict) else {}
    total = np.array([*clients.values()] or [counts])
    test = np.maximum(1, np.rint(0.3 * total).astype(np.int64))
    fields = {"label": "outcome"} | ({"client": "hospital"} if clients else {})
    notes = ["patients.csv: some rows"]
    profile = Profile(
        "table", fields, {}, notes, (5,), tuple(clients), total - test, test, one_class
    )
    return replace(profile, **changed)


@settings(max_examples=60)
@given(st.integers(70, 200_000))
def test_partitioned_examples_serve_every_purpose(total):
    profile = profile_of(total)
    chosen = sizes(profile)
    left = int(profile.train[0]) - chosen.shadow
    assert 2 <= chosen.clients <= MOST_CLIENTS
    assert chosen.each is None or chosen.each == MOST_EACH <= left // chosen.clients
    assert left // chosen.clients >= 15
    assert 0 < chosen.shadow < left
    assert chosen.smallest > 0


@settings(max_examples=30)
@given(
    st.text(min_size=1, max_size=20),
    st.sampled_from(
        ["null", "1e3", "yes", "a: b", "#x", "- y", "*z", "it's", '"', "ä ö", "01", "{a}", "x,y"]
    ),
)
def test_any_name_of_a_column_or_file_survives(name, column):
    profile = profile_of(300, fields={"label": column, "drop": [column, name]})
    text = new_sweep(profile, f"../{column}.csv", name)
    data = read(text, "x.yaml").value["base"]["data"]
    assert (data["label"], data["drop"], data["path"]) == (
        column,
        [column, name],
        f"../{column}.csv",
    )


BREAKS = ["\u2028", "\u2029", "\u0085", "\n", "\r", "\x0b", "\x0c"]


@pytest.mark.parametrize("sign", BREAKS)
@pytest.mark.parametrize("injected", ["code: evil.py #", "    code: evil.py #", "  rounds: 9999 #"])
def test_no_name_in_the_data_becomes_a_key(sign, injected):
    bad = f"bad{sign}{injected}"
    profile = profile_of(
        {bad: 90, "s": 200, "e": 3, f"{bad}2": 3},
        one_class=(bad,),
        fields={"label": bad, "client": bad, "drop": [bad]},
        remarks={"drop": f"{bad}: it numbers the rows", "label": bad},
        notes=[f"label {bad}: 2 classes: {bad} 100"],
    )
    text = new_sweep(profile, f"../{bad}.csv", bad)
    tree = read(text, "x.yaml").value
    assert list(tree) == ["name", "base", "sweep", "resources"]
    assert list(tree["base"]) == ["rounds", "data", "model", "attacks"]
    assert tree["base"]["rounds"] == 15
    data = tree["base"]["data"]
    assert (data["label"], data["client"], data["drop"], data["path"]) == (
        bad,
        bad,
        [bad],
        f"../{bad}.csv",
    )
    assert all(line.isprintable() for line in text.split("\n"))


def test_the_file_is_a_sweep_with_comments(tmp_path):
    from jsonschema import Draft202012Validator

    for number, profile in enumerate(
        (
            profile_of(300),
            profile_of(300_000),
            profile_of({"n": 90, "s": 200, "e": 3, "w": 7}, one_class=("n", "e")),
            profile_of(100, source="image_folder", shape=(3, 32, 32), fields={"layout": "class"}),
            profile_of(100, source="arrays", shape=(1, 8, 8), fields={"x": "x", "y": "y"}),
        )
    ):
        path = tmp_path / f"{number}.yaml"
        path.write_text(new_sweep(profile, "patients.csv", "my patients (2)"))
        sweep = load_sweep(path)
        assert sweep.name == "my-patients-2"
        assert len({trial_id(run) for run in sweep.runs}) == 9
        assert max(map(len, path.read_text().splitlines())) <= 120
        assert path.read_text().count("#") > 10
        assert Draft202012Validator(sweep_schema()).is_valid(read(path.read_text(), "x.yaml").value)


def test_small_clients_and_clients_of_one_class_are_named():
    text = new_sweep(profile_of({"n": 90, "s": 200, "e": 3}, one_class=("n", "e")), "x.csv", "x")
    assert "too small: e; of one class, so that the label tells whose an example is: n" in text
    assert "split: {name: natural, too_few: leave_out, min_examples: 5, one_class: keep}" in text
    assert "clients: 2 " in text


def test_clients_that_are_left_out_are_counted_and_a_warning_if_many():
    few = profile_of({"n": 90, "s": 200, "e": 3} | {f"w{i}": 60 for i in range(9)})
    many = profile_of({"n": 90, "s": 200, "e": 3, "w": 60})
    assert "1 of 12 clients are left out, with 3 of 833 examples" in choices(few, {})[1]
    assert choices(many, {})[1].startswith("warning: 1 of 4 clients are left out")
    assert len(choices(profile_of({"n": 90, "s": 200, "w": 60}), {})) == 1


def test_rows_that_the_data_give_to_the_server_are_its_shadow_set():
    profile = profile_of({"n": 90, "s": 200, "w": 60}, of_server=40)
    text = new_sweep(profile, "x.csv", "x")
    assert "split: {name: natural, server: part}" in text
    assert "shadow_size: 40 " in text
    assert "target_epsilon: 8.0" in text


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        (profile_of(40), "40 different examples .* are too few"),
        (profile_of({"n": 98, "s": 2}), "1 of 2 clients have 5 examples or more to train on"),
    ],
)
def test_too_little_to_begin_with(profile, sentence):
    with pytest.raises(ValueError, match=sentence):
        new_sweep(profile, "x.csv", "x")

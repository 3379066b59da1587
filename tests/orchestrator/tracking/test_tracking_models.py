"""Trained models in MLflow: sent where they are asked for, once, or with a sentence on why not."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from datasets.components import Component, components
from orchestrator.results.folder import Folder
from orchestrator.results.saved_models import MODELS
from orchestrator.tracking import mlflow_store, pages
from orchestrator.tracking.tracker import Tracker
from tests.support.told_sweep import RUN, copied, told
from tests.support.tracked import NAME, Seen, empty_store, forget, results

__all__ = ["copied", "empty_store", "results", "told"]


def test_models_that_are_asked_for_later_are_sent_alone_and_once(copied, monkeypatch):
    folder, sent, described = Folder(copied / NAME), list[str](), list[str]()
    monkeypatch.setattr(pages, "saved_models", lambda _: {"all": None})
    monkeypatch.setattr(pages, "as_pytorch", lambda _: nullcontext(Path()))
    monkeypatch.setattr(mlflow_store.Store, "models", lambda *_: set())
    monkeypatch.setattr(
        mlflow_store.Store, "log_model", lambda _self, held, name, _place: sent.append(held.name + name)
    )
    monkeypatch.setattr(mlflow_store.Store, "describe", lambda _self, held, *_: described.append(held.name))
    for one in ("ifca0", "ifca_mir1"):
        folder.trial(one).model.write_bytes(b"arrays")
    for asked, expected in ((False, 0), (True, 2), (True, 0)):
        again = Tracker(copied, NAME, with_models=asked)
        again.reconcile(folder.path)
        assert again.without_models == expected and again.behind == bool(expected)
        assert again.close(60)
    assert sorted(sent) == ["ifca, seed 0all", "ifca_mir, seed 1all"] and described == []


def test_models_of_a_run_that_a_user_deleted_are_not_sent(copied, monkeypatch):
    monkeypatch.setattr(pages, "saved_models", lambda _: {})
    folder = Folder(copied / NAME)
    folder.trial("ifca0").model.write_bytes(b"arrays")
    Seen(copied).client.delete_run(Seen(copied).trial("ifca0").info.run_id)
    again = Tracker(copied, NAME, with_models=True)
    again.reconcile(folder.path)
    assert (again.without_models, again.behind) == (0, False) and again.close(60)

    Seen(copied).client.delete_run(Seen(copied).parents[0].info.run_id)
    folder.trial("ifca1").model.write_bytes(b"arrays")
    again = Tracker(copied, NAME, with_models=True)
    again.reconcile(folder.path)
    assert again.without_models == 1 and again.close(60)
    assert (
        sorted(run.info.run_name for run in Seen(copied).runs if run not in Seen(copied).parents)[0] == "ifca, seed 1"
    )
    (parent,) = Seen(copied).parents
    assert parent.info.status == "FINISHED" and Seen(copied).artifacts("", "report") == ["report/trade_off.png"]


@pytest.mark.slow
def test_models_are_sent_once_where_they_are_asked_for(copied):
    import torch
    from mlflow.pytorch import load_model
    from safetensors.torch import save_file

    folder = Folder(copied / NAME)
    trial = folder.trial("ifca0")
    config = {"name": "mlp", "hidden": [4]}
    trial.config.write_text(json.dumps({**RUN, "model": config}))
    record = json.loads(trial.result.read_text())
    trial.result.write_text(json.dumps({**record, "model": {"shape": [3], "classes": 2}}))
    fields = components(MODELS)["mlp"].Config(hidden=(4,))
    module = Component("mlp", fields, MODELS).module.build(fields, (3,), 2)
    arrays = {f"{group}.{name}": array for group in ("all", "few") for name, array in module.state_dict().items()}
    save_file({name: array.clone() for name, array in arrays.items()}, trial.model)
    for _ in range(2):
        forget(folder)
        seen = Seen(copied)
        seen.client.delete_tag(seen.trial("ifca0").info.run_id, mlflow_store.SENT_TAG)
        again = Tracker(copied, NAME, with_models=True)
        again.reconcile(folder.path)
        assert again.close(60)
    seen = Seen(copied)
    run = seen.trial("ifca0")
    found = {one.name: one for one in seen.client.search_logged_models([run.info.experiment_id])}
    assert found.keys() == {"all", "few"}
    assert len(run.outputs.model_outputs) == 2
    x = torch.ones(5, 3)
    loaded = load_model(found["few"].artifact_location)
    assert torch.equal(loaded(x), module.eval()(x))


def test_models_that_cannot_be_built_again_are_said_once(copied):
    from safetensors.numpy import save_file

    folder = Folder(copied / NAME)
    forget(folder)
    for trial in ("ifca0", "ifca1"):
        folder.trial(trial).config.write_text(json.dumps({**RUN, "model": {"name": "mlp", "hidden": [4]}}))
        save_file({"all.1.weight": np.zeros((4, 3), np.float32)}, folder.trial(trial).model)
        assert "model" not in json.loads(folder.trial(trial).result.read_text())
        Seen(copied).client.delete_tag(Seen(copied).trial(trial).info.run_id, mlflow_store.SENT_TAG)
    told: list[str] = []
    again = Tracker(copied, NAME, warn=told.append, with_models=True)
    again.reconcile(folder.path)
    assert again.close(60)
    (sentence,) = told
    assert sentence.startswith("Trained models are not sent to MLflow: trial ifca")
    assert sentence.endswith("does not say what its models take: an earlier version has written it")

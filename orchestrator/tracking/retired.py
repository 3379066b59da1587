"""Takes the MLflow runs of trials that run again with other code out of sight, so that no run mixes the numbers of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.results.folder import Folder
from orchestrator.tracking.labels import SWEEP_TAG, TRIAL_TAG, reason
from orchestrator.tracking.mlflow_store import Store


def retire(folder: Folder, tracking_uri: str | None, trials: Sequence[str]) -> str | None:
    """Delete the runs of trials in MLflow; MLflow keeps what is deleted until somebody empties its bin.

    Args:
        folder: the results folder of the sweep.
        tracking_uri: an MLflow server; None for MLFLOW_TRACKING_URI or the store beside the results.
        trials: the ids of the trials.

    Returns:
        A sentence if MLflow could not be told; None if it was, or knows none of them.
    """
    store = Store(Path(folder.path.parent), folder.name, folder.identity(), tracking_uri)
    if not trials or not store.exists():
        return None
    try:
        client = store.client
        experiment = client.get_experiment_by_name(folder.name)
        query = f"tags.`{SWEEP_TAG}` = '{folder.identity()}'"
        for run in client.search_runs([experiment.experiment_id], query, max_results=5000) if experiment else ():
            if run.data.tags.get(TRIAL_TAG) in trials:
                client.delete_run(run.info.run_id)
    except Exception as error:  # whatever MLflow and its server raise
        return f"MLflow could not be told that trials run again ({reason(error)}); there, their runs hold both results"
    return None

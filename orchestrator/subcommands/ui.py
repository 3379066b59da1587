"""``fedpriv ui``: start MLflow on the results."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from orchestrator import FINISHED

HELP = "open the results in the MLflow UI"
REMEDY = "if mlflow.db is damaged, rename it, and a new one is filled from the results"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "results",
        nargs="?",
        type=Path,
        default=Path("results"),
        help="the results folder (default: results)",
    )
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=5000)


def execute(options: argparse.Namespace) -> int:
    """Fill the store with the sweeps that it lacks, say what to open, the latest first, and
    start the MLflow server.
    """
    import socket
    import subprocess

    from datasets.federation import printable
    from orchestrator.config.errors import refusal
    from orchestrator.results.sweeps import sweeps_in
    from orchestrator.tracking.labels import runs_link
    from orchestrator.tracking.store import connect, named_server, reason, server, without_password
    from orchestrator.tracking.sync import SWEEP, TRIAL
    from orchestrator.tracking.tracker import fill

    named = named_server(None)
    if named:
        raise refusal(
            f"MLFLOW_TRACKING_URI names {without_password(named)}: open that server, or "
            "unset the variable",
            "ui",
        )
    results = sweeps_in(Path(os.path.abspath(options.results)))[0].path.parent
    place = f"{options.host}:{options.port}"
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        socket.create_server((options.host, options.port), family=family).close()
    except (OSError, OverflowError) as error:
        raise refusal(f"{place}: {error}; --port takes another one", "ui") from error
    try:
        argv, environment = server(results, options.port, options.host)
        print("starting MLflow", flush=True)
        for sentence in fill(results):
            print(sentence, flush=True)
        client = connect(results)
        experiments = [
            experiment for experiment in client.search_experiments() if SWEEP in experiment.tags
        ]
        latest = [experiment.experiment_id for experiment in experiments[:1]]
        runs = client.search_runs(
            latest, order_by=["attributes.start_time ASC"]
        )  # the sweep's own begins first
    except Exception as error:  # in MLflow's own words, whatever they are
        raise refusal(f"{reason(error)}; {REMEDY}", "ui") from error
    for experiment in experiments:
        print(
            f"open {runs_link(f'http://{place}', experiment.experiment_id)}   "
            f"{printable(experiment.name)}"
        )
    own = next((run.info for run in runs if TRIAL not in run.data.tags), None)
    if own:
        print(
            f"open http://{place}/#/experiments/{own.experiment_id}/runs/{own.run_id}   "
            f"what {printable(own.run_name)} found"
        )
    # MLflow's start page shows its features for language models; this address opens the list of
    # experiments.
    print(
        f"open http://{place}/#/experiments?workflowType=machine_learning   all sweeps", flush=True
    )
    with subprocess.Popen(argv, env=environment) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            return FINISHED
        finally:
            process.terminate()

"""``fedpriv ui``: start MLflow on the results."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

HELP = "open the results in the MLflow UI"
NEW_STORE = "`fedpriv run SWEEP.yaml --new-store`"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "results", nargs="?", type=Path, default=Path("results"), help="the results folder (default: results)"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5000)


def execute(options: argparse.Namespace) -> int:
    """Become the MLflow server; return only if it cannot be started."""
    from orchestrator.config.errors import ConfigError, ConfigProblem
    from orchestrator.results.obstacles import store_in_the_way
    from orchestrator.tracking.places import TrackingError, named_server, ui
    from orchestrator.tracking.recorded import views
    from orchestrator.tracking.store_file import store_trouble

    problems = store_in_the_way(options.results, "") if named_server(None) is None else []
    if problems:
        raise ConfigError(ConfigProblem(sentence, file="ui") for sentence in problems)
    trouble = None if named_server(None) else store_trouble(options.results, writing=False)
    if trouble:
        helps = f"{trouble}; wait until that has ended" if trouble.passing else trouble.refusal(NEW_STORE)
        raise ConfigError([ConfigProblem(helps, file="ui")])
    try:
        argv, environment = ui(options.results, options.port, options.host)
    except TrackingError as error:
        raise ConfigError([ConfigProblem(str(error), file="ui")]) from error
    server = f"http://{options.host}:{options.port}"
    # The first line is the one to open: the view of the latest sweep, or else the list of experiments.
    for name, link in views(options.results, server):
        print(f"open {link}   {name}")
    # MLflow's start page shows its features for language models; this address opens the list of experiments.
    print(f"open {server}/#/experiments?workflowType=machine_learning   all sweeps", flush=True)
    os.execvpe(argv[0], argv, environment)

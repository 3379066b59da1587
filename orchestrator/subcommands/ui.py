"""``fedpriv ui``: start MLflow on the results."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import FINISHED

if TYPE_CHECKING:
    import subprocess

HELP = "open the results in the MLflow UI"
REMEDY = "`fedpriv run SWEEP.yaml --new-store` renames mlflow.db and fills a new one"
LOOK_SECONDS = 0.5  # from one question to the server whether it answers to the next


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "results", nargs="?", type=Path, default=Path("results"), help="the results folder (default: results)"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5000)


def execute(options: argparse.Namespace) -> int:
    """Fill the store with the sweeps that it lacks, start the MLflow server, and say what to open once it answers."""
    import socket
    import subprocess

    from orchestrator.config.errors import ConfigError, ConfigProblem
    from orchestrator.results.sweeps import sweeps_in
    from orchestrator.tracking.store import named_server, reason, server
    from orchestrator.tracking.tracker import fill

    if named := named_server(None):
        sentence = f"the MLflow server at {named} has pages of its own: open that address"
        raise ConfigError([ConfigProblem(sentence, file="ui")])
    sweeps_in(options.results)
    try:
        argv, environment = server(options.results, options.port, options.host)
        print("starting MLflow", flush=True)
        for sentence in fill(options.results):
            print(sentence, flush=True)
    except Exception as error:  # in MLflow's own words, whatever they are
        raise ConfigError([ConfigProblem(f"{reason(error)}; {REMEDY}", file="ui")]) from error
    place = f"{options.host}:{options.port}"
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        socket.create_server((options.host, options.port), family=family).close()
    except (OSError, OverflowError) as error:
        raise ConfigError([ConfigProblem(f"{place}: {error}; --port takes another one", file="ui")]) from error
    with subprocess.Popen(argv, env=environment) as process:
        try:
            _say_addresses(process, f"http://{place}")
            return process.wait()
        except KeyboardInterrupt:
            return FINISHED
        finally:
            process.terminate()


def _say_addresses(process: subprocess.Popen[bytes], address: str) -> None:
    """Wait until the server answers; then print the view of each sweep, the latest first."""
    from urllib.error import URLError
    from urllib.request import urlopen

    from orchestrator.tracking.labels import view_link
    from orchestrator.tracking.sync import SWEEP

    while process.poll() is None:
        try:
            with urlopen(f"{address}/ajax-api/2.0/mlflow/experiments/search?max_results=1000") as answer:  # noqa: S310
                experiments = json.load(answer).get("experiments", [])
        except (URLError, ConnectionError, ValueError):
            time.sleep(LOOK_SECONDS)
            continue
        ours = [one for one in experiments if any(tag["key"] == SWEEP for tag in one.get("tags", ()))]
        for one in sorted(ours, key=lambda one: -int(one["last_update_time"])):
            print(f"open {view_link(address, one['experiment_id'])}   {one['name']}")
        # MLflow's start page shows its features for language models; this address opens the list of experiments.
        print(f"open {address}/#/experiments?workflowType=machine_learning   all sweeps", flush=True)
        return

"""Where MLflow is: the store beside the results or a server, its environment variables, and how its pages are opened."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from orchestrator.tracking.moved import follow

LOCAL = "mlflow.db"  # the store beside the results
DEFAULT_SERVER = "http://127.0.0.1:5000"  # what ``fedpriv ui`` starts unless told otherwise

SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Fail fast if the server is away; the tracker itself tries again.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    # MLflow must not print into the live table; its errors reach us as exceptions.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


class TrackingError(Exception):
    """MLflow cannot be used as requested. The message is a sentence."""


def configure_environment() -> None:
    """Set the environment variables of MLflow and Ray before their import; values that the user has set are kept."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def named_server(tracking_uri: str | None) -> str | None:
    """The MLflow server from the argument or from MLFLOW_TRACKING_URI; None if the user named none."""
    return tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or None


def address(results: Path, tracking_uri: str | None) -> str:
    """The address of MLflow: the server that the user named, or else the store in ``results``.

    Raises:
        TrackingError: MLflow cannot have a store at that path.
    """
    return named_server(tracking_uri) or local_address(results)


def local_address(results: Path) -> str:
    """The address of RESULTS/mlflow.db, escaped so that SQLAlchemy finds that path. Raises TrackingError."""
    from sqlalchemy import make_url

    path = os.path.abspath(results / "mlflow.db")
    # Before 2.1 SQLAlchemy takes the path literally; since then it decodes it, and an escape may be needed.
    for written in (path, path.replace("%", "%25").replace("?", "%3F")):
        if make_url(f"sqlite:///{written}").database == path:
            return f"sqlite:///{written}"
    raise TrackingError(f"MLflow cannot store runs in {results}, because of the question mark in its path")


def ui(results: Path, port: int, host: str, tracking_uri: str | None = None) -> tuple[list[str], dict[str, str]]:
    """The command line and environment that start the MLflow UI.

    Args:
        results: the folder of all sweeps.
        port: the port to listen on.
        host: the address to listen on.
        tracking_uri: an MLflow server, or None.

    Raises:
        TrackingError: there are no runs to show, or a server has its own UI.
    """
    store = address(results, tracking_uri)
    if store.startswith(("http://", "https://")):
        raise TrackingError(f"the MLflow server at {store} has a user interface of its own: open that address")
    if store == local_address(results) and not (results / "mlflow.db").exists():
        raise TrackingError(f"{results} contains no runs: there is no {results / 'mlflow.db'}")
    if store == local_address(results):
        follow(Path(os.path.abspath(results)))
    artifacts = Path(os.path.abspath(results / "mlartifacts")).as_uri()
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store, "--artifacts-destination", artifacts]
    # One worker, because each takes 300 MB and one person looks at one page at a time; no execution of jobs.
    command += ["--host", host, "--port", str(port), "--workers", "1"]
    silent = {name: SETTINGS[name] for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK")}
    return command, {**os.environ, **silent, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}

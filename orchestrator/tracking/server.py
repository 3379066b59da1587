"""Checks of the MLflow address before a sweep begins: what can be no address is refused, a server that is away is named."""

from __future__ import annotations

import difflib
import re
import socket
from importlib.metadata import entry_points
from urllib.parse import SplitResult, urlsplit

from orchestrator.tracking.store import named_server, without_password

HTTP = {"http": 80, "https": 443}
# What MLflow can write to: a server, a data base of SQLAlchemy, a folder, Databricks; packages may add schemes.
SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "file", "databricks", "databricks-uc", "uc")
PLUGINS = "mlflow.tracking_store"
ANSWER_SECONDS = 3.0


def server_problem(tracking_uri: str | None) -> str | None:
    """Why the address of MLflow can be none, as a sentence; None if it can be one. Nothing is asked over the network.

    Args:
        tracking_uri: the option ``--tracking-uri``; None for MLFLOW_TRACKING_URI, or the store beside the results.

    >>> server_problem("htp://host:5000")
    "'htp' is no scheme of an MLflow address (htp://host:5000). Did you mean 'http'?"
    >>> server_problem("localhost:5000")
    'localhost:5000 is no MLflow address. Did you mean http://localhost:5000?'
    """
    uri = named_server(tracking_uri)
    if uri is None:
        return None
    shown = without_password(uri)
    if re.match(r"[\w.-]+:\d+(/|$)", uri):
        return f"{shown} is no MLflow address. Did you mean http://{shown}?"
    split = _split(uri)
    if split is None:
        return f"{shown} is no MLflow address, which looks like http://HOST:5000"
    scheme = split.scheme.partition("+")[0]
    known = (*SCHEMES, *(point.name for point in entry_points(group=PLUGINS)))
    if scheme and scheme not in known:
        near = difflib.get_close_matches(scheme, known, 1)
        rest = f"Did you mean {near[0]!r}?" if near else "A server's address begins with http:// or https://"
        return f"{scheme!r} is no scheme of an MLflow address ({shown}). {rest}"
    if scheme in HTTP and not split.hostname:
        return f"{shown} names no host; the address of an MLflow server looks like http://HOST:5000"
    return None


def server_note(tracking_uri: str | None) -> str | None:
    """A sentence if the MLflow server does not answer now, which does not stop a sweep; None if it does.

    Args:
        tracking_uri: as for `server_problem`, which has found no problem.
    """
    uri = named_server(tracking_uri)
    split = _split(uri) if uri else None
    if uri is None or split is None or split.scheme not in HTTP:
        return None
    try:
        socket.create_connection((split.hostname, split.port or HTTP[split.scheme]), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()
        return (
            f"the MLflow server at {without_password(uri)} does not answer now ({reason}); the sweep runs all the same, "
            "and what the server misses is sent when it is there, or by the next run of this sweep"
        )
    return None


def _split(uri: str) -> SplitResult | None:
    """The parts of an address; None if it has none, for example because its port is no number."""
    try:
        split = urlsplit(uri)
        _ = split.port
    except ValueError:
        return None
    return split

"""Where MLflow is: a server, or the store beside the results, ``mlflow.db`` with its artifacts
in ``mlartifacts``.

An address that can be none is refused before a sweep begins.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from orchestrator.config.errors import unknown_name
from orchestrator.results.paths import FolderError
from orchestrator.results.writing import open_plain, remove, write_atomically

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOCAL = "mlflow.db"
ARTIFACTS = "mlartifacts"
JOURNALS = ("-journal", "-wal", "-shm")  # SQLite's, which belong to the store beside them
MAGIC = b"SQLite format 3\0"
# What MLflow can write to: a server, a data base of SQLAlchemy, a folder, Databricks; packages may
# add schemes.
FOLDERS = ("", "file")
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
DATABRICKS = ("databricks", "databricks-uc", "uc")
SCHEMES = (*FOLDERS, "http", "https", *DATABASES, *DATABRICKS)
SERVER = "http://HOST:5000"
OTHERS = f"give sqlite:///FILE.db or a server, {SERVER}"
# of HTTP
UNKNOWN_USER = 401
FORBIDDEN = 403
PLUGINS = "mlflow.tracking_store"
SILENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
SETTINGS = SILENT | {
    # Fail fast if the server is away; the next `sync` sends what is missing.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    # MLflow must not print into the live table; its errors reach us as exceptions.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def configure_environment() -> None:
    """Set the environment variables of MLflow before its import; values that the user has set
    are kept.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def named_server(tracking_uri: str | None) -> str | None:
    """The MLflow server from the argument or from MLFLOW_TRACKING_URI; None if the user named
    none.
    """
    return tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or None


def server_problem(tracking_uri: str | None) -> str | None:
    """Why the address of MLflow can be none, as a sentence; None if it can be one.

    Nothing is asked over the network.

    >>> server_problem("localhost:5000")
    'localhost:5000 is no MLflow address. Did you mean http://localhost:5000?'
    """
    uri = named_server(tracking_uri) or ""
    place = without_password(uri)
    if re.match(r"[\w.-]+:\d+(/|$)", uri):
        return f"{place} is no MLflow address. Did you mean http://{place}?"
    try:
        split = urlsplit(uri)
        port = split.port  # raises where it is none
        is_usable = split.scheme not in ("http", "https") or (split.hostname and port != 0)
    except ValueError:
        is_usable = False
    if not is_usable:
        return f"{place} is no MLflow address, which looks like http://HOST:5000"
    scheme = uri if uri in DATABRICKS else split.scheme.partition("+")[0]
    known = {*SCHEMES, *(it.name for it in entry_points(group=PLUGINS))}
    if scheme in known:
        return _unwritable(uri, scheme)
    return unknown_name(
        f"{scheme!r} is no scheme of an MLflow address ({place})", scheme, known - {""}
    )


def _unwritable(uri: str, scheme: str) -> str | None:
    """Why the MLflow here cannot keep anything at an address with a known scheme, as a sentence;
    None if it can.
    """
    place = without_password(uri)
    try:
        if scheme in DATABASES:
            return _no_data_base(uri, place)
        if scheme in DATABRICKS:
            _open(uri)
        elif uri and scheme in FOLDERS:
            with tempfile.TemporaryDirectory() as folder:  # which MLflow may fill
                _open(Path(folder).as_uri())
    except Exception as error:  # whatever MLflow or SQLAlchemy raise
        if scheme not in FOLDERS:
            return f"MLflow cannot use {place} here ({reason(error)[:150]}); {OTHERS}"
        file = os.path.abspath(f"{unquote(urlsplit(uri).path)}.db")
        return (
            f"{place} is a folder, and this MLflow writes to none; give sqlite:///{file} or a "
            f"server, {SERVER}"
        )
    return None


def _open(uri: str) -> None:
    """Have MLflow open a store. Raises its errors."""
    configure_environment()
    from mlflow import MlflowClient

    _ = MlflowClient(uri)._tracking_client.store


def _no_data_base(uri: str, place: str) -> str | None:
    """Why an address names no data base; of SQLite, MLflow would try for minutes, or keep it in
    memory.

    Raises:
        Exception: SQLAlchemy's, where it knows no such data base, or the package for it is missing.
    """
    from sqlalchemy import make_url

    url = make_url(uri)
    url.get_dialect().import_dbapi()
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or ":memory:" in url.database:
        return f"{place} keeps nothing; {OTHERS}"
    file = Path(url.database).absolute()
    if file.exists():
        return None if _is_sqlite(file) else f"{file} is no SQLite data base; {OTHERS}"
    folder = next(parent for parent in file.parents if parent.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return None
    return f"{file} cannot be made: {folder} is no folder that this user may write to"


def _is_sqlite(file: Path) -> bool:
    """Whether a file is a SQLite data base; an empty one becomes one."""
    if not file.is_file():
        return False
    with open(file, "rb") as opened:
        return opened.read(len(MAGIC)) in (b"", MAGIC)


def address(results: Path, tracking_uri: str | None = None) -> str:
    """The address of MLflow: the server that the user named, or else the store in ``results``."""
    from sqlalchemy import URL

    named = named_server(tracking_uri)
    if named:
        return named
    file = os.path.abspath(results / LOCAL)
    plain = f"sqlite:///{file}"
    is_plain = str(URL.create("sqlite", database=file)) == plain
    # Of an address that begins with sqlite:///, MLflow makes the folder as it is written there:
    # "%C3%BC" instead of "ü".
    return plain if is_plain else str(URL.create("sqlite+pysqlite", database=file))


def artifacts(results: Path, tracking_uri: str | None = None) -> Path | None:
    """The folder of all artifacts; None if a server decides where they are."""
    return None if named_server(tracking_uri) else Path(os.path.abspath(results / ARTIFACTS))


def connect(results: Path, tracking_uri: str | None = None) -> MlflowClient:
    """A connection to MLflow; the store beside the results is created if there is none.

    Raises:
        FolderError: there can be no store.
        Exception: MLflow's errors, if it cannot be reached or cannot open the store.
    """
    configure_environment()
    from mlflow import MlflowClient

    if named_server(tracking_uri) is None:
        store = results / LOCAL
        if not results.is_dir():  # MLflow would make it again
            raise FolderError(f"{results} was deleted or renamed")
        if not os.path.lexists(store):
            _create(store)
        for path in (results / ARTIFACTS, *(Path(f"{store}{ending}") for ending in JOURNALS)):
            if path.is_symlink():
                raise FolderError(f"{path} is a link, through which nothing is written")
        try:
            with open_plain(store) as file:
                magic = file.read(len(MAGIC))
        except OSError as error:
            raise FolderError(f"{store} cannot be read: {str(error.strerror).lower()}") from error
        if magic not in (b"", MAGIC):  # MLflow would try for minutes
            raise FolderError(f"{store} is no SQLite data base")
    client = MlflowClient(address(results, tracking_uri))
    with suppress(
        AttributeError
    ):  # MLflow keeps connections by address, and the file may be another one by now
        client._tracking_client.store.engine.dispose()
    return client


def _create(store: Path) -> None:
    """Create a store at once: MLflow takes 4 s, and if it were killed meanwhile, could not open
    what is there.
    """
    from mlflow import MlflowClient

    with tempfile.TemporaryDirectory() as folder:
        MlflowClient(address(Path(folder))).search_experiments(max_results=1)
        content = (Path(folder) / LOCAL).read_bytes()
    if not store.exists():  # another run may have been faster
        for ending in JOURNALS:  # of a store that somebody has renamed or deleted
            remove(Path(f"{store}{ending}"))
        write_atomically(store, content)


def server(results: Path, port: int, host: str) -> tuple[list[str], dict[str, str]]:
    """The command line and environment of MLflow's server on the store beside the results."""
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", address(results)]
    command += ["--artifacts-destination", Path(os.path.abspath(results / ARTIFACTS)).as_uri()]
    # One worker, because each takes 300 MB and one person looks at one page at a time; no execution
    # of jobs.
    command += ["--host", host, "--port", str(port), "--workers", "1"]
    return command, {**os.environ, **SILENT, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def reason(error: BaseException) -> str:
    """A short reason for an error.

    >>> reason(OSError("POST http://host/api: [Errno 111] Connection refused')"))
    'connection refused'
    """
    text = without_password(" ".join(str(error).split())) or type(error).__name__
    if "timed out" in text:
        return "it does not answer in time"
    system = re.search(r"\[Errno -?\d+\] ([\w ]+)", text)
    return system[1].lower() if system else text[:300]


def status(error: BaseException) -> int:
    """The HTTP status that an error of MLflow or requests stands for; 0 if it is of something
    else.
    """
    ask = getattr(error, "get_http_status_code", None)
    if ask:
        return int(ask())
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def remedy(error: BaseException, experiment: str) -> str:
    """What a user can do where the server refuses to take an ``experiment``; empty where it is
    only away.
    """
    if "Invalid Host header" in str(error):  # a status of 403, too
        return "its owner lets the name in its address in with `mlflow server --allowed-hosts`"
    if status(error) == UNKNOWN_USER:
        return (
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
            "MLFLOW_TRACKING_TOKEN, of a user of the server"
        )
    if status(error) == FORBIDDEN:
        return f"ask its owner for the right to create and edit the experiment {experiment}"
    return ""


def without_password(text: str) -> str:
    """``text`` without user names and passwords in addresses.

    >>> without_password("http://me:secret@host:5000")
    'http://host:5000'
    """
    return re.sub(r"//[^/@\s]*@", "//", text)

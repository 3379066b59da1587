"""Ray's launcher with the nodes' side of it on this machine: docs/cluster.yaml made to fit, and what stands for the network.

Commands of the launcher that would stop every Ray on this machine (``ray stop``) are left out.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from orchestrator import CHECKOUT
from tests.support.command import environment
from tests.support.local_cluster import BIN, RAY

# Stands for `rsync`, which may not be installed: a folder becomes a link, so that the checkout need not be copied, a file
# is copied. Its last two arguments are a path here, and one on the node after the host and a colon.
RSYNC = """
import os, pathlib, shutil, sys
source, target = pathlib.Path(sys.argv[-2]).expanduser(), sys.argv[-1].partition(":")[2]
target = pathlib.Path(target.replace("~", os.environ["NODE_HOME"], 1).rstrip("/"))
target.parent.mkdir(parents=True, exist_ok=True)
if source.is_dir():
    target.unlink() if target.is_symlink() else target.rmdir() if target.exists() else None
    target.symlink_to(source.resolve())
else:
    shutil.copy(source, target)
"""


class Launcher:
    """The launcher in a folder of its own: its configuration, its stand-ins, and the node's home folder."""

    def __init__(self, folder: Path, ssh: str, variables: dict[str, str] | None = None) -> None:
        """Prepare the folder.

        Args:
            folder: an empty folder.
            ssh: the script that stands for the command ``ssh``.
            variables: further environment variables of the launcher and the node.
        """
        self.folder, self.home, self.config = folder, folder / "home", folder / "cluster.yaml"
        self.home.mkdir()
        tools = folder / "tools"
        tools.mkdir()
        rsync = f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(RSYNC)} "$@"\n'
        for name, script in {"ssh": ssh, "rsync": rsync}.items():
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)
        more = {"PATH": f"{tools}:{BIN}:{os.environ['PATH']}", "NODE_HOME": str(self.home), "RAY_TMPDIR": str(folder)}
        self.variables = environment(**more, **(variables or {}))
        self.variables.pop("RAY_ADDRESS", None)
        exported = " ".join(
            f"{name}={shlex.quote(self.variables[name])}" for name in ("PATH", "RAY_TMPDIR", *(variables or {}))
        )
        (self.home / ".bashrc").write_text(f"export {exported}\n")
        self.config.write_text(yaml.safe_dump(self._fitted()))

    def _fitted(self) -> dict[str, Any]:
        """docs/cluster.yaml for one node here, where packages are installed and Ray, if any, runs already."""
        config: dict[str, Any] = yaml.safe_load((CHECKOUT / "docs" / "cluster.yaml").read_text())
        config |= {"cluster_name": f"fedpriv-{os.getpid()}-{self.folder.name}", "setup_commands": ["true"]}
        config |= {"head_start_ray_commands": ["true"], "worker_start_ray_commands": ["true"]}
        config["provider"] |= {"head_ip": "127.0.0.1", "worker_ips": []}
        config["auth"] = {"ssh_user": "root", "ssh_private_key": str(self.folder / "key")}
        (self.folder / "key").touch(mode=0o600)
        del config["file_mounts"]["~/.ray/auth_token"]
        assert "ray stop" not in yaml.safe_dump(config)
        return config

    def submit(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """``ray submit --start cluster.yaml submit.py -- ...``, in the checkout."""
        return subprocess.run(
            [*RAY, "submit", "--start", "--no-config-cache", str(self.config), "submit.py", "--", *arguments],
            env=self.variables,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

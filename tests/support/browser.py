"""Looks at a page in headless Chromium, as a person would: its text after scripts have run, and a screenshot.

Tests that use it carry the mark ``browser`` and run where Chromium is installed: ``uv run pytest -m browser``.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE, DESKTOP = (400, 900), (1280, 900)


def chromium() -> str:
    """The program; raises FileNotFoundError where there is none."""
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
    )
    if not found:
        raise FileNotFoundError("no Chromium was found: install it, or leave out -m browser")
    return found


def visit(address: str, size: tuple[int, int] = DESKTOP, screenshot: Path | None = None, seconds: float = 15.0) -> str:
    """The page's HTML once its scripts have come to rest.

    Args:
        address: what to open, ``http://`` or ``file://``.
        size: width and height of the window in pixels.
        screenshot: where to save a picture (PNG) of the window.
        seconds: how much time the page's own clock gets; Chromium jumps over waits, so this is not how long it takes.
    """
    with tempfile.TemporaryDirectory() as profile:
        options = [*FLAGS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"]
        options += [f"--virtual-time-budget={int(1000 * seconds)}", "--dump-dom"]
        options += [f"--screenshot={screenshot}"] if screenshot else []
        done = subprocess.run([chromium(), *options, address], capture_output=True, text=True, timeout=180, check=True)
    return done.stdout

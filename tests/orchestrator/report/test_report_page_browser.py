"""The page in Chromium, at the width of a desk and of a phone: nothing overflows, nothing is
asked of the network.

The tests run where Chromium is installed: ``uv run pytest -m browser``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import threading
from functools import partial
from html import escape, unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
PHONE, DESKTOP = (400, 900), (1280, 900)
# The page in a frame, because windows of Chromium are 500 pixels wide at least. The script measures
# the page, which has none.
FRAME = """<!DOCTYPE html><style>body {margin: 0} iframe {border: 0; display: block}</style>
<iframe id="frame" style="width: %dpx; height: %dpx" srcdoc="%s"></iframe><script>
addEventListener("load", () => {
  const inside = document.getElementById("frame").contentWindow, page = inside.document, root = page.scrollingElement;
  const headline = page.getElementById("headline").getBoundingClientRect();
  const small = [...page.querySelectorAll("main p, main li, td, th")].filter(e => e.checkVisibility()
    && parseFloat(inside.getComputedStyle(e).fontSize) < 12).length;
  const found = {wide: root.scrollWidth, seen: root.clientWidth, top: headline.top, bottom: headline.bottom,
    right: headline.right, small, loaded: inside.performance.getEntriesByType("resource").length,
    figures: [...page.querySelectorAll("figure img")].map(e => Math.round(e.getBoundingClientRect().width))};
  document.body.setAttribute("data-found", JSON.stringify(found));
});</script>"""


def chromium() -> str:
    """The program; raises FileNotFoundError where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    if not (found := next(filter(None, map(shutil.which, names)), "")):
        raise FileNotFoundError("no Chromium was found: install it, or leave out -m browser")
    return found


def visit(address: str, size: tuple[int, int] = DESKTOP, screenshot: Path | None = None) -> str:
    """The page's HTML once its scripts have come to rest; ``screenshot`` is where a picture
    (PNG) of it is saved.
    """
    with tempfile.TemporaryDirectory() as profile:
        options = [*FLAGS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"]
        options += [
            "--virtual-time-budget=15000",
            "--dump-dom",
        ]  # of its own clock: Chromium jumps over waits
        options += [f"--screenshot={screenshot}"] if screenshot else []
        done = subprocess.run(
            [chromium(), *options, address], capture_output=True, text=True, timeout=180, check=True
        )
    return done.stdout


@pytest.fixture(scope="module")
def page(page_of_three: Path) -> Path:
    return page_of_three


def measured(page: Path, size: tuple[int, int], frame: Path) -> dict[str, Any]:
    """What is found in a frame of this size, of which a screenshot is taken beside ``frame``."""
    frame.write_text(FRAME % (*size, escape(page.read_text(encoding="utf-8"))), encoding="utf-8")
    dom = visit(frame.as_uri(), size, frame.with_suffix(".png"))
    found = re.search(r'data-found="([^"]*)"', dom)
    assert found
    return json.loads(unescape(found.group(1)))


@pytest.mark.parametrize(("size", "narrowest"), [(DESKTOP, 700), (PHONE, 500), ((320, 700), 500)])
def test_nothing_is_wider_than_the_window(
    page: Path, size: tuple[int, int], narrowest: int, tmp_path: Path
) -> None:
    found = measured(page, size, tmp_path / "frame.html")
    assert found["seen"] == size[0] and found["wide"] == size[0]
    assert 0 <= found["top"] < found["bottom"] < size[1] and found["right"] <= size[0]
    assert found["small"] == 0 and found["loaded"] == 0
    assert (
        found["figures"] and min(found["figures"]) >= narrowest
    )  # a small window scrolls them: they stay legible
    assert (tmp_path / "frame.png").stat().st_size > 10_000


def test_a_browser_asks_for_nothing_but_the_page(page: Path) -> None:
    asked: list[str] = []

    class Server(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            asked.append(self.path)

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Server, directory=str(page.parent))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        dom = visit(f"http://127.0.0.1:{server.server_port}/{page.name}")
        server.shutdown()
    assert 'id="headline"' in dom and asked == [f"/{page.name}"]


def test_it_prints_on_paper(page: Path, tmp_path: Path) -> None:
    printed = tmp_path / "page.pdf"
    options = [
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--no-pdf-header-footer",
        f"--print-to-pdf={printed}",
    ]
    subprocess.run(
        [chromium(), *options, page.as_uri()], capture_output=True, timeout=180, check=True
    )
    data = printed.read_bytes()
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", data)
    assert {(round(float(width)), round(float(height))) for width, height in boxes} == {
        (595, 842)
    }  # A4, upright
    assert 1 < len(boxes) < 8

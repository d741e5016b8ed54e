"""The documentation site builds from the repository, with its links checked, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.external]

ROOT = Path(__file__).parents[2]


def test_the_site_builds_and_its_pages_load_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    assert len(pages) > 15
    for page, text in pages.items():
        loaded = re.findall(r"<(?:script|img|iframe)\b[^>]* src=\"(\w+:)?//|<link\b[^>]* href=\"https?://", text)
        assert not loaded, page
        assert "<code>mermaid" not in text
    assert '<div class="drawing"><svg' in pages[tmp_path / "graph" / "index.html"]
    reference = pages[tmp_path / "reference" / "index.html"]
    assert 'id="langgraph_reflexion.LessonBook.recall"' in reference

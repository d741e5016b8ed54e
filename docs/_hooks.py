"""Draw the site's Mermaid blocks while it is built, so that no page loads a script from elsewhere."""

from __future__ import annotations

import re
from typing import Any

import mermaidx

BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each Mermaid block of a page by its drawing."""
    return BLOCK.sub(lambda block: f'<div class="drawing">{mermaidx.render(block[1]).svg()}</div>', markdown)

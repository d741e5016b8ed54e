"""Renewing: items whose vectors another index made, or none, are embedded anew when a search first needs them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping

from langgraph_reflexion.memory.store.schema import last_seq
from langgraph_reflexion.memory.store.settings import Settings
from langgraph_reflexion.memory.store.work import embedded_for
from langgraph_reflexion.memory.store.writing import packed, remember

AT_ONCE = 256
"""Items that are embedded anew together."""


class StaleError(Exception):
    """Some items have no vectors of the present index yet: their id, write number, rule and value, and how many do."""

    def __init__(self, connection: sqlite3.Connection, stale: Iterable[int]) -> None:
        items = sorted(stale)
        super().__init__(f"{len(items)} items are not embedded for this index")
        self.left = len(items)
        self.rows: list[tuple[int, int, str | None, str]] = []
        for item in items[:AT_ONCE]:
            query = "SELECT id, coalesce(again, seq), rule, value FROM items WHERE id = ?"
            self.rows += connection.execute(query, (item,)).fetchall()

    def texts(self, settings: Settings) -> list[str]:
        """What has to be embedded, each text once."""
        found = (embedded_for(value, rule, settings)[1] for _, _, rule, value in self.rows)
        return list(dict.fromkeys(text for texts in found for text in texts))

    def renew(self, connection: sqlite3.Connection, settings: Settings, vectors: Mapping[str, bytes]) -> None:
        """Keep the new vectors of the items that nobody has changed meanwhile."""
        seq = last_seq(connection) + 1
        for item, known, rule, value in self.rows:
            recipe, texts = embedded_for(value, rule, settings)
            remember(connection, [recipe])
            connection.execute(
                "UPDATE items SET recipe = (SELECT id FROM recipes WHERE text = ?), again = ?, vectors = ? "
                "WHERE id = ? AND coalesce(again, seq) = ?",
                (recipe, seq, packed(texts, vectors), item, known),
            )


def fresh_recipes(connection: sqlite3.Connection, settings: Settings) -> dict[int | None, str | None]:
    """The recipes by which an item counts as embedded, with the rule they suit; `None` suits every item by rule."""
    found: dict[int | None, str | None] = {}
    for number, text in connection.execute("SELECT id, text FROM recipes"):
        maker, *paths = text.split("\n")
        if text == settings.usual:
            found[number] = None
        elif maker == settings.maker:
            found[number] = json.dumps(paths)
    return found

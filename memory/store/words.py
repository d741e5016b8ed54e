"""The word index: an in-memory FTS5 table that ranks items by BM25 over the tokens of their texts.

It follows the file by its numbered writes, as the vector index does. If no item contains a word of a query, the words
with the most similar spelling are used instead.
"""

from __future__ import annotations

import difflib
import json
import math
import sqlite3
import weakref
from collections.abc import Iterable
from functools import cache
from itertools import compress

from langgraph_reflexion.memory.store.database import REMEMBERED, last_seq
from langgraph_reflexion.memory.store.operations import NOT_INDEXED, Scored, text_to_search
from langgraph_reflexion.text.tokens import tokens, tokens_of_piece

QUERY_WORDS = 100
"""Different words of a query that are searched for. The first hundred words of a longer text are enough."""

SHORTEST_GUESS = 4
"""Minimum letters of a word that may be misspelt, because shorter words are similar to too many others."""

MIN_RATIO = 0.75
"""Lowest ratio of difflib for similar spellings: one wrong letter of four, or two swapped in a word of eight."""

SPELLINGS = 3
"""Maximum number of alternative spellings of a word, as in difflib's default."""


class WordIndex:
    """The words of a file's items. Used by one thread at a time."""

    def __init__(self) -> None:
        self._seq = -1
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._db.close)
        # The text is already tokenized, so this tokenizer only splits it at spaces.
        self._db.execute(
            "CREATE VIRTUAL TABLE words USING fts5(text, "
            "tokenize = \"unicode61 remove_diacritics 0 categories 'L* M* N* P* S* Co'\")"
        )
        self._db.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, 'row')")

    def catch_up(self, connection: sqlite3.Connection, fields: tuple[str, ...]) -> None:
        """Update the index with the changes in the file. `fields` are for items without fields of their own."""
        last = last_seq(connection)
        if last <= self._seq:
            return
        with self._db:  # one transaction
            self._db.execute("BEGIN")
            if self._seq < last - REMEMBERED:
                self._db.execute("DELETE FROM words")
                self._seq = -1
            elif self._seq >= 0:
                changed = "SELECT id FROM gone WHERE seq > :seq UNION SELECT id FROM items WHERE seq > :seq"
                old = connection.execute(changed, {"seq": self._seq})
                self._db.executemany("DELETE FROM words WHERE rowid = ?", old)
            new = connection.execute("SELECT id, value, fields FROM items WHERE seq > ?", (self._seq,))
            of_piece = cache(tokens_of_piece)  # a cache for these items only

            def words(value: str, own: str | None) -> str:
                text = text_to_search(json.loads(value), json.loads(own) if own else fields)
                return " ".join(tokens(text, of_piece))

            rows = ((item, words(value, own)) for item, value, own in new if own != NOT_INDEXED)
            self._db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", rows)
        self._seq = last

    def terms_of(self, query: str) -> list[list[str]]:
        """The words of a query, each with the spellings to search for: itself, if an item contains it."""
        words = list(dict.fromkeys(tokens(query)))[:QUERY_WORDS]
        return [[word] if self._count(word) else self._near(word) for word in words]

    def best(self, terms: list[list[str]], limit: int) -> Scored:
        """Items with their BM25 scores, best first. Higher is better."""
        match = " OR ".join('"' + term.replace('"', '""') + '"' for spellings in terms for term in spellings)
        if not match:
            return []
        ranked = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"
        return self._db.execute(ranked, (match, limit)).fetchall()

    def shares(self, terms: list[list[str]], items: Iterable[int]) -> dict[int, float]:
        """How much of a query each item contains, from 0 to 1. Rare words count more."""
        [total] = self._db.execute("SELECT count(*) FROM words").fetchone()
        counts = (sum(map(self._count, spellings)) for spellings in terms)
        weights = [math.log(1 + (total + 0.5) / (0.5 + count)) for count in counts]
        chosen = "SELECT rowid, text FROM words WHERE rowid IN (SELECT value FROM json_each(?))"
        rows = self._db.execute(chosen, (json.dumps(list(items)),))
        shares = {}
        for item, text in rows:
            held = set(text.split())
            is_held = [not held.isdisjoint(spellings) for spellings in terms]
            shares[item] = sum(compress(weights, is_held)) / sum(weights)
        return shares

    def _count(self, term: str) -> int:
        """How many items contain a term."""
        row = self._db.execute("SELECT doc FROM vocabulary WHERE term = ?", (term,)).fetchone()
        return 0 if row is None else int(row[0])

    def _near(self, word: str) -> list[str]:
        """Terms that begin with the word, or that share its first letter and most of its spelling."""
        if len(word) < SHORTEST_GUESS or not word.isascii():
            return []
        end = chr(ord(word[0]) + 1)
        rows = self._db.execute("SELECT term FROM vocabulary WHERE term >= ? AND term < ?", (word[0], end))
        terms = [term for [term] in rows]
        longer = [term for term in terms if term.startswith(word)][:SPELLINGS]
        return longer or difflib.get_close_matches(word, terms, SPELLINGS, MIN_RATIO)

"""Screen a text before a model may read it: does it imitate another role, hide its content, or copy what a tool said?

Imitation is found by structure alone: role markers, orders to drop earlier instructions, forged delimiters, control
tokens, links, encodings and invisible characters. The words are English and Chinese: patterns for eight more languages
would find 14 more of the 1,324 attacks of benchmarks/redteam.py. Copies are found by comparing foreign sentences and
clauses with the text, both decoded. In a copy, most words of the original still stand near each other, so a lead-in,
fillers, missing words, other sentence breaks and another order of the pieces do not hide it. What a sentence means is
for `guard` or a person to judge, and so are paraphrases and translations (docs/security.md has the figures).
"""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import base64
import binascii
import codecs
import re
import string
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import NamedTuple

from langgraph_reflexion.schemas import TEXTS, Lesson
from langgraph_reflexion.text import hash_of, lazy_pattern
from langgraph_reflexion.text.tokens import MARKS, PARTICLES, STOP_WORDS, UNSPACED, EdgePattern, stem, unescaped

_DROP = r"\b(?<!never )(?<!not )(?<!n't )(?:ignore|disregard|forget|override|bypass|discard|(?:do not|don't) (?:follow|obey)|stop (?:following|obeying))\b"
_EARLIER = (
    r"\b(?:previous|prior|above|earlier|preceding|original|system|safety|other|all|any|every|your|the|these|those)\b"
)
_RULES = r"\b(?:instructions?|rules?|prompts?|guidelines?|directives?|commands?|orders|polic(?:y|ies))\b"
_SENTENCE_START = r"(?:^|[\n.!?。！？]\s*)[\W_]{0,4}"
_TAGS = r"(?:system|user|assistant|developer|human|tool\w*|function\w*|lessons?|memory|advice|task|transcript|evidence|instructions?|prompt|context|message|patch|hint|findings?)"
_DOMAIN = r"\b[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.(?:com|net|org|io|co|ai|app|dev|info|xyz|ru|cn|example)\b"

MAX_SCREENED = 20_000
"""Characters of a text that may be shown: no lesson, plan or finding is that long, and checking takes long."""

DROPS = "it tells the reader to drop its instructions"
ROLE = "it gives the reader another role"
VOICE = "it imitates a message of another role"
CONTROL_MARKS = "it contains control tokens of a model"
FORGES = "it imitates a delimiter of the prompt"
RECORD = "it imitates the record of a lesson"
LINK = "it contains a link"
ENCODED = "it is encoded"
HIDDEN = "it contains invisible characters"

_PATTERNS = tuple(
    (reason, EdgePattern(pattern, re.IGNORECASE | re.MULTILINE))
    for reason, pattern in (
        (DROPS, rf"{_DROP}[^.\n]{{0,40}}{_EARLIER}[^.\n]{{0,25}}{_RULES}"),
        (DROPS, rf"{_DROP}[^.\n]{{0,20}}\b(?:everything|all|anything)\b[^.\n]{{0,25}}\b(?:above|before|earlier|told|said)\b"),
        (DROPS, r"(?:忽略|无视|忘记|忘掉|不要理会|不要遵守|别管|绕过)[^。\n]{0,12}(?:指令|指示|规则|提示|命令|要求|限制|设定)"),
        (ROLE, r"\bfrom (?:now|here) on,?\s*(?:you|act|answer as|respond as)\b|\byou are (?:now|no longer)\b|从(?:现在|今)(?:起|开始|以后)|你(?:现在|已经)是"),
        (ROLE, r"\bnew (?:system )?(?:instructions?|prompt|role)\s*:|\b(?:act|answer|respond|speak)\s+as\s+(?:the |an? )?(?:system|developer|admin\w*|root)\b"),
        (ROLE, r"\bthis (?:lesson|rule|advice|note|memory|text)\b[^.\n]{0,30}\b(?:outranks?|overrules?|overrides?|supersedes?)\b"),
        (VOICE, rf"{_SENTENCE_START}(?:system|assistant|developer|human|user|tool|function|ai|admin|operator|root)(?: (?:prompt|message|note|notice|alert|update|reminder|override))?\s*[:：]"),
        (VOICE, rf"{_SENTENCE_START}(?:系统|助手|助理|开发者|用户|管理员)(?:提示|消息|指令|通知)?\s*[:：]"),
        (CONTROL_MARKS, r"<\|[^|\n]{1,40}\|>|\[/?(?:INST|SYS|SYSTEM)\]|<</?SYS>>|</?s>|<(?:start|end)_of_turn>|\b(?:BEGIN|END) (?:SYSTEM|INSTRUCTIONS?|PROMPT)\b"),
        (FORGES, rf"[<‹«〈⟨]\s*/?\s*{_TAGS}\b[^>›»〉⟩\n]{{0,200}}[>›»〉⟩]|<script|<iframe|<!--"),
        (RECORD, r"\bwon \d+ of \d+ with it\b"),
        (LINK, r"\b(?:https?|s?ftp|wss?|file|javascript|data|vbscript|s3|gs|ldaps?)\s*:\s*(?://|\w+[/,;])|\b(?:java|vb)script\s*:\s*\w+\(|\bhxxps?\b|\bwww\.\w|!?\[[^\]\n]{0,200}\]\("),
        (LINK, rf"\b(?:visit|open|browse|fetch|ping|navigate to|go to|download from|upload|post|send|curl|wget)\b[^.\n]{{0,40}}{_DOMAIN}|\b(?:curl|wget)\b[^\n|]{{0,80}}\|\s*(?:sudo )?\w*sh\b"),
        (ENCODED, r"(?<![\w/+])(?=[A-Za-z0-9+/]{40})(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*\d)[A-Za-z0-9+/]{40,}={0,2}|(?:\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|&#x?[0-9a-f]+;|%[0-9a-f]{2}){4,}"),
    )
)  # fmt: skip
_FRAME = lazy_pattern(
    r"\n\s*(?:</?[\w-]{1,40}[^>\n]{0,200}>|#{1,6} |[-=_*~]{3,}|\[/?\w[^\]\n]{0,200}\]\s*$)|^\s*(?:#{1,6} |[-=]{3,})",
    re.MULTILINE,
)  # fmt: skip
_CODE_BLOCK = lazy_pattern(r"^[ \t]*```[\w+-]*\n(?:(?![ \t]*```).*\n)*[ \t]*```[ \t]*$", re.MULTILINE)
"""A block with no other fence in it, so that nothing seems to be in a block that a reader takes for ended."""
_FENCE = lazy_pattern(r"^\s*`{3,}[^`\n]*$", re.MULTILINE)
_PATTERNS_OF_DISGUISES = tuple(found for found in _PATTERNS if found[0] not in (LINK, ENCODED))
"""For other readings of a text, in which links and encodings mean nothing."""
_SQUASHED_DROP = lazy_pattern(
    r"(?:ignore|disregard|forget|override)(?:all|any|the|your|every)*(?:previous|prior|above|earlier|preceding)(?:system)?(?:instructions?|prompts?|rules|guidelines)"
)
"""An order to ignore earlier instructions, with everything but its letters removed."""


def screen(text: str, foreign: Foreign) -> str | None:
    """Why no model may read a text (a lesson, a patch or a plan), or `None`.

    `foreign` holds what tools, files, pages and errors said in this run.
    """
    return suspicion(text) or foreign.copied(text)


def suspicion(text: str) -> str | None:
    """Why a text must not be shown to a model, or `None`."""
    if len(text) > MAX_SCREENED:
        return "it is too long to be checked"
    if INVISIBLE.search(text):
        return HIDDEN
    text = _without_spaces(2, _OTHER_BREAKS.sub("\n", text))
    plain = visible(text)
    if reason := _imitation(text) or (_imitation(plain) if plain != text else None):
        return reason
    if next(decoded(text), None) is not None:
        return ENCODED
    for other in readings(plain):
        if reason := _imitation(_without_spaces(9, other), disguised=True):
            return f"in disguise, {reason}"
    return None


def suspicion_of(lesson: Lesson, approved: Collection[str] = ()) -> str | None:
    """Why a lesson must not be shown, or `None`. Checks each of its texts, and `when` together with `text`, except texts
    whose hashes are in `approved`."""
    texts = [text for text in all_texts(lesson) if not approved or hash_of(text) not in approved]
    together = [f"{lesson.when} {lesson.text}"] if lesson.when and lesson.text in texts else []
    return next(filter(None, map(suspicion, [*texts, *together])), None)


def all_texts(lesson: Lesson) -> list[str]:
    """The texts of a lesson, whether or not a prompt shows them."""
    values = [getattr(lesson, name) for name in TEXTS]
    return [text for value in values for text in (value if isinstance(value, list) else [value]) if text]


def _without_spaces(long: int, text: str) -> str:
    """The text with one space or line break for a `long` stretch of white space, in which patterns would take long."""
    return re.sub(rf"\s{{{long},}}", lambda space: "\n" if "\n" in space.group() else " ", text)


def _imitation(text: str, *, disguised: bool = False) -> str | None:
    for reason, pattern in _PATTERNS_OF_DISGUISES if disguised else _PATTERNS:
        if pattern.for_text(text).search(text):
            return reason
    prose = _CODE_BLOCK.sub("code", text)  # code has comments and lists on lines of their own
    if _FRAME.search(prose) or (not disguised and _FENCE.search(prose)):
        return FORGES
    return DROPS if _SQUASHED_DROP.search(re.sub(r"[^a-z]", "", text.lower())) else None


# ---------------------------------------------------------------- text in disguise

INVISIBLE = lazy_pattern(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
    "|[\U000e0100-\U000e01ef]{2,}|(?<![\u3400-\u9fff])[\U000e0100-\U000e01ef]"
    "|[\u200c\u200d](?=[A-Za-z0-9\u4e00-\u9fff ])|(?<=[A-Za-z0-9\u4e00-\u9fff ])[\u200c\u200d]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
"""Characters that no reader sees. Joiners are left where a script or an emoji needs them."""

_OTHER_BREAKS = re.compile("[\r\v\f\x1c-\x1f\x85\u2028\u2029]")
"""What ends a line, like a line feed, although some of it is also a control character."""

_LOOKALIKES = str.maketrans(
    "аеорсухіѕԁɡɩοαενρτυκχıɪɢɴʀᴇᴀʟᴘᴠᴏᴜꜱᴛᴄᴍᴅʙʏᴡғʜᴊᴋᴢβАВЕКМНОРСТХІЅЈΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxisdgioaevptukxiignrealpvoustcmdbywfhjkzbABEKMHOPCTXISJABEZHIKMNOPTYX",
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_DIGITS_FOR_LETTERS = str.maketrans("01345789@$!+", "oieastbgasit")
_LETTER = re.compile(r"[^\W\d_]")
_MIXED = lazy_pattern(r"[\w@$!+]+")
_SPELLED_OUT = lazy_pattern(r"\b\w(?: {1,4}\w\b){4,}|\b[^\W\d](?:[-._*|][^\W\d]\b){3,}")
_ENCODED = lazy_pattern(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_CHARACTER_CODES = lazy_pattern(r"\b\d{2,3}(?:[ ,]{1,2}\d{2,3}){7,}\b")
_UNSPACED = lazy_pattern(rf"[{UNSPACED}]{{4}}")
_ATBASH = str.maketrans(string.ascii_letters, string.ascii_lowercase[::-1] + string.ascii_uppercase[::-1])


def visible(text: str) -> str:
    """The text as a reader sees it: one width, nothing invisible, Latin letters in place of their lookalikes."""
    text = INVISIBLE.sub("", _OTHER_BREAKS.sub("\n", unicodedata.normalize("NFKC", text)))
    return text if text.isascii() else _NOT_ASCII.sub(lambda found: _bare(found.group()), text)


def _bare(text: str) -> str:
    """Letters without their marks, Latin ones in place of their lookalikes."""
    bare = "".join(sign for sign in unicodedata.normalize("NFD", text) if not unicodedata.combining(sign))
    return unicodedata.normalize("NFC", bare).translate(_LOOKALIKES)


def decoded(text: str) -> Iterator[str]:
    """The text of stretches in base 64, 32 or 16 and of rows of character codes, if it contains words."""
    for codes in _CHARACTER_CODES.finditer(text):
        read = "".join(chr(int(code)) for code in codes.group().replace(",", " ").split())
        if " " in read.strip() and read.isprintable():
            yield read
    for stretch in _ENCODED.finditer(text):
        encoded = stretch.group().rstrip("=")
        for decode in (_base64, _base32, bytes.fromhex):
            try:
                read = decode(encoded).decode("utf-8")
            except (ValueError, binascii.Error):
                continue
            if (" " in read.strip() or _UNSPACED.search(read)) and read.replace("\n", " ").isprintable():
                yield read


def readings(text: str) -> Iterator[str]:
    """Other ways to read a visible text: unescaped, spelled out, digits for letters, shifted letters, backwards."""
    spelled = _SPELLED_OUT.sub(lambda found: re.sub(r"(?<=\w)[ ._*|-](?=\w)", "", found.group()), text)
    # A number stays; in a word, digits and signs may stand for letters.
    letters = _MIXED.sub(
        lambda found: found[0].translate(_DIGITS_FOR_LETTERS) if _LETTER.search(found[0]) else found[0], text
    )
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\w)[_/-]+(?=\w)", " ", text)
    shifted = codecs.encode(text, "rot13"), text[::-1], text.translate(_ATBASH)
    others = dict.fromkeys((unescaped(text), spelled, letters, apart, *shifted))
    yield from (other for other in others if other != text)


def _base64(encoded: str) -> bytes:
    altchars = b"-_" if set(encoded) & set("-_") else None
    return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=altchars)


def _base32(encoded: str) -> bytes:
    return base64.b32decode(encoded + "=" * (-len(encoded) % 8))


# ---------------------------------------------------------------- copies

COVERED = 0.6
"""Share of a foreign sentence's words, by weight, that stand together in a copy of it. This and the numbers below were
fitted on the tuning half of benchmarks/redteam.py. The totals of the other half were seen."""

MIN_COPY = 3.2
"""Minimum weight of such a copy. An error and its fix share less."""

LONG_COPY = 6.0
"""Weight from which words that stand together are a copy, however long the foreign sentence is."""

EQUAL = 0.7
"""Share of a foreign sentence's words, in any order, in a clause that is a copy of it (`The date must be ISO`). At 0.95,
a third more of the disguised attacks pass."""

EQUAL_LENGTH = 1.35
"""How much heavier such a clause may be than the foreign sentence."""

FRAMED = 0.95
"""Share of the words in a heavier clause that is a copy with a frame around it. Without it, twice as many attacks pass."""

FRAMED_LENGTH = 2.0
"""How much heavier such a clause may be than the foreign sentence."""

MIN_SENTENCE = 1.3
"""Minimum weight of a foreign sentence that is compared: a content word and a stop word."""

STOP_WEIGHT = 0.3
"""Weight of a stop word. A content word weighs 1, a character of a script without spaces 0.5."""

REACH = 3
"""Words between which two still count as neighbors: a filler after each third word, or a missing word."""

MAX_FOREIGN = 200_000
"""Characters of foreign text that are compared: bounds the time at the end of a long run."""

SHORT = 4
"""Maximum words of a sentence that is also compared together with the short ones beside it. Of
sentences that a page cuts into threes, 0.5 % pass in place of 41 %, and no more honest lessons are quarantined."""

STRETCH = 24
"""Words that are compared across the lines, cells and tags of a page. Of 2,207 honest lessons, each beside
six long tables, logs, documents and files of code, 3 more are quarantined; 149 more if whole tables are compared."""

COPIED = "it is copied from what a tool said"

_ENDS, _EDGES = r"[.!?](?=\s|$)|[。！？]", r"[\n|{}\[\]<>]"
_END = re.compile(_ENDS)
_SENTENCE = re.compile(f"{_ENDS}|{_EDGES}")
_BREAK = re.compile(rf"<[^<>\n]*>|{_EDGES}")
"""Tags, and the ends of lines and cells."""

_CLAUSE = re.compile(r"[,;:()\"“”«»„]|\s[-–—]+\s|[，；：、（）「」『』]")
_WORD = re.compile(rf"[{UNSPACED}]|(?:[^\W_{UNSPACED}]|[{MARKS}])+")
_INLINE = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|tt|u|var|wbr)"
    r"(?:\s[^<>]*)?>"
    r"|\[([^\[\]\n]*)\]\([^()\s]*\)|\[\d{1,3}\]",
    re.IGNORECASE,
)
"""Marks within a sentence: HTML tags (any other tag ends it), Markdown links, whose words stay, and footnotes. With a
link and another mark in each attack of benchmarks/redteam.py, 0.3 % pass, and 1.5 % without this."""

_STOPS = STOP_WORDS | PARTICLES


class _Unit(NamedTuple):
    """A sentence or a clause as words, and what they weigh."""

    words: tuple[str, ...]
    weight: float


class _Index(NamedTuple):
    """Sentences and clauses, and for each word the numbers of those that contain it."""

    units: list[_Unit]
    holding: dict[str, list[int]]


class _Text(NamedTuple):
    """A text that foreign sentences are looked for in: its words, where each stands, and its clauses.

    A clause is a set of words, and what the clause weighs.
    """

    words: Sequence[str]
    places: dict[str, list[int]]
    clauses: list[tuple[set[str], float]]


class Foreign:
    """The text of tools, files, pages and errors in a run, indexed once to be compared with many texts.

    `own` is the user's text. A sentence that is in both is not foreign.
    """

    def __init__(self, texts: Iterable[str], own: Iterable[str] = ()) -> None:
        # Most words of a long page occur often.
        self._stem = cache(lambda word: word if word in STOP_WORDS else stem(word))
        self._foreign = self._index(texts)
        self._own = self._index(own if self._foreign.units else ())
        self._own_texts: list[_Text] = []  # sentences of the user in which foreign ones were found

    def copied(self, text: str, besides: str = "") -> str | None:
        """Why a text is a copy, or `None`. Sentences that `besides` alone is a copy of do not count."""
        if not self._foreign.units:
            return None
        plain = visible(text)
        disguised = (*decoded(plain), *readings(plain), *readings(text))
        versions, apart = dict.fromkeys((plain, *map(visible, disguised))), _as_text(self._words(visible(besides)))
        return COPIED if any(self._is_copy(version, apart) for version in versions) else None

    def _is_copy(self, text: str, besides: _Text) -> bool:
        parts = [self._words(part) for sentence in _SENTENCE.split(text) for part in _clauses(sentence)]
        compared = _as_text(self._words(text), parts)
        near = _near(compared.words, self._foreign)
        found = (unit for unit in near if _contains(compared, unit) and not _contains(besides, unit))
        return not all(map(self._is_own, found))

    def _is_own(self, unit: _Unit) -> bool:
        """Whether the user said a foreign sentence, too.

        The sentences in which foreign ones were found are tried first. The lines of a log are alike, so one of them
        often contains the next, and otherwise two logs of 50,000 characters would take 20 seconds.
        """
        if any(_contains(own, unit) for own in self._own_texts):
            return True
        near = map(_as_text, (own.words for own in _near(unit.words, self._own)))
        found = next((own for own in near if _contains(own, unit)), None)
        self._own_texts += [found] if found is not None else []
        return found is not None

    def _index(self, texts: Iterable[str]) -> _Index:
        index = _Index([], defaultdict(list))
        for words in dict.fromkeys(map(self._words, _units(texts))):
            if (weight := _weight(words)) >= MIN_SENTENCE:
                for word in set(words):
                    index.holding[word].append(len(index.units))
                index.units.append(_Unit(words, weight))
        return index

    def _words(self, text: str) -> tuple[str, ...]:
        return tuple(map(self._stem, _WORD.findall(text.casefold())))


def _weight(words: Iterable[str]) -> float:
    return sum(STOP_WEIGHT if word in _STOPS else 1.0 if len(word) > 1 or word.isascii() else 0.5 for word in words)


def _near(words: Sequence[str], index: _Index) -> Iterator[_Unit]:
    """The sentences and clauses that share enough words with a text to be compared with it."""
    shared: dict[int, float] = defaultdict(float)
    for word in set(words):
        weight = _weight([word])
        for number in index.holding.get(word, ()):
            shared[number] += weight
    for number, found in shared.items():
        unit = index.units[number]
        if found >= MIN_COPY / 2 or found >= COVERED * unit.weight:  # a word may occur twice
            yield unit


def _as_text(words: tuple[str, ...], parts: Iterable[tuple[str, ...]] = ()) -> _Text:
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words):
        places[word].append(place)
    return _Text(words, places, [(set(part), _weight(part)) for part in dict.fromkeys((words, *parts))])


def _contains(text: _Text, unit: _Unit) -> bool:
    """Whether most of a foreign sentence stands together in a text, or one of its clauses says only that."""
    if any(_is_equal(clause, weight, unit) for clause, weight in text.clauses):
        return True
    run, enough = _shared_run(text, unit.words), max(MIN_COPY, min(LONG_COPY, COVERED * unit.weight))
    # A word counts as often as the foreign sentence has it: a lesson on an error may repeat its subject.
    return _weight(run) >= enough and _weight((Counter(run) & Counter(unit.words)).elements()) >= enough


def _is_equal(clause: set[str], weight: float, unit: _Unit) -> bool:
    """Whether a clause has most words of a foreign sentence, and few others."""
    if weight > FRAMED_LENGTH * unit.weight:
        return False
    share = EQUAL if weight <= EQUAL_LENGTH * unit.weight else FRAMED
    return _weight(word for word in unit.words if word in clause) >= share * unit.weight


def _shared_run(text: _Text, unit: Sequence[str]) -> list[str]:
    """The words in the longest stretch of a text that are neighbors as in a foreign sentence.

    Of 300 plans of twelve honest sentences beside other attacks, 11 seem copied, and 146 if all stretches count.
    """
    neighbors = {(word, other) for i, word in enumerate(unit) for other in unit[i + 1 : i + 1 + REACH]}
    found = sorted(place for word in set(unit) for place in text.places.get(word, ()))
    linked: set[int] = set()
    for i, place in enumerate(found):
        for at in found[i + 1 : i + 1 + REACH]:
            if at - place <= REACH and (text.words[place], text.words[at]) in neighbors:
                linked |= {place, at}
    runs: list[list[int]] = [[]]
    for before, place in pairwise([-1, *sorted(linked)]):
        if place - before > 2 * REACH:
            runs.append([])
        runs[-1].append(place)
    return [text.words[place] for place in max(runs, key=len)]


def _units(texts: Iterable[str]) -> Iterator[str]:
    """Each sentence of these texts, decoded too, and each of its clauses."""
    for given in _parts(texts):
        text, plain = visible(given), visible(unescaped(given))
        for version in dict.fromkeys((text, plain, _INLINE.sub(r"\1", plain), *map(visible, decoded(text)))):
            for sentence in _SENTENCE.split(version):
                yield from _clauses(sentence)
        yield from _across_breaks(plain)


def _parts(texts: Iterable[str]) -> Iterator[str]:
    """What is compared of these texts: short ones whole and, if all are too long, both ends of the longest.

    A reflection reads the same of a long conversation, so no long text hides another from the comparison.
    """
    left, by_length = MAX_FOREIGN, sorted(dict.fromkeys(texts), key=len)
    for i, text in enumerate(by_length):
        limit = left // (len(by_length) - i)
        left -= min(len(text), limit)
        head, tail = text[: limit * 3 // 4], text[max(len(text) - limit // 4, 0) :]
        yield from (head, tail) if len(text) > limit else [text]


def _across_breaks(text: str) -> Iterator[str]:
    """Stretches of sentences without their breaks: a page may break one into pieces too short to be compared.

    Short sentences in a row count as a broken one. With stretches of full length, 9 % of such copies pass.
    """
    for is_short, found in groupby(_END.split(text), lambda sentence: len(_WORD.findall(sentence)) <= SHORT):
        length = STRETCH // 2 if is_short else STRETCH
        for sentence in [" ".join(found)] if is_short else filter(_BREAK.search, found):
            words = _BREAK.sub(" ", sentence).split()
            for start in range(0, max(len(words) - length // 2, 1), length // 2):
                yield " ".join(words[start : start + length])


def _clauses(sentence: str) -> list[str]:
    """A sentence and, where it has several, its clauses."""
    clauses = [clause for clause in _CLAUSE.split(sentence) if clause.strip()]
    return [sentence, *clauses] if len(clauses) > 1 else clauses

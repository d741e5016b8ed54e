"""Names and quotations in text, and whether a text knows a name: by its words, initials, abbreviation or people."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property

from langgraph_reflexion.text.words import PARTICLES, PLAIN, STOP, listed, stem

_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{2,400})[\"”»]|[「『《〈]([^」』》〉\n]{1,400})[」』》〉]")
_WORD = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*\.?")
_SENTENCE = re.compile(r"(?<=[.!?:;\n])\s+|\n+|^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_JOINTS = listed("of the de la le von van der den del di da du and & for in on at y e dos das al bin ibn")
SETTING = listed(
    """
    i it he she they we you yes no the a an in on at by for from to of and or but so as if this that these those there
    here his her their its our my your both neither either all each none not based according however therefore thus
    also answer final since because although while when where who what which why how after before during with within
    without unfortunately sorry note given first second third finally then so overall both mr mrs ms dr st sir lord lady
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday observation question sources source context passage text jan feb mar apr jun jul aug
    sep sept oct nov dec ok okay hence indeed later today yesterday under over between about around approximately
    nearly roughly only just more most many some few several one two three four five six seven eight nine ten bc ad bce
    ce am pm usd eur inc ltd co corp wikipedia google search searching lookup thought action finish conclusion sure
    great certainly course thanks thank hello hi let final answer glad happy short long full
    summary context looking finding evidence information result results correct true false because hence please yes
    """
)
_SAID_OF = listed(
    "is was are were has had did does won wrote and or became made took sang built led began grew went found"
)
"""Words that follow a name at the beginning of a sentence."""
_PEOPLES = {
    "american": "united states america usa us u.s", "british": "united kingdom britain uk england scotland wales u.k",
    "english": "england britain united kingdom uk", "french": "france", "dutch": "netherlands holland",
    "spanish": "spain", "swiss": "switzerland", "danish": "denmark", "polish": "poland", "welsh": "wales",
    "scottish": "scotland", "irish": "ireland", "greek": "greece", "chinese": "china", "german": "germany",
    "swedish": "sweden", "turkish": "turkey", "finnish": "finland", "czech": "czechia czechoslovakia bohemia",
    "portuguese": "portugal", "welshman": "wales", "frenchman": "france", "norwegian": "norway", "thai": "thailand",
    "filipino": "philippines", "argentine": "argentina", "peruvian": "peru", "belgian": "belgium",
    "tv": "television", "television": "tv", "ukrainian": "ukraine", "icelandic": "iceland",
    "cypriot": "cyprus", "israeli": "israel",
}  # fmt: skip


def quotations_in(text: str) -> tuple[list[str], str]:
    """What the text puts between quotation marks, and the text without it."""
    found = [one[1] or one[2] for one in _QUOTED.finditer(text)]
    return [one.strip() for one in found if one.strip()], _QUOTED.sub(" ", text)


def plainly(text: str) -> str:
    """The text's words alone, without case, accents, marks and possessives."""
    flat = unicodedata.normalize("NFKD", text)
    flat = "".join(one for one in flat if not unicodedata.combining(one)).casefold()
    flat = re.sub(r"['’]s?\b", "", flat)
    flat = re.sub(r"\b(?:[^\W\d_]\.){2,}", lambda found: found[0].replace(".", ""), flat)
    return " ".join(re.findall(r"[^\W_]+", flat))


def names_in(text: str) -> Iterator[tuple[str, bool]]:
    """Runs of words that begin with a capital, and whether each only follows another behind a comma.

    What merely begins a sentence is no name.
    """
    for sentence in filter(None, _SENTENCE.split(text)):
        adds = False
        for at, part in enumerate(re.split(r"[,;()]", sentence)):
            words = _WORD.findall(part)
            runs = list(_runs(words, begins=at == 0))
            for start, run in runs:
                if name := _trimmed(run):
                    yield name, adds and start == 0 and len(run) <= 2
            adds = bool(runs) and runs[-1][0] + len(runs[-1][1]) == len(words)


def _runs(words: list[str], *, begins: bool) -> Iterator[tuple[int, list[str]]]:
    """Where each run of names begins among the words, and its words."""
    run: list[str] = []
    for i, word in enumerate(words):
        bare = word.strip(".").casefold()
        joins = bool(run) and bare in _JOINTS and i + 1 < len(words) and words[i + 1][:1].isupper()
        named = word[:1].isupper() and bare not in SETTING
        if joins or (named and not (begins and i == 0 and _only_begins(words))):
            run.append(word)
            continue
        if run:
            yield i - len(run), run
            run = []
    if run:
        yield len(words) - len(run), run


def _only_begins(words: list[str]) -> bool:
    """Whether the first word has its capital from its place: an ordinary one, or none that something is said of."""
    word = words[0].strip(".").casefold()
    if word in STOP or word in PLAIN:
        return True
    if len(words) == 1 or words[1][:1].isupper() or words[0].isupper():
        return False
    if len(words) <= 3:
        return False
    if re.search(r"(?:ing|ed|ly|tion|tions|ness|ment|ments|ies|ers|ics|ars)$", word):
        return True
    after = words[1].casefold()
    return after not in _SAID_OF and re.search(r"(?:ed|[^s]s)$", after) is None


def _trimmed(run: list[str]) -> str:
    while run and run[-1].casefold().strip(".") in _JOINTS:
        run.pop()
    return " ".join(run).rstrip(".") if run else ""


def _is_kin(word: str, other: str) -> bool:
    """Whether one is the other with an ending of people or trades: Canada and Canadian, guitar and guitarist."""
    short, long = sorted((word, other), key=len)
    stems = [short, short.rstrip("aeoy")]
    ending = "i?(?:an|n|ese|ish|ic|i|er|ers|ist|ists|or|s)"
    return any(len(one) >= 4 and re.fullmatch(rf"{re.escape(one)}{ending}", long) for one in stems)


def strange_in(text: str, source: str) -> str | None:
    """What of a text without spaces stands in no part of the source: two characters or more in a row."""
    source = "".join(source.split())
    for run in _WIDE.findall(text):
        left, at = "", 0
        while at < len(run):
            size = next((n for n in range(len(run) - at, 1, -1) if run[at : at + n] in source), 0)
            left += " " if size else run[at]
            at += size or 1
        for part in re.split(f"[ {''.join(PARTICLES)}由为叫做人共有年月日]+", left):
            if len(part) > 1:
                return part
    return None


class Known:
    """What a question and its observations say, ready to be asked for words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = f" {plainly(text)} "

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(self.plain.split())

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, self.words))

    @cached_property
    def openings(self) -> dict[str, list[str]]:
        """The words by their first four letters."""
        found: dict[str, list[str]] = {}
        for word in self.words:
            found.setdefault(word[:4], []).append(word)
        return found

    @cached_property
    def firsts(self) -> frozenset[str]:
        return frozenset(word[0] for word in self.words)

    @cached_property
    def initials(self) -> frozenset[str]:
        """The abbreviations that the text's own names would have: of two words or more."""
        found: set[str] = set()
        for name, _ in names_in(self.text):
            letters = "".join(word[0] for word in name.split() if word[0].isupper()).casefold()[:12]
            found |= {letters[i:j] for i in range(len(letters)) for j in range(i + 2, len(letters) + 1)}
        return frozenset(found)

    def says(self, text: str) -> bool:
        """Whether these words stand in it, one after the other."""
        wanted = plainly(text)
        if not wanted:
            return True
        if _WIDE.search(wanted):
            return wanted.replace(" ", "") in self.plain.replace(" ", "")
        return f" {wanted} " in self.plain

    def knows_word(self, word: str) -> bool:
        """Whether a word stands in it, in some form."""
        if word in self.words or stem(word) in self.stems:
            return True
        if len(word) == 1:
            return word in self.firsts
        if any(f" {one} " in self.plain for one in _PEOPLES.get(word, "").split()):
            return True
        if any(_is_kin(word, one) for one in self.openings.get(word[:4], ())):
            return True
        people = [name for name, lands in _PEOPLES.items() if word in lands.split()]
        return any(one in self.words for one in people) or (word.isalpha() and word in self.initials)

    def knows_name(self, name: str, share: float) -> bool:
        """Whether it knows a name: as it stands, nearly all of its words, or its abbreviation."""
        if self.says(name):
            return True
        words = [one for one in plainly(name).split() if one not in _JOINTS]
        if not words:
            return True
        known = sum(map(self.knows_word, words))
        if known == len(words) or (len(words) > 2 and known >= share * len(words)):
            return True
        letters = "".join(one[0] for one in words)
        return len(words) > 1 and letters in self.words

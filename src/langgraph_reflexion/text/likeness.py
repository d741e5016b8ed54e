"""Compare two texts: how alike they are, whether they say the same, and whether they advise the opposite.

Only words are compared. Texts that mean the same in other words are left to a store's vectors and to `distill`. A
rule stays if `benchmarks/gates.py` or a test is worse without it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence, Set
from functools import cached_property

from langgraph_reflexion.text import lazy_pattern
from langgraph_reflexion.text.tokens import LETTERS, UNSPACED, characters, fold, normalize, stem, whole_words, word_set

SAME = 0.84
"""Lowest share of common words in two texts that may say the same: benchmarks/gates.py, tuning half."""

SAME_BY_VECTORS = 0.6
"""Below this share of common words the store's vectors decide. Above it, words are more reliable than vectors."""

_NEGATION = lazy_pattern(
    r"\b(?:never|not|don't|dont|do not|doesn't|cannot|can't|must not|mustn't|avoid|without|no longer|nor|stop|refrain|"
    r"bypass|instead of|rather than|forbid|refuse to)\b|"
    r"不要|不得|不能|不应|不可|不使用|不该|别再|切勿|请勿|勿|禁止|避免|从不|绝不|而不是|而非|不用|不必",
    re.IGNORECASE,
)
_CLAUSE = lazy_pattern(
    r"[,;.!?:，；。！？：、\n]|\b(?:but|instead use|use instead|when|if|because|since|while|unless|until|so that)\b|"
    r"而要|而应",
    re.IGNORECASE,
)
_SEQUENCE = lazy_pattern(r"\b(before|after|then)\b|(之前|以前|之后|以后|前先|后再|前|后|然后|再)", re.IGNORECASE)

_PREFACE = lazy_pattern(
    r"""(?:[-*•]\s+|\d+[.)]\s+|(?:lesson|rule|note|tip)(?:\ learned)?:\s*
    |(?:in\ (?:the\ )?future|from\ now\ on|(?:in\ the\ )?next\ (?:time|attempt|trial|run)),?\s+
    |(?:i|we|you)\ (?:will|should|must|need\ to|have\ to)\s+
    |(?:always|please|remember\ to|(?:be|make)\ sure\ to|(?:don['’]t|do\ not|never)\ forget\ to)\s+
    |(?:下次|以后|务必|一定要|必须|应该|记得|我应该|我必须|(?:不要|别)忘(?:记|了)?)[，,、]?)+""",
    re.IGNORECASE | re.VERBOSE,
)
"""What models write before the advice itself: `In the future, I will make sure to`."""

_NEGATING = word_set("avoid instead rather")
"""Words of a negation. They do not count as content, because `_NEGATION` finds them."""

_DECISIVE_WORDS = word_set("up down in out on off over under from both either neither only no")
"""Stop words that change what a sentence advises."""

_OPTIONAL_CHARACTERS = frozenset("先再要时则须应该并且得之前后以请会需还")
"""Chinese characters that can be left out without a change of meaning."""

_DECISIVE_CHARACTERS = frozenset("不未非无没勿莫别否一二三四五六七八九十百千万两")
"""Chinese characters that cannot be left out: negations and numbers."""

_OPPOSITES = word_set(
    """
    before/after always/never enable/disable allow/forbid allow/deny accept/reject include/exclude add/remove
    lock/unlock increase/decrease maximum/minimum max/min more/less more/fewer higher/lower with/without
    ascending/descending show/hide true/false yes/no sync/async serial/parallel early/late earlier/later
    oldest/newest longer/shorter uppercase/lowercase prepend/append forward/backward strict/lenient
    inclusive/exclusive earliest/latest widest/narrowest keep/discard
    keep/remove keep/drop keep/delete 保留/删除 升序/降序 之前/之后 打开/关闭 增加/减少
    最大/最小 最多/最少 允许/禁止 总是/从不 添加/删除 前/后 开启/关闭 显示/隐藏 包含/排除 同步/异步 接受/拒绝
    向上/向下 最早/最晚 大写/小写 必须/不得 需要/无需
    """
)
"""Pairs of words that mean the opposite."""

_SIDES = tuple((stem(word), pair, side) for pair in sorted(_OPPOSITES) for side, word in enumerate(pair.split("/")))
"""Each of those words as it is found in a text, its pair, and which side of the pair it is."""

_CHOICE = lazy_pattern(
    rf"(?:(?<![\w'’./])|(?<=[{UNSPACED}]))"
    r"(?:[b-dfghjl-np-rtx]|(?-i:(?:(?<=\w )|(?<=[^\x00-\x7f]))[AEKOSU-WYZ]|[EKOSU-WYZ](?! \w)))"
    rf"(?:(?![\w'’+#]|[./][a-z0-9_])|(?=[{UNSPACED}]))",
    re.IGNORECASE,
)
"""A letter that stands for something (`Use option B`). The tokenizer drops single letters. Of those that are words in
English, Spanish, Italian, Polish or Czech (`el calendario y la sala`), only capitals within a sentence or alone."""


class Advice:
    """A text prepared for comparison, without what comes before the advice. It can be compared many times."""

    def __init__(self, text: str) -> None:
        preface = _PREFACE.match(text)
        self.text = text[preface.end() :] if preface is not None and preface.end() < len(text) else text
        self.folded = fold(self.text)

    @cached_property
    def choices(self) -> list[str]:
        """The letters that stand for something, in order."""
        return [letter.lower() for letter in _CHOICE.findall(unicodedata.normalize("NFKC", self.text))]

    @cached_property
    def words(self) -> Counter[str]:
        """The content words and the letters, with how often each occurs."""
        return Counter([*(word for word in whole_words(self.text) if word not in _NEGATING), *self.choices])

    @cached_property
    def negated(self) -> dict[str, bool]:
        """Each content word, and whether it follows a negation in its clause."""
        negated: dict[str, bool] = {}
        for clause in _CLAUSE.split(self.text):
            negation = _NEGATION.search(clause)
            for word in whole_words(clause[: negation.start()] if negation else clause):
                negated.setdefault(word, False)
            for word in whole_words(clause[negation.end() :]) if negation else ():
                negated[word] = True
        return negated

    @cached_property
    def sides(self) -> dict[str, set[int]]:
        """For each pair of opposites in the text, the sides that it has."""
        words = {stem(word) for word in re.findall(r"[a-z]+", self.folded)}
        found: dict[str, set[int]] = {}
        for word, pair, side in _SIDES:
            if word in words if word.isascii() else word in self.folded:
                found.setdefault(pair, set()).add(side)
        return found

    @cached_property
    def order(self) -> tuple[set[str], set[str]] | None:
        """What the text wants done first and what afterwards, or `None` where it gives no order."""
        found = _SEQUENCE.search(self.text)
        if found is None:
            return None
        head, tail = self.text[: found.start()], self.text[found.end() :]
        if "," in tail and not whole_words(head):  # `Before you do that, do this`
            tail, _, head = tail.partition(",")
        reverse = found.group().lower() == "after" or (found.group(2) is not None and "前" in found.group())
        first, last = set(whole_words(head)), set(whole_words(tail))
        return (last, first) if reverse else (first, last)


def likeness(a: str | Advice, b: str | Advice) -> float:
    """The similarity of two texts by their content words, from 0 to 1; at most 0.5 if they advise the opposite."""
    a, b = _as_advice(a), _as_advice(b)
    if a.folded == b.folded:
        return 1.0
    alike = _dice(a.words, b.words)
    return 0.5 if alike > 0.5 and opposed(a, b) else alike


def same(a: str, b: str) -> bool:
    """Whether one of two lessons says everything that the other says, so that one is enough.

    A word exchanged for another (`violin` for `glacier`) makes another lesson, however alike the rest is. When in
    doubt the answer is no: two lessons that say the same cost less than two that were merged wrongly.
    """
    first, second = Advice(a), Advice(b)
    a, b = first.text, second.text
    if first.folded == second.folded:
        return True
    if first.choices != second.choices:
        return False
    if _foreign(a) != _foreign(b):
        return False
    left, right = _content(a), _content(b)
    only_left, only_right = left.keys() - right.keys(), right.keys() - left.keys()
    if (only_left and only_right) or _dice(left, right) < SAME:
        return False
    if any(word.isdigit() or word in _DECISIVE_CHARACTERS for word in only_left | only_right):
        return False
    decisive = [set(re.findall(r"[a-z]+", text.folded)) & _DECISIVE_WORDS for text in (first, second)]
    if decisive[0] != decisive[1] or len(_NEGATION.findall(a)) != len(_NEGATION.findall(b)):
        return False
    return not (opposed(first, second) or _contrast(first, second) or _rearranged(a, b))


def in_common(texts: Sequence[str]) -> str:
    """The words of the first text that all of them have, in its order and with its stop words between them."""
    shared = set.intersection(*(set(whole_words(text)) for text in texts))
    kept: list[str] = []
    waiting: list[str] = []
    for word in texts[0].split():
        content = whole_words(word)
        if not content:
            waiting.append(word)
            continue
        if shared.issuperset(content):
            kept += [*(waiting if kept else []), word]
        waiting = []
    return " ".join(kept).strip(" ,;:.!?")


def same_in_other_words(a: str, b: str) -> bool:
    """Whether two texts that a store's vectors find equal may be one lesson, judging by their words."""
    if _dice(_content(a), _content(b)) >= SAME_BY_VECTORS:
        return False
    numbers = [sorted(re.findall(r"\d+", text)) for text in (a, b)]
    negated = [bool(_NEGATION.search(text)) for text in (a, b)]
    return numbers[0] == numbers[1] and negated[0] == negated[1] and not opposed(a, b)


def exchanged(a: str, b: str) -> set[str]:
    """The words of two texts that differ in one word (`start date`, `end date`), which is two characters in Chinese.

    Empty if they differ in more, or if one of them only has more words.
    """
    left, right = _content(a).keys(), _content(b).keys()
    differ = 1 <= len(left - right) <= 2 and 1 <= len(right - left) <= 2
    return set(left ^ right) if differ else set()


def opposed(a: str | Advice, b: str | Advice) -> bool:
    """Whether two texts speak of the same thing and advise the opposite."""
    a, b = _as_advice(a), _as_advice(b)
    if a.order is not None and b.order is not None and _swapped(a.order, b.order):
        return True
    common = a.negated.keys() & b.negated.keys()
    share = _overlap(a.negated.keys(), b.negated.keys())
    if share >= 0.5 and _contrast(a, b):
        return True
    exchanged = a.negated.keys() - common and b.negated.keys() - common
    if share < 0.5 or (exchanged and share < 0.85):
        return False
    only_a = sum(a.negated[word] and not b.negated[word] for word in common)
    only_b = sum(b.negated[word] and not a.negated[word] for word in common)
    return bool(only_a and only_b) or max(only_a, only_b) >= 0.4 * len(common)


def _as_advice(text: str | Advice) -> Advice:
    return text if isinstance(text, Advice) else Advice(text)


def _content(text: str) -> Counter[str]:
    """The content words or, in a script without spaces, single characters, whose order is freer than that of
    bigrams."""
    words = (word for word in whole_words(text) if word.isascii() and word not in _NEGATING)
    return Counter([*words, *(characters(text) - _OPTIONAL_CHARACTERS)])


def _foreign(text: str) -> list[str]:
    """The words with letters that English does not have. One of them may be what two lessons differ in."""
    return sorted(word for word in re.findall(f"[{LETTERS}]+", normalize(text)) if not word.isascii())


def _dice(left: Counter[str], right: Counter[str]) -> float:
    return 2 * (left & right).total() / max(left.total() + right.total(), 1)


def _rearranged(a: str, b: str) -> bool:
    """Whether the words are put together in another way: `take the price from the cost`, `the cost from the price`.

    Clauses may change places, but words within a clause rarely do.
    """
    left, right = _clauses(a), _clauses(b)
    return len(left) == len(right) == 1 and left != right and sorted(left[0]) == sorted(right[0])


def _clauses(text: str) -> list[list[str]]:
    """The content words of each clause, in order, or the characters of a script without spaces."""
    found = []
    for clause in _CLAUSE.split(text):
        unspaced = characters(clause) - _OPTIONAL_CHARACTERS
        words = [word for word in whole_words(clause) if word.isascii() and word not in _NEGATING]
        found.append(words + [character for character in clause if character in unspaced])
    return [clause for clause in found if clause]


def _contrast(a: Advice, b: Advice) -> bool:
    """Whether one text has a word whose opposite is in the other, and neither has both."""
    common = a.sides.keys() & b.sides.keys()
    return any(len(a.sides[pair]) == len(b.sides[pair]) == 1 and a.sides[pair] != b.sides[pair] for pair in common)


def _swapped(a: tuple[set[str], set[str]], b: tuple[set[str], set[str]]) -> bool:
    """Whether one text puts first what the other puts last: `first this, then that`, `first that, then this`."""
    straight = _overlap(a[0], b[0]) + _overlap(a[1], b[1])
    crossed = min(_overlap(a[0], b[1]), _overlap(a[1], b[0]))
    return crossed >= 0.5 and 2 * crossed > straight


def _overlap(left: Set[str], right: Set[str]) -> float:
    return 2 * len(left & right) / max(len(left) + len(right), 1)

"""Likeness: whether two texts say the same, and whether they say the opposite."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from langgraph_reflexion.text.words import characters, fold, listed, stem, tokens

_NOT = re.compile(
    r"\b(?:never|not|don't|dont|do not|doesn't|cannot|can't|must not|mustn't|avoid|without|no longer|nor|stop|refrain|"
    r"bypass|instead of|rather than|forbid|refuse to)\b|"
    r"不要|不得|不能|不应|不可|不使用|不该|别再|切勿|请勿|勿|禁止|避免|从不|绝不|而不是|而非|不用|不必",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[,;.!?:，；。！？：、\n]|\b(?:but|instead use|use instead|when|if|because|since|while|unless|until|so that)\b|"
    r"而要|而应",
    re.IGNORECASE,
)
_ORDER = re.compile(r"\b(before|after|then)\b|(之前|以前|之后|以后|前先|后再|前|后|然后|再)", re.IGNORECASE)
_BETWEEN = re.compile(r"\b(?:before|after|then)\b|之前|以前|之后|以后|然后|再", re.IGNORECASE)
"""What stands between clauses beside their marks."""

_INTO = re.compile(r"([\u3400-\u9fff]{2})(?:[\u3400-\u9fff]{2})?[成为到比]([\u3400-\u9fff]{2})")
"""Two things of which one becomes, or is held against, the other."""

_PREFACE = re.compile(
    r"""(?:[-*•#>]+\s*|\d+[.)]\s+
    |(?:lesson|rule|note|tip|advice|reminder|(?:key\ )?takeaway)(?:\ learned)?\**\s*:\**\s*
    |(?:in\ (?:the\ )?future(?:\ (?:runs|tasks|attempts|cases))?|(?:going|moving)\ forward),?\s+
    |(?:in\ the\ )?next\ (?:time|attempt|try|trial|run),?\s+
    |from\ now\ on,?\s+
    |(?:i|we|you|one|the\ (?:agent|assistant|model))
     (?:['’]ll|\ (?:will|should|must|shall|need\ to|have\ to|ought\ to))\s+
    |it\ is\ (?:important|essential|crucial|necessary|vital|best)\ to\s+
    |(?:always|please|also|remember\ to|try\ to|(?:be|make)\ sure\ to|(?:make\ sure|ensure)(?:\ that)?\ (?:you|i|we)
    |(?:don['’]t|do\ not|never)\ forget\ to)\s+
    |(?:下次|下回|以后|今后|请(?![求假客示教])|务必|一定要|必须|应该|应当|记得|切记|确保|我(?:应该|应当|必须|需要|会|要)|(?:不要|别)忘(?:记|了)?)[，,、]?\s*
    )+""",
    re.IGNORECASE | re.VERBOSE,
)
"""What models write before the advice itself: `In the future, I will make sure to`."""

_TURNS = listed("up down in out on off over under from both either neither only")
"""Short words that make another lesson of a sentence."""

_INSTEAD = frozenset({"instead", "rather"})
_FRAME = frozenset(
    map(
        stem,
        listed("handling handle whenever dealing deal encountering encounter come across facing avoid rather instead"),
    )
)
"""Words that only say that there is an occasion, or that something is not to be done, which is counted apart."""

_LIGHT = frozenset("先再要时则须应该并且得之前后以请会需还")
_HEAVY = frozenset("不未非无没勿莫别否一二三四五六七八九十百千万两")
"""Characters that are said or left out without a change of meaning, and those that are not."""

_OPPOSITES = listed(
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
"""Words of which one advises what the other warns of."""

_SIDES = listed(
    """
    start/end begin/end first/last open/close insert/delete create/delete above/below left/right up/down in/out
    on/off read/write input/output encode/decode encrypt/decrypt login/logout push/pull upload/download
    import/export local/remote public/private short/long old/new upper/lower even/odd positive/negative
    success/failure next/previous buy/sell send/receive import/export row/column request/response client/server
    source/target 登录/登出 登录/退出 开始/结束 输入/输出 上传/下载 导入/导出 加密/解密 成功/失败 公开/私有
    读取/写入 先/后
    """
)
"""Words for the two sides of something: advice on the one says nothing of the other."""


ALMOST = 0.6
"""Share of common words from which words, not vectors, say whether two lessons are one."""


@lru_cache(maxsize=2_000)
def likeness(a: str, b: str) -> float:
    """How far two texts say the same, from 0 (nothing) to 1 (the same), in any language.

    Order and function words do not matter; texts that contradict each other are never more than half alike.
    """
    a, b = bare(a), bare(b)
    if fold(a) == fold(b):
        return 1.0
    ours, theirs = _bag(a), _bag(b)
    if not ours or not theirs:
        return 0.0
    alike = _dice(ours, theirs)
    return min(alike, 0.5) if alike > 0.5 and (opposed(a, b) or _contrast(a, b, _SIDES)) else alike


def bare(text: str) -> str:
    """The advice without what is said before it."""
    said = _PREFACE.match(text)
    return text[said.end() :] if said is not None and said.end() < len(text) else text


def same(a: str, b: str, least: float = 0.84) -> bool:
    """Whether one of two lessons says all that the other says, so that one of them is enough.

    A word put in another's place (`violin` for `glacier`, `read` for `payment`) makes another lesson of it,
    however alike the rest is. Rather two lessons that are one than one that was two.
    """
    a, b = bare(a), bare(b)
    if fold(a) == fold(b):
        return True
    ours, theirs = _content(a), _content(b)
    alone, also_alone = _unmatched(ours, theirs), _unmatched(theirs, ours)
    if (alone and also_alone) or not ours or _dice(ours, theirs) < least:
        return False
    if any(word.isdigit() or word in _HEAVY for word in alone | also_alone) or _turns(a) != _turns(b):
        return False
    if len(_NOT.findall(a)) != len(_NOT.findall(b)):
        return False
    return not (_against(a, b) or opposed(a, b) or _contrast(a, b, _SIDES) or _rearranged(a, b))


def same_in_other_words(a: str, b: str) -> bool:
    """Whether two texts of one meaning, as a model of meaning has it, may be one lesson.

    Where their words are alike, the words decide: no model is sure of `read` for `payment` in a long sentence.
    """
    if _dice(_content(a), _content(b)) >= ALMOST:
        return False
    numbers = [sorted(re.findall(r"\d+", text)) for text in (a, b)]
    denied = [bool(_NOT.search(text)) for text in (a, b)]
    return numbers[0] == numbers[1] and denied[0] == denied[1] and not (opposed(a, b) or _contrast(a, b, _SIDES))


@lru_cache(maxsize=2_000)
def opposed(a: str, b: str) -> bool:
    """Whether two texts speak of the same thing and advise the opposite."""
    a, b = bare(a), bare(b)
    ours, theirs = _signs(a), _signs(b)
    common = ours.keys() & theirs.keys()
    alone, also_alone = _far(ours.keys() - common, theirs), _far(theirs.keys() - common, ours)
    share = 2 * len(common) / max(len(ours) + len(theirs), 1)
    crossed = _swapped(a, b) or (share >= 0.5 and _contrast(a, b, _OPPOSITES))
    if crossed and not _other_side(a, b):
        return True
    if share < 0.5 or (alone and also_alone and share < 0.85):
        return False
    down = [word for word in common if ours[word] and not theirs[word]]
    up = [word for word in common if theirs[word] and not ours[word]]
    return bool(down and up) or max(len(down), len(up)) >= 0.4 * len(common)


@lru_cache(maxsize=1_000)  # a text is held against many
def _bag(text: str) -> Counter[str]:
    return Counter(word for word in tokens(text) if word not in _INSTEAD)


def _content(text: str) -> Counter[str]:
    """The words of a text; of a script without spaces the telling characters, freer in their order than pairs are."""
    words = (word for word in tokens(text) if word.isascii() and word not in _FRAME)
    return Counter([*words, *(one for one in characters(text) if one not in _LIGHT)])


def _turns(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", fold(text))) & _TURNS


def _against(a: str, b: str) -> bool:
    """Whether one text speaks against a word that the other speaks for."""
    ours, theirs = _signs(a), _signs(b)
    return any(ours[word] != theirs[word] for word in ours.keys() & theirs.keys())


def _rearranged(a: str, b: str) -> bool:
    """Whether the words are put together otherwise: `take the price from the cost`, `take the cost from the price`.

    Clauses may change places, words within them hardly.
    """
    ours, theirs = _neighbours(a), _neighbours(b)
    if 3 * len(ours & theirs) < 2 * min(len(ours), len(theirs)):
        return True
    return any((right, left) in _INTO.findall(b) for left, right in _INTO.findall(a))


def _neighbours(text: str) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for clause in _CLAUSE.split(_BETWEEN.sub(",", text)):
        dense = [one for one in clause if one in characters(clause) and one not in _LIGHT]
        words = [word for word in tokens(clause) if word.isascii() and word not in _FRAME]
        found.update(pairwise(dense))
        found.update(pairwise(words))
    return found


def _dice(ours: Counter[str], theirs: Counter[str]) -> float:
    shared = sum((ours & theirs).values())
    left, right = ours - theirs, theirs - ours
    shared_nearly = 0.9 * sum(_in_other_form(word, right) for word in left)
    return min(2 * (shared + shared_nearly) / (ours.total() + theirs.total()), 1.0)


def _unmatched(ours: Counter[str], theirs: Counter[str]) -> set[str]:
    return _far((ours - theirs).keys(), theirs.keys())


def _far(words: Collection[str], others: Collection[str]) -> set[str]:
    return {word for word in words if word not in others and not _in_other_form(word, others)}


def _in_other_form(word: str, others: Collection[str]) -> bool:
    """Whether another form of the word is among these: `verify`, `verification`; `timezone`, `timezones`."""
    if len(word) < 4 or not (word.isalpha() and word.isascii()):
        return False
    near = [one for one in others if one.startswith(word[:3]) and len(one) > 3 and one.isalpha() and one.isascii()]
    return any(SequenceMatcher(None, word, one).ratio() >= 0.75 for one in near)


@lru_cache(maxsize=1_000)
def _signs(text: str) -> dict[str, bool]:
    """Each word, and whether the text speaks against it."""
    signs: dict[str, bool] = {}
    for clause in _CLAUSE.split(text):
        no = _NOT.search(clause)
        for word in tokens(clause[: no.start()] if no else clause):
            signs.setdefault(word, False)
        for word in tokens(clause[no.end() :]) if no else ():
            signs[word] = True
    return signs


def _contrast(a: str, b: str, pairs: Collection[str]) -> bool:
    """Whether each text holds the other's counterpart, and not the word itself."""
    ours, theirs = _said(a), _said(b)
    for pair in pairs:
        one, _, other = pair.partition("/")
        for left, right in ((one, other), (other, one)):
            if ours(left) and theirs(right) and not theirs(left) and not ours(right):
                return True
    return False


def _other_side(a: str, b: str) -> bool:
    """Whether one is for before and one for after, each for a side of its own: `open before`, `close after`."""
    return _contrast(a, b, ("before/after",)) and _contrast(a, b, _SIDES)


def _said(text: str) -> Callable[[str], bool]:
    """Whether a text holds a word in any form; where a script has no spaces, whether it holds the characters."""
    folded = fold(text)
    stems = {stem(word) for word in re.findall(r"[a-z]+", folded)}
    return lambda word: stem(word) in stems if word.isascii() else word in folded


def _swapped(a: str, b: str) -> bool:
    """`first this, then that` beside `first that, then this`."""
    ours, theirs = _sequence(a), _sequence(b)
    if ours is None or theirs is None:
        return False
    straight = _near(ours[0], theirs[0]) + _near(ours[1], theirs[1])
    crossed = min(_near(ours[0], theirs[1]), _near(ours[1], theirs[0]))
    return crossed >= 0.5 and 2 * crossed > straight


@lru_cache(maxsize=1_000)
def _sequence(text: str) -> tuple[set[str], set[str]] | None:
    found = _ORDER.search(text)
    if found is None:
        return None
    left, right = set(tokens(text[: found.start()])), set(tokens(text[found.end() :]))
    if not left and ("," in text[found.end() :]):
        head, _, tail = text[found.end() :].partition(",")
        left, right = set(tokens(tail)), set(tokens(head))
    late = found.group().lower() == "after"
    if found.group(2):
        late = "前" in found.group()
    if not left or not right:
        return None
    return (right, left) if late else (left, right)


def _near(ours: set[str], theirs: set[str]) -> float:
    return 2 * len(ours & theirs) / max(len(ours) + len(theirs), 1)

"""Words: what a text is about, in any language, without a model."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

LEAST_ROOT = 5
_ENDINGS = frozenset({"", "or", "er", "ion", "ation", "ment", "iv", "ive", "abl", "al", "ant", "ent"})


def listed(words: str) -> frozenset[str]:
    """A set of words, written as a text of them."""
    return frozenset(words.split())


STOP = listed(
    """
    a about above after again all also always an and any are as at be because been before being below between both
    but by can cannot could did do does doing don done down during each either else ever every few for from further
    get given gives gets had has have having he her here hers him his how i if in into is it its itself just let
    like may me might mine more most much must my need needs never no nor not now of off on once one only onto or
    other our out over own per please shall she should since so some such than that the their them then there these
    they this those through thus to too under until up upon us use used uses using very via want was we were what
    when where whether which while who whom whose why will with within without would yes yet you your yours
    """
)
"""Words that say how a sentence is built, not what it is about."""

PLAIN = listed(
    """
    answer ask call come find give go help kind know look make name new next note number part pick problem question
    read reply result return right say see set show sort step take task tell text thing think tool try way work
    write wrong before first last time user good best check correct value input output
    one two three four five six seven eight nine ten second third many few several people person place put open same
    different other whole type form small big large little long short high low old bad great full start begin end stop
    finish stay keep leave hold bring send move turn follow happen day year week month hour minute today tomorrow
    create build implement compute calculate print explain describe program function code method class line language
    script python java javascript typescript rust golang ruby kotlin swift php perl haskell scala elixir prolog
    common general simple certain single original include contain instead already still back front top bottom side
    point case example idea 两个 三个 几个 全部 所有 计算 函数 程序 代码 编写 实现 时间 结果 返回 出现 比较 数据 问题
    回答 内容 方法 不同 相同 处理 个人 字符 数字 用户 统计 开始 直接
    """
)
"""Words that any task may hold: alone they are no sign that two texts belong together."""

COMMON = listed(
    """
    list word count search page order data total compare customer client element price report sum close change web
    test string node add key array letter date table limit draw item file object api book zero convert record length
    unit integer share reverse query character target field product size run cost buy sell money plan title column row
    group match level state rule store server message story image picture city country company film movie song music
    house home room water food car animal friend child family school student teacher worker team project game amount
    average maximum minimum max min rate score solve equal square root model train bar card paper site link button
    click error request response structure graph tree map 客户 列表 文章 判断 统一 排序 会议 电影 搜索 翻译
    错误 订单 接口 检查
    """
)
"""Words of many trades: they say something, but two of them are needed where one of its own would do."""

PARTICLES = frozenset("的了是在和与及或把被将也都就而但之于吧吗呢啊这那其很更们我你他她它您又只")
"""Chinese characters that build sentences."""

PAIRS = listed(
    """
    可以 应该 需要 一个 一次 一下 如果 时候 以前 以后 所有 必须 不要 不能 总是 已经 没有 然后 因为 所以 进行 使用
    通过 任何 每个 每次 以及 或者 什么 怎么 这个 那个 一定 不得 不可 之前 之后 下来 起来 出来 还是 还有 为了 关于
    直到 一直 继续
    """
)
"""Chinese words that build sentences."""

LEAST = 0.25

_PIECE = re.compile(r"[a-z]\+\+|[a-z]#|\w+(?:['’][a-z]+)?", re.IGNORECASE)
_SEAM = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_DENSE = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_TAIL = re.compile(r"['’](?:s|d|ll|re|ve|m|t)$")
_MARK = re.compile(r"[^\w\s]")
_WIDE = re.compile(r"[^\W\d_\x00-\u024f]")
_VOWEL = re.compile(r"[aeiouy]")


def plain(text: str) -> str:
    """The text in one width and case."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def fold(text: str) -> str:
    """One spelling for all: width, case, white space and the marks at both ends are gone."""
    return " ".join(plain(text).split()).strip(" .,;:!?\"'`。、，；：！？“”‘’…")


def tokens(text: str) -> list[str]:
    """What the text is about, in its order.

    Words are folded and lightly stemmed and stop words dropped; an identifier counts whole and by its parts.
    Scripts written without spaces give pairs of neighbouring characters; a character with no neighbour stands alone.
    """
    found: list[str] = []
    for piece in _PIECE.findall(text if text.isascii() else unicodedata.normalize("NFKC", text)):
        if piece.isalnum() and (piece.islower() or piece[1:].islower()):
            found += _of_a_part(piece.casefold())
            continue
        parts = _SEAM.sub(" ", piece).split()
        if len(parts) > 1:
            found.append(piece.casefold())
        for part in parts:
            found += _of_a_part(part.casefold())
    return found


def characters(text: str) -> set[str]:
    """The telling characters of scripts written without spaces."""
    return {one for run in _DENSE.findall(text) for one in run if one not in PARTICLES}


def weight(token: str) -> float:
    """How much a shared token says: little where any task may hold it."""
    return _WEIGHTS.get(token) or (LEAST if (token.isdigit() and len(token) < 3) or len(token) == 1 else 1.0)


def of_one_root(word: str, other: str) -> bool:
    """Whether two words are a long root with an ending each, as `invention` and `inventor` are."""
    if word[:LEAST_ROOT] != other[:LEAST_ROOT]:
        return False
    alike = (one == another for one, another in zip(word, other, strict=False))
    same = next((at for at, one in enumerate(alike) if not one), min(len(word), len(other)))
    return same >= LEAST_ROOT and word[same:] in _ENDINGS and other[same:] in _ENDINGS


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The word without the commonest English endings; the same for all forms of most words."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and _VOWEL.search(root) and not word.endswith("eed"):
            word = root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz" else root
            break
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word


@lru_cache(maxsize=100_000)
def runs(word: str) -> frozenset[str]:
    """The runs of three letters in a word, its ends counted as letters; none for what has no forms."""
    if len(word) < 4 or word.isdigit() or _DENSE.search(word):
        return frozenset()
    framed = f"^{word}$"
    return frozenset(framed[i : i + 3] for i in range(len(framed) - 2))


_WEIGHTS = {stem(word): 0.6 for word in COMMON} | {stem(word): LEAST for word in PLAIN}


def count_tokens(text: str) -> int:
    """About how many tokens a model reads, rather too many than too few, in any script."""
    words = text.split()
    marks = len(_MARK.findall(text))
    dense = wide = 0
    if not text.isascii():
        dense = sum(map(len, _DENSE.findall(text)))
        wide = len(_WIDE.findall(text)) - dense
    letters = sum(map(len, words)) - marks - dense
    return math.ceil(max(len(words), letters / 4.5) + 1.2 * dense + 0.6 * marks + 0.3 * wide)


def _of_a_part(word: str) -> list[str]:
    if word.isascii():
        return _words(word)
    found, at = [], 0
    for dense in _DENSE.finditer(word):
        found += _words(word[at : dense.start()]) + _pairs(dense.group())
        at = dense.end()
    return found + _words(word[at:])


def _words(word: str) -> list[str]:
    if not word.isalnum():
        word = _TAIL.sub("", word)
    if not word or word in STOP or (len(word) == 1 and word.isalpha() and word.isascii()):
        return []
    return [stem(word)]


def _pairs(run: str) -> list[str]:
    if len(run) == 1:
        return [] if run in PARTICLES else [run]
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    telling = [pair for pair in pairs if pair not in PAIRS and not any(one in PARTICLES for one in pair)]
    left_alone = [
        one
        for i, one in enumerate(run)
        if one not in PARTICLES and run[i - 1 : i] in ("", *PARTICLES) and run[i + 1 : i + 2] in ("", *PARTICLES)
    ]
    return telling + left_alone


@dataclass(frozen=True)
class Words:
    """The words of a text, counted, those of them that say when it holds, and the telling characters."""

    counts: Mapping[str, int]
    when: frozenset[str] = frozenset()
    characters: frozenset[str] = frozenset()
    size: int = 0
    weight: float = 0.0

    @classmethod
    def of(cls, text: str, when: str = "") -> Words:
        """The words of a text, and of what it says of when it holds."""
        occasion = tokens(when)
        counts = Counter([*tokens(text), *occasion])
        letters = frozenset(characters(text) | characters(when))
        return cls(counts, frozenset(occasion), letters, counts.total(), sum(map(_alone, counts)))


def _alone(word: str) -> float:
    """What a word weighs in its own text. Pairs of characters overlap: each says half of what a word does."""
    return weight(word) * (1.0 if word.isascii() else 0.5)

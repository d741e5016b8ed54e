"""Word weights, and former names of the tokenizer (`text.tokens`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from langgraph_reflexion.text.normalize import fold
from langgraph_reflexion.text.normalize import normalize as plain
from langgraph_reflexion.text.normalize import word_set as listed
from langgraph_reflexion.text.tokens import _NO_SPACES, PARTICLES, characters, count_tokens, stem, tokens
from langgraph_reflexion.text.tokens import STOP_WORDS as STOP

__all__ = [
    "COMMON",
    "LEAST",
    "PARTICLES",
    "PLAIN",
    "STOP",
    "Words",
    "characters",
    "count_tokens",
    "fold",
    "listed",
    "of_one_root",
    "plain",
    "runs",
    "stem",
    "tokens",
    "weight",
]

LEAST_ROOT = 5
_ENDINGS = frozenset({"", "or", "er", "ion", "ation", "ment", "iv", "ive", "abl", "al", "ant", "ent"})


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

LEAST = 0.25


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


@lru_cache(maxsize=100_000)
def runs(word: str) -> frozenset[str]:
    """The runs of three letters in a word, its ends counted as letters; none for what has no forms."""
    if len(word) < 4 or word.isdigit() or _NO_SPACES.search(word):
        return frozenset()
    framed = f"^{word}$"
    return frozenset(framed[i : i + 3] for i in range(len(framed) - 2))


_WEIGHTS = {stem(word): 0.6 for word in COMMON} | {stem(word): LEAST for word in PLAIN}


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

"""What a task asks: its request, found among the material around it, and its topic, by keywords."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice

from langgraph_reflexion.text import lazy_pattern
from langgraph_reflexion.text.literals import literals_of, names_of
from langgraph_reflexion.text.tokens import UNSPACED, tokens, tokens_of_piece, unescaped

LONG_TASK = 200
"""Fewest characters of a task that may contain more than its request. The tuning tasks of `benchmarks/recall.py` that
have no material around them are shorter."""

UNLABELED = 600
"""Most characters of a task that, without a label, is all request: an exercise with its examples."""

READ = 1600
"""Characters of a long task that are read, half of them from each end."""

FURTHER = 0.25
"""Weight of a sentence relative to its neighbor that is nearer to the request. From 0.1 to 0.3 the long tuning tasks
of `benchmarks/recall.py` do equally well; at 0.5 other material in a task recalls lessons."""

EARLIER = 3
"""Fewest earlier tasks with which sentences that most of them share do not count as the request."""

OWN_WORDS = 3
"""Fewest words of its own (`own_words`) with which a message says what the user asks."""

EARLIER_MESSAGES = 3
"""Most messages before a brief one that are read together with it."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_LABEL = lazy_pattern(
    r"\W*(?:[\w']+ ){0,3}(?:task|question|request|problem|query|user|customer)(?: is(?: to)?)?\s*(?:[:：]|$)"
    r"|#+\s*input\s*$|\W*(?:问题|任务|请求|题目|用户|客户)[:：]",
    re.IGNORECASE,
)
"""The start of a line that is the request, or comes before it: `Question: ...`, `# Request`, `Your task is to: ...`."""


def request_of(task: str, earlier: Iterable[str]) -> str:
    """What the user asks: the task and, if it is brief, the messages before it, back to one that says what is asked.

    `Go ahead` and `order 4412` mean nothing on their own. The `earlier` messages come newest first.
    """
    messages = [task]
    for message in islice(earlier, EARLIER_MESSAGES):
        if says_what(messages[-1]):
            break
        messages.append(message)
    return "\n\n".join(reversed(messages))


def says_what(message: str) -> bool:
    """Whether a message has enough words of its own to say by itself what the user asks."""
    return len(message) >= LONG_TASK or len(own_words(message)) >= OWN_WORDS


def own_words(message: str) -> set[str]:
    """The words of a message without function words, names, numbers and other details."""
    details = tokens(" ".join([*literals_of(message), *names_of(message)]))
    return {word for word in tokens(message) if not word.isdecimal()}.difference(details)


def sentences(task: str, earlier: Sequence[str] = ()) -> list[tuple[str, float]]:
    """The sentences of a task, and how much each counts: 1 for the request, less for what is further away from it.

    Of a long task, sentences are left out if most of the `earlier` tasks have most of their words. The request is the
    last sentence with a label (`Question: ...`). Without a label it is at one of the ends, or all of a task that is not
    longer than an exercise.
    """
    text = _text_to_compare(task)
    if len(task) < LONG_TASK:
        return [(text, 1.0)]
    found: list[tuple[str, bool]] = []
    labeled = False
    for sentence in _SENTENCE.split(text):
        label = _LABEL.match(sentence)
        if label is not None and not tokens(sentence[label.end() :]):
            labeled = True
        elif tokens(sentence):
            found.append((sentence, labeled or label is not None))
            labeled = False
    found = _unfamiliar(found, earlier) or found
    requests = [i for i, (_, is_request) in enumerate(found) if is_request][-1:]
    if not requests:
        requests = [0, len(found) - 1] if len(task) > UNLABELED else list(range(len(found)))
    return [(part, FURTHER ** min(abs(i - request) for request in requests)) for i, (part, _) in enumerate(found)]


def _text_to_compare(task: str, limit: int = READ) -> str:
    """A task, or both ends of a long one, with escapes read if there is JSON in it.

    Elsewhere, a backslash may belong to a path or a formula.
    """
    text = task if len(task) <= limit else f"{task[: limit // 2]}\n{task[-limit // 2 :]}"
    return unescaped(text) if '":' in text else text


def _unfamiliar(found: Sequence[tuple[str, bool]], earlier: Sequence[str]) -> list[tuple[str, bool]]:
    """The sentences with a label, and those with few words that most earlier tasks have."""
    if len(earlier) < EARLIER:
        return list(found)
    of_piece = cache(tokens_of_piece)  # for these tasks only, which have many words in common
    # Read further, because a longer request next to the same document moves the document.
    held = Counter(word for task in earlier for word in set(tokens(_text_to_compare(task, 2 * READ), of_piece)))
    usual = {word for word, count in held.items() if 2 * count > len(earlier)}
    words = [set(tokens(sentence, of_piece)) for sentence, _ in found]
    return [part for part, own in zip(found, words, strict=True) if part[1] or 2 * len(own & usual) <= len(own)]


# ---------------------------------------------------------------- the topic

TOPICS = ("coding", "maths", "analysis", "writing", "search")
GENERAL = "general"
"""The topic of a task that has no keyword of the others."""

_ENGLISH = {
    "coding": r"""code|coding|program(?:me|ming|s)?|python|java|javascript|typescript|rust|golang|c\+\+|
        c\#|sql|html|css|regex|regular\ expression|function|method|class|script|bug|
        debug(?:ging)?|compil\w+|refactor\w*|unit\ tests?|api|algorithm|lru|cache|linked\ list|
        binary\ tree|stack\ trace|traceback|exception|implement(?:s|ed|ing)?|pytest|repository|git|
        docker(?:file)?|json|yaml|cli|bash|npm|react|django|kubernetes|endpoint|recursion|
        recursive|data\ structure""",
    "maths": r"""solve|equations?|calculate|computes?|integral|derivative|sum\ of|product\ of|probability|
        percent(?:age)?|proof|prove|theorem|geometry|algebra|matrix|triangle|square\ root|
        factorial|prime(?:\ numbers?)?|fractions?|how\ much\ is|plus|minus|times\ \d+|
        what\ is\ \S+\ times|divided\ by|multiplied\ by|arithmetic|polynomial|quadratic|logarithm|simplify|
        expand|roots?\ of|math(?:s|ematics)?|how\ many\ (?:ways|different)|
        (?:area|volume|perimeter|circumference)\ of|
        what\ is\ (?:its|the|their)\ (?:average\ )?(?:speed|area|volume|perimeter|distance|sum|product|chance)""",
    "analysis": r"""analy[sz]e[sd]?|analy[sz]ing|analysis|compare[sd]?|comparison|evaluat\w+|assess\w*|trends?|
        insights?|data\ ?set|statistics|correlation|pros\ and\ cons|trade-?offs?|root\ cause|
        diagnose|implications?|advantages|strengths|weaknesses|interpret|forecast|breakdown|
        explain\ why|causes?\ of|reasons?\ (?:for|why)|why\ (?:did|has|have|is|are)""",
    "writing": r"""write|writing|draft|essay|poem|story|letter|e-?mail|blog|article|summar(?:y|ies|
        i[sz]e[sd]?)|translate\w*|translation|rewrite|rephrase|paraphrase|proofread|headline|slogan|
        speech|caption|tone|paragraph|novel|haiku|press\ release|cover\ letter|script\ for|
        edit\ this""",
    "search": r"""who|whom|whose|when\ (?:was|did|is|were)|where|which|search|find\ out|look\ up|lookup|
        latest|current(?:ly)?|news|sources?|cite|citations?|capital\ of|born|invented|founded|
        located|population|according\ to|wikipedia|what\ (?:year|country|city|nationality|
        is\ the\ name)|discovered|what\ is\ the\ \w+est|
        how\ (?:tall|old|far|high|deep|long|large)\ (?:is|was|are)""",
}
_CHINESE = {
    "coding": "代码|编程|程序|函数|算法|脚本|接口|数据库|正则|调试|"
    "报错|编译|重构|单元测试|缓存|链表|二叉树|类的|实现一个|递归",
    "maths": "计算|方程|求解|证明|积分|导数|概率|百分之|几何|代数|矩阵|三角形|"
    "平方|立方|质数|素数|分数|等于多少|加上|减去|乘以|除以|数学|之和|因式|一共",
    "analysis": "分析|比较|对比|评估|趋势|优缺点|利弊|统计|数据集|原因是什么|为什么|影响|诊断|解读|预测|优势|劣势",
    "writing": "写一|撰写|作文|文章|诗|故事|邮件|信件|总结|摘要|概括|翻译|改写|润色|演讲|标题|文案|博客|起草|散文",
    "search": "谁|哪里|哪个|哪位|哪一|什么时候|何时|搜索|查找|查询|"
    "查一下|最新|新闻|首都|多高|多远|有多少|出生|发明|创立|位于|人口|来源|资料",
}
_JOINED = rf"(?:[^\W{UNSPACED}]|[+\#])"
"""A character that continues an English word. One of a script without spaces does not, as in `用Python实现`."""

_WORDS = {
    topic: lazy_pattern(
        rf"(?<!{_JOINED})(?:{_ENGLISH[topic]})(?!{_JOINED})|{_CHINESE[topic]}", re.IGNORECASE | re.VERBOSE
    )
    for topic in TOPICS
}
NAMES = {
    "coding": frozenset(tokens("code program function method class script algorithm implement write")),
    "maths": frozenset(tokens("solve calculate compute equation arithmetic maths mathematics")),
    "analysis": frozenset(tokens("analysis analyse analyze compare comparison evaluate evaluation data")),
    "writing": frozenset(tokens("write writing draft text article summary summarise summarize")),
    "search": frozenset(tokens("who whom whose where which search find out look up name fact factual")),
}
"""Words that name any task of a topic, stemmed."""

_CHINESE_NAMES = {
    "coding": lazy_pattern("代码|编程|程序|函数|算法|脚本|实现|编写|写"),
    "maths": lazy_pattern("计算|求解|数学"),
    "analysis": lazy_pattern("分析|比较|评估"),
    "writing": lazy_pattern("写一|撰写|写作|文章"),
    "search": lazy_pattern("谁|哪里|哪个|搜索|查找|查询|查一下"),
}

_CODE = lazy_pattern(
    r"```|\bdef \w+\(|\bSELECT\b.+\bFROM\b|\bimport \w+|=>|\.(?:py|js|ts|java|go|rs|cpp|sql)\b"
    r"|(?<![\w.])(?!(?:sin|cos|tan|log|ln|exp|sqrt|[fghP])\()[\w.]+\(\w*\)"
)
_ARITHMETIC = lazy_pattern(r"\d\s*[-+*/^×÷=]\s*\(?\w|\b[xyz]\s*[²³^=+]|[²³√∫∑]|\b\d+(?:\.\d+)?\s*(?:%|percent)")
_DATE_OR_NUMBER = lazy_pattern(r"\b\d{4}([-/.])\d\d?\1\d\d?\b|\b\d\d?([-/.])\d\d?\2\d{4}\b|\b\d{3,}(?:-\d{3,})+")
"""A date, or a phone or order number: not arithmetic, although digits are next to a sign."""


def topic_of(task: str) -> str:
    """`coding`, `maths`, `analysis`, `writing`, `search`, or `general` where no keyword decides.

    Each keyword counts 1, code and arithmetic count 2. The first topic wins a tie.
    """
    text = task[:4000]
    points = {topic: len(set(map(str.lower, words.findall(text)))) for topic, words in _WORDS.items()}
    points["coding"] += 2 * bool(_CODE.search(text))
    points["maths"] += 2 * bool(_ARITHMETIC.search(_DATE_OR_NUMBER.sub(" ", text)))
    best = max(TOPICS, key=lambda topic: points[topic])
    return best if points[best] else GENERAL


def specific_words(topic: str, text: str) -> set[str]:
    """The words of a text that are about more than the topic in general."""
    return set(tokens(_CHINESE_NAMES[topic].sub(" ", text))) - NAMES[topic] if topic in NAMES else set(tokens(text))

"""The write gate: a lesson is kept only if it is short, says what to do, and applies to other tasks.

The lists below are short and closed. They find the usual forms of a useless lesson and miss others:
`benchmarks/gates.py` counts both. What a text means is judged by `guard` or a person.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from langgraph_reflexion.schemas import TEXTS, Lesson
from langgraph_reflexion.text import lazy_pattern
from langgraph_reflexion.text.literals import gives_away, mask_secrets, retold_detail
from langgraph_reflexion.text.tokens import PARTICLES, STOP_BIGRAMS, UNSPACED, tokens

L = TypeVar("L", bound=Lesson)

MAX_LENGTH = 300
"""Characters of a lesson's text. Its other texts are truncated to the same length."""

MAX_READ = 4_000
"""Characters of a field that are read at all: nothing that long is kept."""

MAX_VALUES = 16
"""Tags, further failures and tasks that one lesson can have."""

LENGTHS = {"text": MAX_READ, "topic": 64, "tags": 64}
"""Characters to which a field is truncated. Other fields: `MAX_LENGTH`. A longer text is refused, not truncated."""

_EMOTION = lazy_pattern(
    r"!{2,}|\b(?:sorry|asham|awful|disappointing|dumb|embarrass|frustrating|horribl|idiot|oops|regrettabl|stupid|terribl"
    r"|unfortunate)|\b(?:argh|damn|(?-i:[Ss]ad)(?![ -]path)|ugh|what a shame)\b"
    r"|\b(?:i|we|my|our)\b[^.;!?]{0,30}\b(?:apologi|disappoint|frustrat|regret)"
    r"|(?:^|[.;!?] )(?:apologies|regretfully)\b"
    r"|抱歉|对不起|遗憾|愚蠢|后悔|难过|失望|糟糕",
    re.IGNORECASE,
)
_CHARACTER = lazy_pattern(
    r"\b(?:i(?: am|'m| was|'ve been| have been)"
    r"|(?:you|the (?:agent|assistant|ai)) (?:is|are|was|were|seems?|tends?)) "
    r"(?:(?:too|so|very|not|being|to be|a) )*"
    r"(?:bad|poor|weak|careless|lazy|sloppy|hasty|stupid|quick|smart|clever|helpful|diligent|attentive|(?:over)?confident)\b"
    r"|\bmy (?:mistake|fault)\b|(?:我|\b你)(?:太|很(?!可能)|(?:真|总是)(?!的?[应该要需得])|不够|是一个)",
    re.IGNORECASE,
)
_FAULTY = r"(?:rejected|refused|wrong|incorrect|incomplete|empty|missing|too \w+|not \w+)\b"
_STORY = lazy_pattern(
    r"\bin this (?:task|run|conversation|attempt|problem)\b|\bthis time\b|\bin this case\b(?! *(?:$|[.;!?]))"
    r"|\b(?:the|this) (?:task|question|problem) (?:was|asked|is about|asks)\b"
    r"|\bthe user (?:asked|wanted|said|requested)\b"
    r"|\b(?:the|my|our) (?:previous|first|last|earlier) (?:attempt|answer|run|try) (?:was|failed|did)\b"
    rf"|\bthe (?:answer|solution) was {_FAULTY}|这次(?:任务|尝试|运行)|本次任务|用户(?:要求|问了|说了)",
    re.IGNORECASE,
)
_ANSWER = lazy_pattern(
    r"(?<!when )(?<!if )(?<!where )\bthe (?:final |correct |right |expected )*(?:answer|solution)"
    rf"(?: (?:to|for|of) [^.]{{1,60}})? (?:is|was|equals)\b(?! {_FAULTY})"
    r"|\bthe (?:final |correct |right |expected )*result (?:is|was|equals) [-+$€£]?\d"
    r"|(?:答案|结果)(?:是|为|应为|等于)(?!空|零|否|错|null|None)",
    re.IGNORECASE,
)
_SENTENCE = lazy_pattern(r"(?<=[.;:!?。；！？])\s*")
_FIRST_PERSON = lazy_pattern(r"\b(?:I|[Mm]y|[Ww]e)\b|我")
_WRITER_AS_SUBJECT = lazy_pattern(r"(?:^|[.,;:!?]\s+)(?:(?:and|but|so) )?(?:I|[Mm]y|[Ww]e)\b|我(?:应该|没有|忘|犯)")
"""A clause whose subject is the writer."""

_INTENTION = lazy_pattern(
    r"\b(?:i|we)(?:'ll| (?:should|shall|must|will|would|can|could|need(?: to)?|have to|had to|ought to))\b([^.;!?]*)"
    r"|我(?:应该|应|该|要|必须|需要|会|得)([^。；！？]*)",
    re.IGNORECASE,
)
"""An intention in the first person. Without it, 92, not 2, of the 448 lessons of benchmarks/recall.py are refused."""

_ADVERB = lazy_pattern(r"e?(?:li|er|ness)$")
"""The endings of `carefully`, `closer` and `completeness`."""

CARE = frozenset(
    _ADVERB.sub("", token)
    for token in tokens(
        """
        accuracy accurate answer approach attention attentive avoid best better calm care careful careless
        cautious check clear close code complete concentrate consider correct deep detail different diligent
        double effort ensure error everything first focus follow future give goal good hard improve instruction
        keep lazy learn make mind mindful mistake next none null output pay plan possibility precise problem
        proper quality question read reason reflect remember requirement respond response result review right
        rush same sloppy slow smart solve stay step strive summary sure take task thing think thorough thought
        try understand user verify vigilant well work write wrong
        """
    )
)
"""Words of a reminder to take care. A text with no other words says nothing concrete."""

_CARE_PHRASE = lazy_pattern(
    r"\b(?:stop (?:being|making|rushing)|be less|as asked|(?:next|this|every|each|take|your|more|enough) time)\b",
    re.IGNORECASE,
)
"""The same for phrases. Their single words may say something concrete, as in `Stop at the first error`."""

_CARE_CHINESE = lazy_pattern(
    "下次|今后|务必|计划|仔细|认真|小心|注意|谨慎|努力|理解|用户|需求|题目|要求|保持|专注|提高|准确|正确|质量|思考|检查|避免|犯错|错误"
    "|回答|答案|任务|尝试|粗心|懒惰|阅读|[再要些点请多做得好并别会试加]"
    f"|{'|'.join(sorted(STOP_BIGRAMS))}|[{''.join(sorted(PARTICLES))}]"
)
_SIMPLIFIED = str.maketrans(
    "並別務劃畫嗎嘗為麼們個應該懶戶會時檢沒準確經總細繼續與計試誤認請謹讀質還進過這錯閱關須題專將點後來於",
    "并别务划划吗尝为么们个应该懒户会时检没准确经总细继续与计试误认请谨读质还进过这错阅关须题专将点后来于",
)
"""The traditional characters of these words."""

_UNSPACED = lazy_pattern(f"[{UNSPACED}]")
_FIGURE = lazy_pattern(r"(?<!\d)\d+(?!\d|\s*(?:%|percent\b|[次遍倍]))")
"""A number that is part of the advice itself, not a count or an amount."""

_CHOICE = lazy_pattern(r"(?<![\w'’./])(?:(?!i\b)[b-z]|yes|only)(?![./]?\w)", re.IGNORECASE)
"""A letter that stands for something (`Use B.`), `yes` or `only`: the tokenizer drops these."""


def tidy(lesson: L) -> L:
    """The lesson with each text on one line, without secrets, and with all texts but its `text` truncated."""
    tidied: dict[str, Any] = {}
    for name in TEXTS:
        value, limit = getattr(lesson, name), LENGTHS.get(name, MAX_LENGTH)
        if isinstance(value, list):
            tidied[name] = list(dict.fromkeys(filter(None, (one_line(text, limit) for text in value))))[:MAX_VALUES]
        elif value and (name != "text" or len(value) <= MAX_READ):  # a longer one is refused unchanged
            tidied[name] = one_line(value, limit) or (None if name == "topic" else "")
    return lesson.model_copy(update=tidied)


def malformed(lesson: Lesson) -> str | None:
    """Why a cleaned lesson cannot be saved: it is empty or too long."""
    return "it is empty" if not any(map(str.isalnum, lesson.text)) else overlong(lesson.text)


def overlong(text: str) -> str | None:
    """Why a text is too long for a lesson, or `None`."""
    return f"it is too long: {len(text)} characters, the limit is {MAX_LENGTH}" if len(text) > MAX_LENGTH else None


def refusal(lesson: Lesson, task: str | None = None, answer: str | None = None) -> str | None:
    """Why a cleaned lesson is not worth saving, or `None`."""
    text = lesson.text
    if not concrete(text):
        return "it says nothing concrete, only to take care"
    if is_about_one_thing(lesson):
        return None
    if _EMOTION.search(text):
        return "it is emotional: say what to do"
    if _CHARACTER.search(text) or (_WRITER_AS_SUBJECT.search(text) and not _advises(text)):
        return "it is about the agent's character or actions: say what to do"
    if _STORY.search(text) and not _advises(text):
        return "it restates the task: say what applies to other tasks"
    if _ANSWER.search(text) or (answer and gives_away(text, answer)):
        return "it gives an answer to the task: say how to find one"
    detail = retold_detail(f"{text}\n{lesson.when}", task) if task else None
    return f"it restates the task: it names {detail}" if detail is not None else None


def is_about_one_thing(lesson: Lesson) -> bool:
    """Whether a lesson is a fact, a preference or a named entry. Any other must apply to other tasks."""
    return lesson.kind in ("project", "preference") or bool(lesson.name)


def concrete(text: str) -> bool:
    """Whether a text says something concrete to do, more than `be careful`."""
    words = [word for word in tokens(_CARE_PHRASE.sub("", text)) if not (word.isdecimal() or _UNSPACED.match(word))]
    return (
        any(_ADVERB.sub("", word) not in CARE for word in words)
        or len(_CARE_CHINESE.sub("", "".join(_UNSPACED.findall(text)).translate(_SIMPLIFIED))) >= 2
        or _FIGURE.search(text) is not None
        or _CHOICE.search(text) is not None
    )


def _advises(text: str) -> bool:
    """Whether a text says what to do next time, as an intention or in a sentence that does not tell a story."""
    if any(concrete(found[1] or found[2] or "") for found in _INTENTION.finditer(text)):
        return True
    sentences = _SENTENCE.split(text)
    return any(concrete(part) and not (_FIRST_PERSON.search(part) or _STORY.search(part)) for part in sentences)


def one_line(text: str, limit: int) -> str:
    """A text on one line without secrets, cut to length."""
    text = mask_secrets(" ".join(text[:MAX_READ].split()))
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

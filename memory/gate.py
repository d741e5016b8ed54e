"""The write gate: a lesson is kept only if it is short, says what to do, and holds for other tasks than its own.

The lists below are closed: they match forms, not meanings. The meaning of a text is judged by `guard` or a person.
"""

from __future__ import annotations

import re
from typing import Any

from langgraph_reflexion.schemas import TEXTS, Lesson
from langgraph_reflexion.text import lazy_pattern
from langgraph_reflexion.text.literals import gives_away, mask_secrets, retold_detail
from langgraph_reflexion.text.tokens import word_set

MAX_LENGTH = 300
"""Characters of a lesson's text. Its other texts are truncated to the same length."""

MAX_READ = 4_000
"""Characters of a field that are read at all: nothing that long is kept."""

MAX_TAGS = 16
"""Tags that a lesson can have."""

LENGTHS = {"text": MAX_READ, "topic": 64, "tags": 64}
"""Characters to which a field is truncated. Other fields: `MAX_LENGTH`. A longer text is refused, not truncated."""

_EMOTION = lazy_pattern(
    r"!{2,}|\b(?:sorry|apologi[sz]e|apologies|ashamed|embarrass(?:ed|ing)|frustrat(?:ed|ing)|terribl[ey]|awful|horribl[ey]"
    r"|stupid(?:ly)?|dumb|idiot(?:ic)?|hate|regret(?:s|ted)?|unfortunately|sadly|disappoint(?:ed|ing)|ugh|oops|damn)\b"
    r"|抱歉|对不起|遗憾|愚蠢|羞愧|沮丧|糟糕透|太笨|后悔",
    re.IGNORECASE,
)
_CHARACTER = lazy_pattern(
    r"\b(?:i(?: am|'m| was|'ve been| have been)"
    r"|(?:you|the (?:agent|assistant|ai|model)) (?:is|are|was|were|seems?|tends?)) "
    r"(?:(?:too|so|very|not|being|to be|a) )*(?:bad|poor|weak|careless|lazy|sloppy|hasty|stupid|inattentive"
    r"|impatient|quick|smart|clever|diligent|attentive|helpful|(?:over)?confident)\b"
    r"|\bmy (?:mistake|fault|carelessness|haste)\b|我(?:太|很|不够|总是)",
    re.IGNORECASE,
)
_OWN_DEEDS = lazy_pattern(
    r"^(?:i|my|we|our)\b|\b(?:i am|i was|i should|i need to|i must|i failed|i forgot|i tend)\b"
    r"|\bmy (?:reasoning|approach|answer|attempt)\b|我(?:应该|没有|忘|犯)",
    re.IGNORECASE,
)
_FAULTY = r"(?:rejected|refused|wrong|incorrect|incomplete|empty|missing|too \w+|not \w+)\b"
_STORY = lazy_pattern(
    r"\bin this (?:task|run|case|conversation|attempt|problem)\b|\bthis time\b"
    r"|\b(?:the|this) (?:task|question|problem) (?:was|asked|is about|asks)\b"
    r"|\bthe user (?:asked|wanted|said|requested)\b"
    r"|\b(?:the|my|our) (?:previous|first|last|earlier) (?:attempt|answer|run|try) (?:was|failed|did)\b"
    rf"|\bthe (?:answer|solution) was {_FAULTY}|这次(?:任务|尝试|运行)|本次任务|用户(?:要求|问了|说了)",
    re.IGNORECASE,
)
_ANSWER = lazy_pattern(
    r"\bthe (?:final |correct |right |expected )*(?:answer|solution)(?: (?:to|for|of) [^.]{1,60})? (?:is|was|equals)\b"
    rf"(?! {_FAULTY})|\bthe (?:final |correct |right |expected )*result (?:is|was|equals) [-+$€£]?\d"
    r"|(?:答案|结果)(?:是|为|应为|等于)(?!空|零|否|错|null|None)",
    re.IGNORECASE,
)
_SENTENCE = lazy_pattern(r"(?<=[.;:!?。；！？])\s*")
_FIRST_PERSON = lazy_pattern(r"\b(?:i|me|my|mine|we|our|us)\b|我", re.IGNORECASE)
_INTENTION = lazy_pattern(
    r"\b(?:i|we)(?:'ll| (?:should|shall|must|will|would|can|could|need to|have to|had to|ought to))\b([^.;!?]*)"
    r"|我(?:应该|应|该|要|必须|需要|会|得)([^。；！？]*)",
    re.IGNORECASE,
)
"""An intention in the first person."""

_PAST = lazy_pattern(
    r"^\W*(?:it|this|that|they|there|(?:the|a) [\w-]+(?: [\w-]+)?) (?:was|were|had|did|gave|came|\w{2,}ed)\b", re.I
)
"""A sentence about something in the past."""

FILLER = word_set(
    """
    a about accuracy accurate accurately address again aim all always an analysis analyze and another answer
    answering answers any approach approaches are as ask asked assistant assume assuming assumption assumptions at
    attention attentive avoid be been before being best better by calm care careful carefully cautious check
    checking clarity clear clearly close closely closer code complete completely completeness concentrate concise
    confidence confident consider considering context correct correctly deep deeper deeply detail details different
    difficult diligent do don't double each effort ensure ensuring error errors every everything failed failure far
    first focus focused follow following for forward from fully future give given giving go goal goals going good
    hard harder have high i i'll improve improved in information instruction instructions into is it just keep learn
    learned learning lesson lessons logic logical make making me meet mind mindful mine mistake mistakes model more
    much my n need needs never next no none not null of on options or other output part parts patience pause pay
    performance plan please point possibilities precise precisely problem problems process prompt properly put
    quality question questions re read reading really reasoning reflect relevant remember requirement requirements
    responding response responses result results review reviewing right rush same should similar situation
    situations skill skills slow slowly smarter so solution solve solving stay step steps strive such summary sure
    systematic take taking task tasks text that the thing things think thinking this thorough thoroughly those
    thought thoughtful time to too try trying understand understanding up use user users using verify verifying very
    vigilant was we we'll well were what whole will with work write wrong you your
    """
)
"""Words in which a reminder to take care can be written: a text that holds no other says nothing that can be done."""

_FILLER_CHINESE = lazy_pattern(
    "更加|一次|没有计划|我会|下次|下回|以后|今后|再|要|更|仔细|认真|小心|注意|谨慎|努力|加油|专心|细心|一点|一些|些|点|地|的|请|必须|应该|多|做|得|好|"
    "更好|理解|用户|需求|题目|要求|保持|专注|提高|准确率|准确|正确|质量|需要|我|尝试|试|检查|思考|避免|犯错|错误|务必|一定|时|回答|答案|任务|和|并|不要|别|粗心|大意"
)
_UNSPACED = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LATIN_WORD = lazy_pattern(r"[a-z][a-z'’]*")
_FIGURE = lazy_pattern(r"(?<!\d)\d+(?!\d|\s*(?:%|percent\b|[次遍倍]))")
"""A number that is part of the advice itself, not a count or an amount."""


def tidy(lesson: Lesson) -> Lesson:
    """The lesson with each text on one line, without secrets, and with all texts but its `text` truncated."""
    tidied: dict[str, Any] = {}
    for name in TEXTS:
        value, most = getattr(lesson, name), LENGTHS.get(name, MAX_LENGTH)
        if isinstance(value, list):
            tidied[name] = list(dict.fromkeys(filter(None, (_line(text, most) for text in value))))[:MAX_TAGS]
        elif value and (name != "text" or len(value) <= MAX_READ):  # a longer one is refused unchanged
            tidied[name] = _line(value, most) or (None if name == "topic" else "")
    return lesson.model_copy(update=tidied)


def malformed(lesson: Lesson) -> str | None:
    """Why a cleaned lesson cannot be saved: it is empty or too long."""
    return "it is empty" if not any(map(str.isalnum, lesson.text)) else overlong(lesson.text)


def overlong(text: str) -> str | None:
    """Why a text is too long for a lesson, or `None`."""
    return f"it is over-long: {len(text)} characters, {MAX_LENGTH} are allowed" if len(text) > MAX_LENGTH else None


def refusal(lesson: Lesson, task: str | None = None, answer: str | None = None) -> str | None:
    """Why a cleaned lesson is not worth saving, or `None`.

    A fact, a preference or a named entry is about one thing by nature; any other lesson must hold for other tasks.
    """
    text = lesson.text
    if not concrete(text):
        return "it says nothing that could be done: a bare reminder to take care"
    if lesson.kind in ("project", "preference") or lesson.name:
        return None
    if _EMOTION.search(text):
        return "it is emotional: say what to do"
    if _CHARACTER.search(text) or (_OWN_DEEDS.search(text) and not _advises(text)):
        return "it is about the agent's character or deeds: say what to do"
    if _STORY.search(text) and not _advises(text):
        return "it is a retelling of the task: say what holds for other tasks"
    if _ANSWER.search(text) or (answer and gives_away(text, answer)):
        return "it gives an answer to the task: say how to find one"
    detail = retold_detail(f"{text}\n{lesson.when}", task) if task else None
    return f"it is a retelling of the task, it names {detail}" if detail is not None else None


def concrete(text: str) -> bool:
    """Whether a text says something concrete to do, more than `be careful`."""
    words = [word for word in _LATIN_WORD.findall(text.casefold()) if word not in FILLER]
    unspaced = _FILLER_CHINESE.sub("", "".join(_UNSPACED.findall(text)))
    others = [letter for letter in text if letter.isalpha() and not letter.isascii() and not _UNSPACED.match(letter)]
    return bool(words) or len(unspaced) >= 2 or len(others) >= 3 or _FIGURE.search(text) is not None


def _advises(text: str) -> bool:
    """Whether a text says what to do next time, as an intention or in a sentence that does not tell a story."""
    if any(concrete(found[1] or found[2] or "") for found in _INTENTION.finditer(text)):
        return True
    sentences = (part for part in _SENTENCE.split(text) if part)
    return any(
        concrete(sentence) and not (_FIRST_PERSON.search(sentence) or _STORY.search(sentence) or _PAST.search(sentence))
        for sentence in sentences
    )


def _line(text: str, most: int) -> str:
    """A text on one line without secrets, cut to length."""
    text = mask_secrets(" ".join(text[:MAX_READ].split()))
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"

"""The write gate: a lesson is kept only if it is short, says what to do, and would help somebody else's task."""

from __future__ import annotations

import re
from collections.abc import Collection

from langgraph_reflexion.memory.trust.confessions import is_told, sentences
from langgraph_reflexion.memory.trust.guard import LOOKED_AT
from langgraph_reflexion.schemas import Lesson
from langgraph_reflexion.text.literals import TASK_LOOKED_AT, gives_away, retold
from langgraph_reflexion.text.masking import without_secrets
from langgraph_reflexion.text.slots import generalised, stays_with_its_run
from langgraph_reflexion.text.words import listed

LONGEST = 300
"""Characters of a lesson's text; each text beside it is cut to so many."""

LONGEST_SITUATION = 800
"""Characters of the words of its task."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_EMOTION = _any_of(
    r"!{2,}",
    r"\b(?:sorry|apologi[sz]e|apologies|ashamed|embarrass(?:ed|ing)|frustrat(?:ed|ing)|terribl[ey]|awful|horribl[ey])\b",
    r"\b(?:stupid(?:ly)?|dumb|idiot(?:ic)?|hate|regret(?:s|ted)?|unfortunately|sadly|disappoint(?:ed|ing)|ugh|oops|damn)\b",
    r"抱歉|对不起|遗憾|愚蠢|羞愧|沮丧|糟糕透|太笨|后悔",
)
_CHARACTER = _any_of(
    r"\bi(?: am|'m| was|'ve been| have been| tend to be) (?:too|so|very|not|bad|poor|weak|"
    r"careless|lazy|sloppy|hasty|stupid|inattentive|impatient|overconfident)\b",
    r"\bmy (?:mistake|fault|carelessness|haste)\b",
    r"我(?:太|很|不够|总是)",
)
_SELF = _any_of(
    r"^(?:i|i'm|i've|i'd|i'll|my|we|we've|our)\b",
    r"\b(?:i am|i was|i should|i need to|i must|i failed|i forgot|i tend)\b",
    r"\bmy (?:mistake|fault|reasoning|approach|answer|attempt)\b",
    r"\b(?:the|this) (?:agent|assistant|ai)(?:'s)? (?:is|was|are|were|has been|seems|tends|lacks?|needs to be)\b",
    r"\byou (?:are|were) (?:too |very |so |being |a |not )?"
    r"(?:careless|lazy|sloppy|hasty|bad|smart|clever|stupid|weak|confident|attentive|diligent|helpful)\b",
    r"我(?:太|很|不够|总是|应该|没有|忘|犯)|(?:模型|助手|智能体)(?:太|很|不够)",
)
_REFUSED = r"(?:rejected|refused|wrong|incorrect|incomplete|empty|missing|too \w+|not \w+)\b"
_STORY = _any_of(
    r"\bin this (?:task|run|case|conversation|attempt|problem)\b|\bthis time\b",
    r"\b(?:the|this) (?:task|question|problem) (?:was|asked|is about|asks)\b",
    r"\bthe user (?:asked|wanted|said|requested)\b",
    r"\b(?:the|my|our) (?:previous|first|last|earlier) (?:attempt|answer|run|try) (?:was|failed|did)\b",
    rf"\bthe (?:answer|solution) was {_REFUSED}",
    r"这次(?:任务|尝试|运行)|本次任务|用户(?:要求|问了|说了)",
)
_ANSWER = _any_of(
    r"\bthe (?:final |correct |right |expected )*(?:answer|solution)(?: (?:to|for|of) [^.]{1,60})? (?:is|was|equals)\b"
    rf"(?! {_REFUSED})",
    r"\bthe (?:final |correct |right |expected )*result (?:is|was|equals) [-+$€£]?\d",
    r"(?:答案|结果)(?:是|为|应为|等于)(?!空|零|否|错|null|None)",
)
_ME = _any_of(r"\b(?:i|me|my|mine|we|our|us)\b", "我")
_PLAN = _any_of(
    r"\b(?:i|we)(?:'ll| (?:should|shall|must|will|would|can|could|need to|have to|had to|ought to))\b"
    r"(?: (?:also|always|never|not|first|then|have|only|instead|rather|\w+ly)\b)*+(?! (?:be|been|become)\b)([^.;!?]*)",
    r"我(?:应该|应|该|要|必须|需要|会|得)([^。；！？]*)",
)
"""What a reflection in the first person sets itself to do."""

_ORDER = _any_of(
    r"(?:add|ask|avoid|call|check|compare|confirm|convert|count|do not|give|include|keep|list|look|make sure|"
    r"don't|never|open|pass|prefer|quote|read|remove|retry|return|round|run|search|send|set|sort|split|state|strip|"
    r"test|treat|use|validate|verify|wait|write|always)\b"
)
"""How a sentence begins that says what to do, whatever it says of what was done."""

_FILLER = listed(
    """
    careful carefully care much attention attentive attentively pay be more better harder again next time try make sure
    keep mind remember think thoroughly thorough diligent precise precisely accurate accurately double check focus
    effort put mistake mistakes error errors avoid same always should must please really very just do it well best
    good work improve improved quality closely properly correctly right thing things slowly slow down pause stay
    ensure ensuring accuracy completeness responses focused making lesson lessons learned
    concentrate vigilant cautious mindful everything all answer answering answers response responding task tasks
    step steps future going forward the a an to of in on and or not no don't you your this that these those with for
    from at by any every is are before detail details write code text summary solution result results quality
    performance output about consider
    i i'll will we we'll me my n none null nil nothing
    """
)
_GENERIC = listed(
    """
    answers question questions problem problems prompt instruction instructions requirement requirements user users
    model assistant agent approach approaches reasoning logic judgement judgment assumption assumptions information
    context clarity goal goals expectations confidence patience thought thinking process analysis outcome outcomes
    provide providing verify verifying reflect reflecting learn learning use using read reading reread follow following
    understand understanding analyze analyse consider considering meet satisfy rush rushing hurry strive aim ensure up
    into as was were mine different another such so too whole fully full complete completely clear clearly concise deep
    deeply deeper relevant available similar wrong incorrect unhappy failed failure confident systematic methodical
    logical logically thoughtful thoughtfully give giving take taking never correct re closer being asked part parts
    address addressing skill skills solving exercise caution calm high difficult hard challenging possibilities options
    assume assuming needs expectation situation situations wisely smarter what
    """
)
"""Words in which any task may be spoken of: what holds no other teaches nothing."""
_FIGURE = re.compile(r"(?<!\d)\d+(?!\d|\s*(?:%|percent\b|[次遍倍]))")
"""A number that says what to do, and not how often or how much."""
_FILLER_CHINESE = re.compile(
    "下次|下回|以后|今后|再|要|更|仔细|认真|小心|注意|谨慎|努力|加油|专心|细心|一点|一些|些|点|地|的|请|必须|应该|多|做|得|好|"
    "更好|理解|用户|需求|题目|要求|保持|专注|提高|准确率|准确|正确|质量|需要|我|尝试|试|检查|思考|避免|犯错|错误|务必|一定|时|回答|答案|任务|和|并|不要|别|粗心|大意"
)
_DENSE = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"


def tidy(lesson: Lesson) -> Lesson:
    """The lesson on one line, without double space or secrets; what stands beside its text is cut to length."""
    return lesson.model_copy(
        update={
            "text": _line(lesson.text) if len(lesson.text) <= LOOKED_AT else lesson.text,
            "when": _cut(_line(lesson.when)),
            "when_not": _cut(_line(lesson.when_not)),
            "why": _cut(_line(lesson.why)),
            "situation": _cut(_line(lesson.situation), LONGEST_SITUATION),
            "topic": _cut(_line(lesson.topic or ""), 64) or None,
            "tags": list(dict.fromkeys(filter(None, (_cut(_line(tag), 64) for tag in lesson.tags))))[:16],
        }
    )


def malformed(lesson: Lesson) -> str | None:
    """Why a tidied lesson is no lesson at all: empty or over-long."""
    if not any(one.isalnum() for one in lesson.text):
        return "it is empty"
    return overlong(lesson.text)


def overlong(text: str) -> str | None:
    """Why a text is too long for a lesson, or `None`."""
    return f"it is over-long: {len(text)} characters, {LONGEST} are allowed" if len(text) > LONGEST else None


def for_others(lesson: Lesson, task: str | None = None, answer: str | None = None) -> tuple[Lesson, str | None]:
    """A tidied lesson with slots for the details of its task, and why it is not worth keeping so, or `None`."""
    general = generalised(lesson, task)
    too_literal = stays_with_its_run(general, lesson, task) if task else None
    return general, refusal(lesson, None, answer) or too_literal or overlong(general.text) or refusal(general, task)


def refusal(lesson: Lesson, task: str | None = None, answer: str | None = None) -> str | None:
    """Why a tidied lesson is not worth keeping, or `None` where it is.

    A project's facts and a person's preferences, and whatever has a name, are the story of one task by nature; only
    another rule, pattern or strategy must hold for others.
    """
    text = lesson.text
    if not concrete(text, _GENERIC):
        return "it says nothing that could be done: a bare reminder to take care"
    if lesson.kind in ("project", "preference") or lesson.name:
        return None
    if _EMOTION.search(text):
        return "it is emotional: say what to do"
    planned = _plans(text)
    if _SELF.search(text) and not planned:
        return "it is about the agent's character or deeds: say what to do"
    if _STORY.search(text) and not planned:
        return "it is a retelling of the task: say what holds for other tasks"
    if _ANSWER.search(text) or (answer and gives_away(text, answer)):
        return "it gives an answer to the task: say how to find one"
    detail = retold(f"{text}\n{lesson.when}", task[:TASK_LOOKED_AT]) if task else None
    return f"it is a retelling of the task, it names {detail}" if detail is not None else None


def _plans(text: str) -> bool:
    """Whether a reflection says what to do next time, in the first person or in a sentence of its own."""
    if _CHARACTER.search(text):
        return False
    if any(concrete(plan[plan.lastindex or 0]) for plan in _PLAN.finditer(text)):
        return True
    orders = (one for one in sentences(text) if not (_ME.search(one) or _SELF.search(one) or _STORY.search(one)))
    return any(concrete(one) and (_ORDER.match(one) or not is_told(one)) for one in orders)


def concrete(text: str, generic: Collection[str] = ()) -> bool:
    """Whether a text says something that can be done: more than `be careful`, in whatever words.

    `generic` are further words that say nothing: a plan for this run may be simpler than what is kept for others.
    """
    said = re.findall(r"[a-z][a-z'’]*", text.casefold())
    words = [word for word in said if word not in _FILLER and word not in generic]
    dense = _FILLER_CHINESE.sub("", "".join(re.findall(_DENSE, text)))
    others = re.findall(r"[^\W\d_]", re.sub(rf"[A-Za-z'’]|{_DENSE}", "", text))
    return bool(words) or len(dense) >= 2 or len(others) >= 3 or _FIGURE.search(text) is not None


def _cut(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _line(text: str) -> str:
    return without_secrets(" ".join(text[:LOOKED_AT].split()))

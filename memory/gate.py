"""The write gate: a lesson is kept only if it is short, says what to do, and would help somebody else's task."""

from __future__ import annotations

import re

from langgraph_reflexion.memory.likeness import likeness
from langgraph_reflexion.memory.masking import without_secrets
from langgraph_reflexion.memory.words import fold, tokens
from langgraph_reflexion.schemas import Lesson

LONGEST = 300
"""Characters of a lesson's text, and of each text beside it."""

_EMOTION = re.compile(
    r"!{2,}|\b(?:sorry|apologi[sz]e|apologies|ashamed|embarrass(?:ed|ing)|frustrat(?:ed|ing)|terribl[ey]|awful|horribl[ey]|"
    r"stupid(?:ly)?|dumb|idiot(?:ic)?|hate|regret(?:s|ted)?|unfortunately|sadly|happily|disappoint(?:ed|ing)|ugh|oops|damn)\b|"
    r"抱歉|对不起|遗憾|愚蠢|羞愧|沮丧|糟糕透|太笨|后悔",
    re.IGNORECASE,
)
_SELF = re.compile(
    r"^(?:i|i'm|i've|i'd|i'll|my|we|we've|our)\b|\b(?:i am|i was|i should|i need to|i must|i failed|i forgot|i tend|"
    r"my (?:mistake|fault|reasoning|approach|answer|attempt))\b|"
    r"\b(?:the|this) (?:agent|assistant|model|ai)(?:'s)? (?:is|was|are|were|has been|seems|tends|lacks?|needs to be)\b|"
    r"\byou (?:are|were) (?:too |very |so |being |a |not )?\w*(?:careless|lazy|sloppy|hasty|bad|smart|clever|stupid|weak|confident|attentive|diligent|helpful)\b|"
    r"我(?:太|很|不够|总是|应该|没有|忘|犯)|(?:模型|助手|智能体)(?:太|很|不够)",
    re.IGNORECASE,
)
_STORY = re.compile(
    r"\b(?:in this (?:task|run|case|conversation|attempt|problem)|this time|(?:the|this) (?:task|question|problem) (?:was|asked|is about|asks)|"
    r"the user (?:asked|wanted|said|requested)|(?:the|my|our) (?:previous|first|last|earlier) (?:attempt|answer|run|try) (?:was|failed|did))\b|"
    r"这次(?:任务|尝试|运行)|本次任务|用户(?:要求|问了|说了)",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"\b(?:the|its|correct|right|final|expected) (?:final |correct |right )?(?:answer|solution|result)\b[^.]{0,40}\b(?:is|was|equals|should be)\b|(?:答案|结果)(?:是|为|应为|等于)",
    re.IGNORECASE,
)
_FILLER = frozenset(
    ["careful", "carefully", "care", "attention", "attentive", "attentively", "pay", "be", "more", "better", "harder", "again", "next", "time", "try", "make", "sure", "keep", "mind", "remember", "think", "thoroughly", "thorough", "diligent", "precise", "precisely", "accurate", "accurately", "double", "check", "focus", "effort", "put", "mistake", "mistakes", "error", "errors", "avoid", "same", "always", "should", "must", "please", "really", "very", "just", "do", "it", "well", "best", "good", "work", "improve", "improved", "quality", "closely", "properly", "correctly", "right", "thing", "slowly", "slow", "down", "pause", "stay", "concentrate", "vigilant", "cautious", "mindful", "everything", "all", "things", "answer", "answering", "answers", "response", "responding", "task", "tasks", "step", "steps", "future", "going", "forward", "the", "a", "an", "to", "of", "in", "on", "and", "or", "not", "no", "don't", "you", "your", "this", "that", "these", "those", "with", "for", "from", "at", "by", "any", "every", "time's", "read"]
)
_FILLER_CHINESE = re.compile(
    r"下次|下回|以后|今后|再|要|更|仔细|认真|小心|注意|谨慎|努力|加油|专心|细心|一点|一些|些|点|地|的|请|必须|应该|多|做|得|好|尝试|试|检查|思考|避免|犯错|错误|务必|一定|时|回答|答案|任务|和|并|不要|别|粗心|大意"
)

_QUOTED = re.compile(
    r"[\"“]([^\"”\n]{3,})[\"”]|(?<!\w)['‘]([^'’\n]{3,})['’](?!\w)|`([^`\n]{3,})`|[「『《]([^」』》\n]{2,})[」』》]"
)
_LITERAL = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}|"
    r"\d{4}年\d{1,2}月(?:\d{1,2}[日号])?|\d{1,2}月\d{1,2}[日号]|\b(?=[\w-]*\d)(?=[\w-]*[^\W\d_])\w+(?:-\w+)+\b|"
    r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{4,}\b|[$€£¥]\s?\d[\d.,]*|\b\d[\d,]*\.\d+\b|\b\d{3,}(?:,\d{3})*\b",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?<=[\w,;:)] )(?:(?:Mr|Ms|Mrs|Dr|Prof)\.? )?[A-Z][a-z]{2,}(?:[- ][A-Z][a-z]{2,})*|^(?:Mr|Ms|Mrs|Dr|Prof)\.? [A-Z][a-z]+"
)
_TITLE = re.compile(r"^(?:Mr|Ms|Mrs|Dr|Prof)\.? ")
_COMMON = frozenset(
    ["python", "java", "javascript", "typescript", "rust", "ruby", "perl", "swift", "kotlin", "scala", "haskell", "golang", "docker", "linux", "windows", "unix", "excel", "word", "django", "flask", "react", "angular", "pandas", "numpy", "postgres", "postgresql", "mysql", "sqlite", "redis", "mongo", "kafka", "spark", "hadoop", "kubernetes", "english", "chinese", "german", "french", "spanish", "japanese", "european", "american", "asian", "african", "internet", "web", "git", "github", "google", "unicode", "markdown", "latex", "celsius", "fahrenheit", "kelvin", "roman", "greek", "latin", "arabic", "bayes", "fibonacci", "euclid", "fourier", "gauss", "newton", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december", "christmas", "answer", "question", "write", "return", "find", "give", "use", "make", "plan", "the", "this", "that", "what", "when"]
)


def tidy(lesson: Lesson) -> Lesson:
    """The lesson on one line, without double space and without secrets."""
    return lesson.model_copy(
        update={
            "text": _line(lesson.text),
            "when": _line(lesson.when),
            "when_not": _line(lesson.when_not),
            "why": _line(lesson.why),
            "topic": _line(lesson.topic) or None if lesson.topic else None,
            "tags": list(dict.fromkeys(filter(None, map(_line, lesson.tags)))),
        }
    )


def malformed(lesson: Lesson) -> str | None:
    """Why a tidied lesson is no lesson at all: empty or over-long."""
    if not any(one.isalnum() for one in lesson.text):
        return "it is empty"
    for name in ("text", "when", "when_not", "why"):
        length = len(getattr(lesson, name))
        if length > LONGEST:
            return f"its {name} is over-long: {length} characters, {LONGEST} are allowed"
    if any(len(tag) > 64 for tag in lesson.tags) or len(lesson.tags) > 16 or len(lesson.topic or "") > 64:
        return "its tags or topic are over-long: 16 tags and 64 characters each are allowed"
    return None


def refusal(lesson: Lesson, task: str | None = None, answer: str | None = None) -> str | None:
    """Why a tidied lesson is not worth keeping, or `None` where it is."""
    text = lesson.text
    if not concrete(text):
        return "it says nothing that could be done: a bare reminder to take care"
    if lesson.kind in ("rule", "pattern", "strategy"):
        if _EMOTION.search(text):
            return "it is emotional: say what to do"
        if _SELF.search(text):
            return "it is about the agent's character or deeds: say what to do"
        if _STORY.search(text):
            return "it is a retelling of the task: say what holds for other tasks"
        if _ANSWER.search(text):
            return "it gives an answer to the task: say how to find one"
    if answer and _gives_away(text, answer):
        return "it gives the answer to the task: say how to find one"
    detail = retold(f"{lesson.text}\n{lesson.when}", task) if task else None
    if detail is not None:
        return f"it is a retelling of the task, it names {detail}"
    return None


def concrete(text: str) -> bool:
    """Whether a text says something that can be done, more than `be careful` in whatever words."""
    words = [word for word in re.findall(r"[a-z][a-z'’]*", text.casefold()) if word not in _FILLER]  # noqa: RUF001
    dense = _FILLER_CHINESE.sub("", "".join(re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", text)))
    others = re.findall(r"[^\W\d_]", re.sub(r"[A-Za-z\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af'’]", "", text))  # noqa: RUF001
    return bool(words) or len(dense) >= 2 or len(others) >= 3


def retold(text: str, task: str) -> str | None:
    """The detail of the task that the text gives away, or `None`."""
    held = f" {fold(text)} "
    for literal in _literals(task):
        if re.search(rf"(?<!\w){re.escape(fold(literal))}(?!\w)", held):
            return repr(literal)
    if len(tokens(task)) >= 4 and likeness(text.split("\n")[0], task) >= 0.75:
        return "all of it again"
    return "a passage of it word for word" if _passage(text, task) else None


def _line(text: str | None) -> str:
    return without_secrets(" ".join((text or "").split()))


def _literals(task: str) -> list[str]:
    quoted = [next(filter(None, found)) for found in _QUOTED.findall(task)]
    plain = [found.group().rstrip(".,;:") for found in _LITERAL.finditer(task)]
    names = []
    for found in _NAME.finditer(task):
        for name in _TITLE.sub("", found.group()).split(" "):
            if name.lower() not in _COMMON:
                names.append(name)
    return [one for one in dict.fromkeys([*quoted, *plain, *names]) if len(fold(one)) > 1]


def _gives_away(text: str, answer: str) -> bool:
    said = fold(answer)
    if not said or len(said) > 200:
        return likeness(text, answer[:2000]) >= 0.7
    telling = any(one.isdigit() for one in said) or len(said.split()) > 1 or len(said) >= 6 or not said.isascii()
    if said.isdigit() and len(said) < 2:
        telling = False
    return (
        telling and bool(re.search(rf"(?<![\w.]){re.escape(said)}(?![\w])", fold(text)))
        if said.isascii()
        else telling and len(said) > 1 and said in fold(text)
    )


def _passage(text: str, task: str) -> bool:
    """Eight words in a row, or twelve characters of a script without spaces."""
    ours, theirs = fold(text).split(), f" {' '.join(fold(task).split())} "
    if any(f" {' '.join(ours[i : i + 8])} " in theirs for i in range(len(ours) - 7)):
        return True
    runs = re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{12,}", fold(text))
    return any(run[i : i + 12] in theirs for run in runs for i in range(len(run) - 11))

"""The guard: text that tries to speak as somebody else is found, at writing and again at reading."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from langgraph_reflexion.schemas import Lesson

_HIDDEN = re.compile(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
)
_JOINERS = re.compile("[\u200c\u200d](?=[A-Za-z0-9\u4e00-\u9fff ])|(?<=[A-Za-z0-9\u4e00-\u9fff ])[\u200c\u200d]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

_RULES = r"(?:instructions?|rules?|prompts?|guidelines?|directives?|directions?|commands?|orders|polic(?:y|ies)|safeguards?|system message)"
_EARLIER = r"(?:previous|prior|above|earlier|preceding|foregoing|existing|original|initial|system|safety|other)"
_DROP = r"(?:ignore|disregard|forget|override|bypass|overlook|neglect|discard|skip|set aside|do not (?:follow|obey)|don't (?:follow|obey)|stop (?:following|obeying))"
_SECRETS = r"(?:passwords?|passphrases?|secrets?|credentials?|api[ _-]?keys?|access tokens?|tokens?|private keys?|environment variables?|env vars?|cookies?)"

_TRICKS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (reason, re.compile(pattern, re.IGNORECASE | re.MULTILINE))
    for reason, pattern in (
        ("it tells the reader to drop its instructions", rf"\b{_DROP}\b[^.\n]{{0,40}}\b(?:{_EARLIER}|all|any|every|your|the|these|those)\b[^.\n]{{0,25}}\b{_RULES}\b"),
        ("it tells the reader to drop its instructions", rf"\b{_DROP}\b[^.\n]{{0,20}}\b(?:everything|all|anything)\b[^.\n]{{0,25}}\b(?:above|before|earlier|previous|told|said)\b"),
        ("it tells the reader to drop its instructions", r"(?:忽略|无视|忘记|忘掉|不要理会|不要遵守|别理|别管|抛开|覆盖|绕过|取消)[^。\n]{0,12}(?:指令|指示|规则|提示|命令|要求|限制|设定|说明|准则)"),
        ("it tells the reader to drop its instructions", r"ignor\w*[^.\n]{0,30}(?:anweisung|instruc+ion|istruzion|instruç)|игнорир\w*[^.\n]{0,30}(?:инструкц|указан)|(?:指示|命令|プロンプト)を(?:すべて|全て)?無視|이전[^.\n]{0,10}(?:지시|명령)[^.\n]{0,6}무시"),
        ("it gives the reader another role", r"\bfrom (?:now|here|this moment) on,?\s*(?:you|always|never|act|answer|respond|the assistant)\b|\byou are (?:now|no longer)\b|\b(?:pretend|roleplay|role-play)\b[^.\n]{0,15}\b(?:you|to be|as)\b|\bnew (?:system )?(?:instructions?|prompt|persona|role)\s*:"),
        ("it gives the reader another role", r"\b(?:speak|respond|behave|act|talk)\s+as\s+(?:the |an? )?(?:system|developer|admin\w*|root|operator|unrestricted|unfiltered|evil|different)\b|\b(?:jailbreak\w*|developer mode|god mode|do anything now|sudo mode)\b"),
        ("it gives the reader another role", r"从(?:现在|此刻|今)(?:起|开始|以后)|你(?:现在|已经)是|(?:扮演|假装|冒充)[^。\n]{0,10}|新的?(?:系统)?(?:指令|提示词|角色)[::]"),
        ("it speaks in a role's name", r"(?:^|[\n.!?。！？]\s*)[\W_]{0,4}(?:system|assistant|developer|human|user|tool|function|ai)(?: (?:prompt|message|note|override))?\s*[::]"),  # noqa: RUF001
        ("it speaks in a role's name", r"(?:^|[\n。！？.!?]\s*)[\W_]{0,4}(?:系统|助手|助理|开发者|用户|管理员)(?:提示|消息|指令|通知)?\s*[::]"),  # noqa: RUF001
        ("it holds a model's control marks", r"<\|[^|\n]{1,40}\|>|\[/?(?:INST|SYS|SYSTEM)\]|<</?SYS>>|</?s>|\b(?:BEGIN|END) (?:SYSTEM|INSTRUCTIONS?|PROMPT)\b|<(?:start|end)_of_turn>"),
        ("it forges a boundary", r"</?(?:system|user|assistant|developer|human|tool\w*|function\w*|lessons?|memory|memories|experience|advice|task|transcript|evidence|instructions?|prompt|context|message|patch|hint|block)\b[^>\n]*>"),
        ("it forges a boundary", r"\n\s*(?:</?[\w-]+[^>\n]*>|#{1,6} |[-=_*~]{3,}|```|\[/?\w[^\]\n]*\]\s*$)|^\s*(?:#{1,6} |[-=]{3,})"),
        ("it names a link to call", r"\b(?:https?|ftp|wss?|file|javascript|data|vbscript)\s*:\s*(?://|\w+[/,;])|\bhxxps?\b|\bwww\.\w|\b(?:curl|wget|invoke-webrequest)\s+\S|!\[[^\]]*\]\("),
        ("it carries data out", rf"\b(?:reveal|show|print|repeat|output|display|leak|disclose|dump|recite|expose|tell)\b[^.\n]{{0,30}}\b(?:(?:system|hidden|secret|initial|developer) (?:prompt|message|instructions?)|your (?:prompt|instructions?|{_SECRETS}))"),
        ("it carries data out", rf"\b(?:send|post|upload|forward|e-?mail|transmit|exfiltrate|leak|deliver|submit|append|include|paste|copy|reveal|print|show|share)\b[^.\n]{{0,60}}\b(?:(?:the|all|any|their|user'?s?|your) (?:\w+ )?{_SECRETS}|(?:system|hidden) prompt|conversation history|chat history)\b[^.\n]{{0,40}}(?:\bto\b|\bin\b|\binto\b|\bwith\b|$)"),
        ("it carries data out", r"\b(?:send|post|upload|forward|e-?mail|transmit|exfiltrate|bcc)\b[^.\n]{0,60}\bto\b[^.\n]{0,20}(?:[\w.+-]+@[\w-]+\.\w|\[mail\]|\b[\w-]+(?:\.[\w-]+)*\.(?:com|net|org|io|ru|cn|xyz|top|example|test|info|biz|dev|app)\b)"),
        ("it carries data out", r"(?:透露|泄露|输出|显示|发送|上传|打印|告诉|公开|说出|复述)[^。\n]{0,15}(?:系统提示|提示词|密码|密钥|口令|凭证|令牌|环境变量|隐私)"),
        ("it is encoded", r"(?<![\w/+])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*\d)[A-Za-z0-9+/]{40,}={0,2}|(?:\\x[0-9a-f]{2}){4,}|(?:\\u[0-9a-f]{4}){4,}|(?:&#x?[0-9a-f]+;){4,}|(?:%[0-9a-f]{2}){6,}"),
        ("it asks for harm", r"\brm\s+-rf\b|\bdrop\s+(?:table|database)\s+\w+\s*;|\bapprove (?:every|all|any) (?:requests?|payments?|transactions?|calls?)\b|\b(?:without|never|don't|do not)\s+(?:ask\w*|tell\w*|inform\w*|alert\w*)\s+(?:for )?(?:the )?(?:user|human|permission|anyone)\b"),
    )
)  # fmt: skip
_SQUASHED = re.compile(
    r"(?:ignore|disregard|forget|override)(?:all|any|the|your|my|every)*(?:previous|prior|above|earlier|preceding)?"
    r"(?:system)?(?:instructions?|prompts?|rules|guidelines)|revealthesystemprompt|revealyoursystemprompt|youarenow(?:a|an|the|in)"
)
_LOOKALIKES = str.maketrans("аеорсухіѕԁɡɩ013457@$", "aeopcyxisdgioleastas")  # noqa: RUF001


def suspicion(text: str) -> str | None:
    """Why a text must not be shown to a model, or `None` where nothing speaks against it."""
    if _HIDDEN.search(text) or _JOINERS.search(text) or _CONTROL.search(text):
        return "it holds hidden characters"
    plain = unicodedata.normalize("NFKC", text)
    for reason, pattern in _TRICKS:
        if pattern.search(plain):
            return reason
    squashed = re.sub(r"[^a-z]", "", plain.casefold().translate(_LOOKALIKES))
    if _SQUASHED.search(squashed):
        return "it tells the reader to drop its instructions"
    return None


def suspicion_of(lesson: Lesson) -> str | None:
    """The same for every field of a lesson that a model may come to read."""
    for text in shown_texts(lesson):
        reason = suspicion(text)
        if reason:
            return reason
    return None


def shown_texts(lesson: Lesson) -> Iterable[str]:
    """The fields of a lesson that hold words."""
    return [lesson.text, lesson.when, lesson.when_not, lesson.why, lesson.topic or "", lesson.name or "", *lesson.tags]

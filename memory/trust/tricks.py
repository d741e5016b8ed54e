"""Tricks: the ways in which text tries to speak as somebody else, each with what to say of it."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from collections.abc import Iterable

Trick = tuple[str, re.Pattern[str]]

RULES = (
    r"(?:instructions?|rules?|prompts?|guidelines?|directives?|directions?|commands?|orders|"
    r"polic(?:y|ies)|safeguards?|system message)"
)
EARLIER = (
    r"(?:previous|prior|above|earlier|preceding|foregoing|existing|original|initial|system|safety|other|"
    r"all|any|every|your|the|these|those)"
)
DROP = (
    r"(?:ignore|disregard|forget|override|bypass|overlook|neglect|discard|skip|set aside|"
    r"do not (?:follow|obey)|don't (?:follow|obey)|stop (?:following|obeying))"
)
START = r"(?:^|[\n.!?。！？]\s*)[\W_]{0,4}"
COLON = r"\s*[:：]"
TAGS = (
    r"(?:system|user|assistant|developer|human|tool\w*|function\w*|lessons?|memory|memories|experience|advice|task|"
    r"transcript|evidence|instructions?|prompt|context|message|patch|hint|block)"
)
DOMAIN = r"\b[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.(?:com|net|org|io|ru|cn|xyz|top|example|test|info|biz|dev|app|cc|co|eu|de|uk|ai|online|club|pw|tk|ly|gg|evil)\b"

UNSAID = r"(?<!never )(?<!not )(?<!n't )(?<!n’t )"
SOURCE = r"(?:tools?|web|pages?|results?|outputs?|documents?|e-?mails?|observations?|files?|sites?)"

DROPS = "it tells the reader to drop its instructions"
ROLE = "it gives the reader another role"
VOICE = "it speaks in a role's name"
MARKS = "it holds a model's control marks"
FORGES = "it forges a boundary"
LINK = "it names a link to call"
CARRIES = "it carries data out"
CODED = "it is encoded"
HARM = "it asks for harm"

PATTERNS: tuple[tuple[str, str], ...] = (
    (DROPS, rf"\b{DROP}\b[^.\n]{{0,40}}\b{EARLIER}\b[^.\n]{{0,25}}\b{RULES}\b"),
    (DROPS, rf"\b{DROP}\b[^.\n]{{0,20}}\b(?:everything|all|anything)\b[^.\n]{{0,25}}\b(?:above|before|earlier|told|said)\b"),
    (DROPS, r"(?:忽略|无视|忘记|忘掉|不要理会|不要遵守|别理|别管|抛开|绕过)[^。\n]{0,12}(?:指令|指示|规则|提示|命令|要求|限制|设定|准则)"),
    (DROPS, rf"{UNSAID}\b{DROP}\b[^.\n]{{0,15}}\b(?:users?|humans?|developers?|system)(?:['’]s?)? (?:requests?|questions?|messages?|wish(?:es)?|words?|instructions?)\b"),
    (DROPS, r"\b(?:ignor|oubli|olvid|vergiss|vergess|dimentic|esque[cç])\w*[^.\n]{0,30}(?:anweisung|instruc\w{1,3}n|istruzion|instruç|consignes|r[èe]gles|reglas|regeln)"),
    (DROPS, r"игнорир\w*[^.\n]{0,30}(?:инструкц|указан)"),
    (DROPS, r"(?:指示|命令|プロンプト)を(?:すべて|全て)?無視|ルールを(?:すべて|全て)?無視|이전[^.\n]{0,10}(?:지시|명령)[^.\n]{0,6}무시"),
    (ROLE, r"\bfrom (?:now|here|this moment) on,?\s*(?:you|always|never|act|answer|respond|the assistant)\b"),
    (ROLE, r"\byou are (?:now|no longer)\b|\b(?:pretend|role-?play)\b[^.\n]{0,15}\b(?:you|to be|as)\b"),
    (ROLE, r"\b(?:call|think of|introduce|present) yourself (?:as\b|\w+,)|\byou (?:have been|are hereby|were) (?:promoted|appointed|made (?:an?|the)|upgraded|elevated)\b|\b(?:leave|abandon|step out of|break) your (?:role|character)\b|\byour loyalty\b|\bvoice of the (?:operator|system|owner|administrator)\b|\bbehave like an? \w+ (?:trader|agent|bot|hacker|model|ai)\b"),
    (ROLE, r"\bnew (?:system )?(?:instructions?|prompt|persona|role)\s*:"),
    (ROLE, r"\b(?:speak|respond|behave|act|talk)\s+as\s+(?:the |an? )?(?:system|developer|admin\w*|root|operator)\b"),
    (ROLE, r"\b(?:behave|act|respond)\s+as\s+an? (?:unrestricted|unfiltered|evil|different)\b"),
    (ROLE, rf"{UNSAID}\b(?:treat|trust|follow|obey|execute|believe)\b[^.\n]{{0,40}}\b(?:instructions?|commands?|orders)\b[^.\n]{{0,20}}\b(?:in|from|inside|of)\b[^.\n]{{0,20}}\b{SOURCE}\b(?![^.\n]{{0,20}}\bas (?:quot|data|text|content|evidence|only|mere|facts))"),
    (ROLE, rf"{UNSAID}\btreat\b[^.\n]{{0,40}}\b{SOURCE}\b[^.\n]{{0,20}}{UNSAID}\bas (?:an? )?(?:commands?|instructions?|orders)\b"),
    (ROLE, r"\bobey (?:\w+ ){0,2}(?:admin\w*|operator|instructions?|commands?|orders)\b"),
    (ROLE, r"\bthis (?:lesson|rule|advice|note|memory|entry|text)\b[^.\n]{0,30}\b(?:outranks?|overrules?|overrides?|supersedes?|over|above|precedence)\b"),
    (ROLE, r"\b(?:jailbreak\w*|developer mode|god mode|do anything now|sudo mode)\b"),
    (ROLE, rf"从(?:现在|此刻|今)(?:起|开始|以后)|你(?:现在|已经)是|(?:扮演|假装|冒充)|新的?(?:系统)?(?:指令|提示词|角色){COLON}"),
    (VOICE, rf"{START}(?:system|assistant|developer|human|user|tool|function|ai|admin|operator|root)(?: (?:prompt|message|note|notice|alert|update|reminder|override))?{COLON}"),
    (VOICE, rf"{START}(?:系统|助手|助理|开发者|用户|管理员)(?:提示|消息|指令|通知)?{COLON}"),
    (MARKS, r"<\|[^|\n]{1,40}\|>|\[/?(?:INST|SYS|SYSTEM)\]|<</?SYS>>|</?s>|<(?:start|end)_of_turn>"),
    (MARKS, r"\b(?:BEGIN|END) (?:SYSTEM|INSTRUCTIONS?|PROMPT)\b"),
    (FORGES, rf"[<‹«〈⟨]\s*/?\s*{TAGS}\b[^>›»〉⟩\n]{{0,200}}[>›»〉⟩]|\{{\{{\s*[/#]"),
    (FORGES, r"<script[^>\n]{0,80}>[^<\n]{0,80}</script|<iframe\s+\w+=|<\w+\b[^>\n]{0,80}\bon(?:error|load|click|mouse\w+|focus)\s*=|<!--\s*\w[^>\n]*-->|display:\s*none[^>\n]{0,20}>\s*\w"),
    (FORGES, r"\n\s*(?:</?[\w-]{1,40}[^>\n]{0,200}>|#{1,6} |[-=_*~]{3,}|```|\[/?\w[^\]\n]{0,200}\]\s*$)|^\s*(?:#{1,6} |[-=]{3,})"),
    (LINK, r"\b(?:https?|s?ftp|wss?|file|javascript|data|vbscript|s3|gs|ldaps?)\s*:\s*(?://|\w+[/,;])|\bhxxps?\b|\bwww\.\w"),
    (LINK, rf"\b(?:visit|open|browse|fetch|ping|navigate to|go to|download from|post to)\b[^.\n]{{0,30}}{DOMAIN}"),
    (LINK, r"\b(?:curl|wget|invoke-webrequest)\b[^\n]{0,80}(?:\|\s*(?:sudo )?\w*sh\b|\w\.[a-z]{2,}|://)|!?\[[^\]]*\]\("),
    (CODED, r"(?<![\w/+])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*\d)[A-Za-z0-9+/]{40,}={0,2}"),
    (CODED, r"(?:\\x[0-9a-f]{2}){4,}|(?:\\u[0-9a-f]{4}){4,}|(?:&#x?[0-9a-f]+;){4,}|(?:%[0-9a-f]{2}){6,}"),
)  # fmt: skip

_ORDERS = (
    r"(?:ignore|disregard|forget|override) ?(?:(?:all|any|the|your|my|every) ?)*(?:previous|prior|above|earlier|preceding)? ?"
    r"(?:system)? ?(?:instructions?|prompts?|rules|guidelines)|reveal ?(?:the|your) ?system ?prompt|you ?are ?now ?(?:an?|the|in)"
)
SQUASHED = re.compile(_ORDERS.replace(" ?", ""))
"""Orders of which only the letters are left; `SPACED` finds those that were written in whole words."""
SPACED = re.compile(_ORDERS.replace(" ?", r"\W*"))
QUOTED = re.compile("[\"“„«「『《][^\"”»」』》\n]{1,200}[\"”»」』》]|(?<!\\w)['‘][^'’\n]{6,200}['’](?!\\w)")
MENTIONS = re.compile(
    r"\b(?:(?:as|is|are|only|just|mere) (?:only |just |mere |plain )?(?:contents?|data|text)|suspicio\w+|injection\w*|phishing|attack\w*|(?:never|not) (?:as )?(?:obey|follow|act|orders?|carry)|report (?:it|them)|no effect)\b"
    r"|不要照做|不要执行|只是内容|可疑|注入|攻击",
    re.IGNORECASE,
)
"""What is said of words that are quoted as somebody else's."""


def compiled() -> Iterable[Trick]:
    """Each pattern, read once, without regard to case."""
    return tuple((reason, re.compile(pattern, re.IGNORECASE | re.MULTILINE)) for reason, pattern in PATTERNS)

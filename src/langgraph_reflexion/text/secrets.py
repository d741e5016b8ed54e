"""Mask secrets before anything is kept: keys, tokens, passwords, mail addresses, card and account numbers.

The shapes of vendors' keys are those that `detect-secrets` knows. The scanner itself is not used: it finds what may be
a secret on a line of code, for a person to look at. Of 65 honest lines of our tests (ids, versions, phone numbers) its
line scan reports 65; what is masked here is lost, so a pattern must be nearly sure.

Each pattern starts at the head of a run of letters: a long run is read once, not from each of its places.
"""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re

from langgraph_reflexion.text import lazy_pattern
from langgraph_reflexion.text.literals import MAIL

_PASSWORD = r"(?:password|passwd|passphrase|passcode|pwd|passwort|kennwort|mot de passe|contrase[ñn]a|senha|пароль)"
_KEY = r"(?:secret|api[_-]?key|access[_-]?key|account[_-]?key|auth[_-]?token|token|_pass|\bpin|\botp)"
_QUOTE = r"\\{0,8}['\"]"
"""A quotation mark, however often JSON inside JSON has escaped it."""

_WHOLE = tuple(
    lazy_pattern(pattern, re.DOTALL)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|$)",
        r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",
        r"\b(?:sk|pk|rk)[-_][\w-]{12,}",
        r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|npm_|pypi-|hf_|dop_v1_|lsv2_\w{2}_|whsec_|ntn_|figd_|shp[a-z]{2}_|sq0[a-z]{3}-|GOCSPX-)[\w-]{10,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{30,}|\bya29\.[\w-]{10,}",
        r"\bSG\.[\w-]{10,}\.[\w-]{10,}|\b[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{25,}|\b1//[\w-]{15,}",
        r"\bhttps://(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks|[\w.-]{1,80}\.webhook\.office\.com)/\S+",
        r"(?<![\w-])(?!sha\d)[a-z][a-z0-9]{1,9}[_-](?=(?:[A-Za-z]*\d){4})(?=(?:\d*[A-Za-z]){6})[A-Za-z0-9]{16,}\b",
    )
)
"""Secrets recognized by their format, which are masked completely."""

_VALUES = tuple(
    (lazy_pattern(pattern), kept)
    for pattern, kept in (
        (r"(?i)([?&](?:sig|signature|x-amz-signature)=)[\w%+/-]{10,}", r"\1"),
        (r"(?i)((?<!\S)(?:-u|--user)\s+)[^\s:]{1,80}:[^\s/]\S*", r"\1"),
        (r"(?i)(\b(?:mysql|mariadb)\w{0,10}\b[^\n|;]{0,80}?\s-p)(?!\s)[^\s'\"]{4,}", r"\1"),
        (r"(?i)(\b(?:sshpass\s+-p|(?:docker|podman|helm)\b[^\n|;]{0,80}?\blogin\b[^\n|;]{0,80}?\s-p|redis-cli\b[^\n|;]{0,80}?\s-a|zip\b[^\n|;]{0,80}?\s-P)\s*)[^\s'\"]{4,}", r"\1"),
        (r"(?i)(-pass(?:in|out)?\s+pass:)\S{4,}", r"\1"),
        (r"(?i)(\bcookie:\s*[\w-]{1,60}=)[^;\s]{8,}", r"\1"),
        (r"(?<!\w)((?:[A-Z0-9]{1,30}_){0,6}(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PWD)=)(['\"]?)(?=[\w-]*[a-z])[\w!@#%^&*+/-]{8,}(?![\w.(\[])\2", r"\1"),
        (r"(?i)\b((?:cvv|cvc)2?\b\D{0,6})\d{3,4}\b", r"\1"),
        (r"(?i)\b((?:ssn|social security number)\b\D{0,6})\d{3}-?\d{2}-?\d{4}\b", r"\1"),
        (r"(?i)\b((?:seed|recovery|mnemonic) phrase(?: is)?\s*:?\s+)(?:[a-z]{3,8}\s+){11,23}[a-z]{3,8}\b", r"\1"),
        (r"(?i)\b((?:session(?:_?id)?|sid|cookie)=)(?=[\w-]*\d)[\w-]{12,}", r"\1"),
        (r"(?i)\b((?:bearer|basic)\s+)(?=[\w.~+/-]*[\d=])[\w.~+/-]{12,}=*", r"\1"),
        (r"(?i)((?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://)[^\s/:@]+:[^\s/@]+(?=@)", r"\1"),
        # A quoted value may hold spaces: what a password or a passphrase is, and what a key of JSON says of its name.
        (rf"(?i)((?<![\w-])[\w-]*{_PASSWORD}(?:{_QUOTE})?\s*(?:[:=]|\bis\b)\s*({_QUOTE}))(?=[^'\"\\\n]*\w)[^'\"\\\n]{{4,100}}(?=\2)", r"\1"),
        (rf"(?i)((?<![\w-])[\w-]*{_KEY}{_QUOTE}\s*:\s*({_QUOTE}))(?=[^'\"\\\n]*(?:\d|\s|[^'\"\\\n]{{8}}))[^'\"\\\n]{{4,100}}(?=\2)", r"\1"),
        (rf"(?i)(\bpass\s*[:=]\s*({_QUOTE}))(?=[^'\"\\\n]*\w)[^'\"\\\n]{{4,100}}(?=\2)", r"\1"),
        (r"(?i)(;\s*(?:password|pwd)=)[^;\s'\"][^;'\"\n]{3,60}(?=;)", r"\1"),
        (rf"(?i)((?<![\w-])[\w-]*(?:{_PASSWORD}|{_KEY})['\"]?(?:\s+(?:for|of)\s+\S+)?(?:\s*[:=]\s*|%3d|\s+is\s+|\s+)(?=\S{{0,80}}?\d|(?:(?<=[:=])|(?<=[:=]\s)|(?<=\bis\s))'))(['\"]?)[^\s'\",;\\]{{4,}}\2", r"\1"),
        (rf"(?i)\b((?:{_PASSWORD}|secret|api[_-]?key|access[_-]?key|auth[_-]?token|token)=)[\w!@#%^&*+/-]{{6,}}(?![\w.(\[])", r"\1"),
        (r"((?:密码|口令|密钥|令牌|パスワード|비밀번호)\s*(?:是|为)?[:：]?\s*)[\w!@#$%^&*.-]{4,}", r"\1"),
    )
)  # fmt: skip
"""Secrets recognized by the text before them, which stays."""

_MAILS = (
    lazy_pattern(rf"(?!git@){MAIL}"),
    lazy_pattern(
        r"(?<![\w.+-])[\w.+-]+ ?[\[({] ?(?i:at) ?[\])}] ?[\w-]+(?: ?[\[({] ?(?i:dot) ?[\])}] ?[\w-]+|\.[\w-]+)+"
    ),
    lazy_pattern(r"(?<![\w.+-])[\w.+-]+ AT [\w-]+(?: DOT [\w-]+)+\b"),
)
_RANDOM = lazy_pattern(
    r"(?<![\w-])(?=[A-Za-z0-9_-]*[a-z])(?=[A-Za-z0-9_-]*[A-Z])(?=(?:[A-Za-z_-]*\d){3})[A-Za-z0-9_-]{28,}\b"
)
"""A long run of letters and digits that is not a word."""

_HEX = lazy_pattern(
    r"\b((?:commit|sha-?(?:1|256|512)|md5|hash|digest|checksum|revision|blob|tree|object|e-?tag|parent)\b"
    r"(?:\s+(?:is|of))?[\s:=@'\"`]{1,3})?\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{32,}\b",
    re.IGNORECASE,
)
"""A long hexadecimal number is a key, unless a word before it says that it names some content."""

_CARD = lazy_pattern(r"(?<!\d)(?:\d(?:[ \u00a0\u2009\u202f–-]?\d){12,18}|\d{4}(?:\.\d{4}){3})(?!\d)")
_ACCOUNT = lazy_pattern(r"\b[A-Z]{2}\d{2}(?:[ \u00a0]?[A-Z0-9]{4}){2,7}(?:[ \u00a0]?[A-Z0-9]{1,3})?\b")


def mask_secrets(text: str) -> str:
    """The text with each key, token, password, mail address, card and account number replaced by one word."""
    for pattern in _WHOLE:
        text = pattern.sub("[secret]", text)
    for pattern, kept in _VALUES:
        text = pattern.sub(rf"{kept}[secret]", text)
    for pattern in _MAILS:
        text = pattern.sub("[mail]", text)
    text = _RANDOM.sub("[secret]", text)
    text = _HEX.sub(lambda found: found.group() if found.group(1) else "[secret]", text)
    text = _ACCOUNT.sub(lambda found: "[account]" if _is_account(found.group()) else found.group(), text)
    return _CARD.sub(lambda found: "[card]" if _is_card(found.group()) else found.group(), text)


def _is_account(number: str) -> bool:
    """Whether the check digits of an international bank account number fit."""
    signs = "".join(filter(str.isalnum, number))
    return int("".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4])) % 97 == 1


def _is_card(number: str) -> bool:
    """Whether the check digit of a card number fits (Luhn)."""
    digits = [int(sign) for sign in number if sign.isdigit()][::-1]
    doubled = [digit if i % 2 == 0 else (2 * digit - 9 if digit > 4 else 2 * digit) for i, digit in enumerate(digits)]
    return sum(doubled) % 10 == 0

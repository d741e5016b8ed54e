"""Secrets: what must not outlive its run is masked before anything is kept.

Each pattern starts at the head of a run of letters: a long run is looked at once, not from each of its places.
"""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re

MAIL = r"(?<![\w.+@-])[\w.+-]+[@＠][\w-]+(?:[.．][\w-]+)*[.．][^\W\d_]{2,}\b"
"""A mail address."""

_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|$)", re.DOTALL
        ),
        "[secret]",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), "[secret]"),
    (re.compile(r"\b(?:sk|pk|rk)[-_][\w-]{12,}"), "[secret]"),
    (
        re.compile(
            r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|npm_|pypi-|hf_|dop_v1_|lsv2_\w{2}_|whsec_|ntn_|figd_|shp[a-z]{2}_|sq0[a-z]{3}-|GOCSPX-)[\w-]{10,}"
        ),
        "[secret]",
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{30,}|\bya29\.[\w-]{10,}"), "[secret]"),
    (re.compile(r"\bSG\.[\w-]{10,}\.[\w-]{10,}|\b[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{25,}|\b1//[\w-]{15,}"), "[secret]"),
    (
        re.compile(
            r"\bhttps://(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks|[\w.-]{1,80}\.webhook\.office\.com)/\S+"
        ),
        "[secret]",
    ),
    (
        re.compile(
            r"(?<![\w-])(?!sha\d)([a-z][a-z0-9]{1,9}[_-])(?=(?:[A-Za-z]*\d){4})(?=(?:\d*[A-Za-z]){6})[A-Za-z0-9]{16,}\b"
        ),
        "[secret]",
    ),
    (re.compile(r"(?i)([?&](?:sig|signature|x-amz-signature)=)[\w%+/-]{10,}"), r"\1[secret]"),
    (re.compile(r"(?i)((?<!\S)(?:-u|--user)\s+)[^\s:]{1,80}:[^\s/]\S*"), r"\1[secret]"),
    (re.compile(r"(?i)(\bcookie:\s*[\w-]{1,60}=)[^;\s]{8,}"), r"\1[secret]"),
    (
        re.compile(
            r"(?<!\w)((?:[A-Z0-9]{1,30}_){0,6}(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PWD)=)(['\"]?)(?=[\w-]*[a-z])[\w!@#%^&*+/-]{8,}(?![\w.(\[])\2"
        ),
        r"\1[secret]",
    ),
    (re.compile(r"(?i)\b((?:cvv|cvc)2?\b\D{0,6})\d{3,4}\b"), r"\1[secret]"),
    (re.compile(r"(?i)\b((?:ssn|social security number)\b\D{0,6})\d{3}-?\d{2}-?\d{4}\b"), r"\1[secret]"),
    (
        re.compile(r"(?i)\b((?:seed|recovery|mnemonic) phrase(?: is)?\s*:?\s+)(?:[a-z]{3,8}\s+){11,23}[a-z]{3,8}\b"),
        r"\1[secret]",
    ),
    (re.compile(r"(?i)\b((?:session(?:_?id)?|sid|cookie)=)(?=[\w-]*\d)[\w-]{12,}"), r"\1[secret]"),
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=[\w.~+/-]*[\d=])[\w.~+/-]{12,}=*"), r"\1 [secret]"),
    (re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*://)[^\s/:@]+:[^\s/@]+@"), r"\1[secret]@"),
    (
        re.compile(
            r"(?i)(?<![\w-])((?:[\w-]*(?:password|passwd|passphrase|passcode|passwort|kennwort|mot de passe|contrase[ñn]a|senha|пароль|secret|api[_-]?key|access[_-]?key|account[_-]?key|auth[_-]?token|token|_pass|\bpwd|\bpin|\botp))['\"]?"
            r"(?:\s+(?:for|of)\s+\S+)?)(\s*[:=]\s*|\s+is\s+|\s+)(?=\S{0,80}?\d|(?:(?<=[:=])|(?<=[:=]\s)|(?<=\bis\s))['\"])"
            r"(['\"]?)([^\s'\",;]{4,})\3"
        ),
        r"\1\2[secret]",
    ),
    (
        re.compile(
            r"(?i)\b((?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|token)=)[\w!@#%^&*+/-]{6,}(?![\w.(\[])"
        ),
        r"\1[secret]",
    ),
    (
        re.compile(r"(密码|口令|密钥|令牌|パスワード|비밀번호)(\s*(?:是|为)?[:：]?\s*)([\w!@#$%^&*.-]{4,})"),
        r"\1\2[secret]",
    ),
    (re.compile(rf"(?!git@){MAIL}"), "[mail]"),
    (
        re.compile(
            r"(?<![\w.+-])[\w.+-]+ ?[\[({] ?(?i:at) ?[\])}] ?[\w-]+(?: ?[\[({] ?(?i:dot) ?[\])}] ?[\w-]+|\.[\w-]+)+"
        ),
        "[mail]",
    ),
    (re.compile(r"(?<![\w.+-])[\w.+-]+ AT [\w-]+(?: DOT [\w-]+)+\b"), "[mail]"),
    (
        re.compile(
            r"(?<![\w-])(?=[A-Za-z0-9_-]*[a-z])(?=[A-Za-z0-9_-]*[A-Z])(?=(?:[A-Za-z_-]*\d){3})[A-Za-z0-9_-]{28,}\b"
        ),
        "[secret]",
    ),
)
_HEX = re.compile(
    r"\b((?:commit|sha-?(?:1|256|512)|md5|hash|digest|checksum|revision|blob|tree|object|e-?tag|parent)\b"
    r"(?:\s+(?:is|of))?[\s:=@'\"`]{1,3})?\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{32,}\b",
    re.IGNORECASE,
)
"""A long hexadecimal number is a key, unless a word before it says that it is the name of some content."""
_CARD = re.compile(r"(?<!\d)(?:\d(?:[ \u00a0\u2009\u202f–-]?\d){12,18}|\d{4}(?:\.\d{4}){3})(?!\d)")
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?:[ \u00a0]?[A-Z0-9]{4}){2,7}(?:[ \u00a0]?[A-Z0-9]{1,3})?\b")


def mask_secrets(text: str) -> str:
    """The text with keys, tokens, passwords, mail addresses, card and account numbers each replaced by one word."""
    for pattern, word in _SECRETS:
        text = pattern.sub(word, text)
    text = _HEX.sub(lambda found: found.group() if found.group(1) else "[secret]", text)
    text = _ACCOUNT.sub(lambda found: "[account]" if _is_an_account(found.group()) else found.group(), text)
    return _CARD.sub(lambda found: "[card]" if _checks_out(found.group()) else found.group(), text)


def _is_an_account(number: str) -> bool:
    """Whether an international bank account number's check digits fit."""
    signs = "".join(one for one in number if one.isalnum())
    return int("".join(str(int(one, 36)) for one in signs[4:] + signs[:4])) % 97 == 1


def _checks_out(number: str) -> bool:
    digits = [int(one) for one in number if one.isdigit()][::-1]
    doubled = [digit if i % 2 == 0 else (2 * digit - 9 if digit > 4 else 2 * digit) for i, digit in enumerate(digits)]
    return sum(doubled) % 10 == 0

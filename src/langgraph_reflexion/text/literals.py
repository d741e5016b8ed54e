"""Find and mask what belongs to one instance of a task: literals (links, names, ids, dates, numbers) and secrets.

With literals masked, the same mistake on another instance has the same fingerprint (`fingerprint`). A lesson that
contains literals restates its task or gives the answer away (`retold_detail`, `gives_away`). Secrets are masked before
anything is kept (`mask_secrets`).
"""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from langgraph_reflexion.text import hash_of, lazy_pattern
from langgraph_reflexion.text.likeness import likeness
from langgraph_reflexion.text.tokens import LETTERS, UNSPACED, EdgePattern, fold, tokens, word_set

MAX_FINGERPRINTED = 1_500
"""Characters of an error that a fingerprint uses. Later differences are details."""

MAX_READABLE = 120
"""Readable characters of a fingerprint. The rest is hashed, so that logs stay short."""

MAX_TASK = 20_000
"""Characters of a task that are compared with a text: bounds the time on a task with a document in it."""

_MAIL = (
    rf"(?:(?<![{LETTERS}.+@-])[{LETTERS}.+-]+|[{UNSPACED}]{{1,20}})[@＠][\w-]+(?:[.．][\w-]+)*[.．]"
    rf"(?:(?![\d_])[{LETTERS}](?:(?![\d_])[{LETTERS}])+(?![{LETTERS}])|[{UNSPACED}]{{2,4}})"
)

_SORT = r"(?-i:[a-z_]+|[A-Z_]+)"
"""A value of a field that says of which sort something is, not which one it is: `"refund"` in `{"job": "refund"}`."""

_LITERAL = EdgePattern(
    rf"""
    (?P<url>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://[^\s'"<>)\]]+ | \bwww\.[^\s'"<>)\]]+)
    | (?P<mail>{_MAIL})
    | (?P<uuid>\b[0-9a-f]{{8}}-(?:[0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}\b)
    | (?P<field>(?:^|[{{,])\s*(?P<quote>["'])(?:(?!\d)[\w.-]){{1,60}}(?P=quote)\s*:(?:\s*(?P=quote){_SORT}(?P=quote))?
        | <[\w:-]{{1,60}}\s+[\w:-]{{1,60}}="{_SORT}")
    | (?P<str>(?<![\w'])'(?:[^'\\\n]|\\.){{0,500}}'(?!\w) | "(?:[^"\\\n]|\\.){{0,500}}" | `[^`\n]{{0,500}}`
        | “[^”\n]{{0,500}}” | ‘[^’\n]{{0,500}}’ | 「[^」\n]{{0,500}}」 | 『[^』\n]{{0,500}}』 | 《[^》\n]{{0,500}}》
        | «[^»\n]{{0,500}}»)
    | (?P<path>\b[a-z]:\\[^\s'"<>]+ | (?<![\w/<])(?:~|\.{{1,2}})?/[\w.@%+~-]+(?:/[\w.@%+~-]*)*
        | (?<![\w/.-])[\w.-]+(?:/[\w.@%+-]+){{2,}}/? | (?<![\w/.-])[\w-]+(?:/[\w-]+)+\.\w+)
    | (?P<host>\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?\b(?!\.\d)
        | (?<![{LETTERS}.-])(?:[{LETTERS}-]{{1,63}}\.){{1,8}}
          (?:com|org|net|edu|gov|io|cn|de|uk|fr|eu|jp|local|internal|example)\b(?::\d+)?(?!\.?[{LETTERS}]))
    | (?P<file>(?:(?<![{LETTERS}/.-])[{LETTERS}-]+|(?<![\w/.-])[\w-]*[{UNSPACED}])
        \.(?:csv|tsv|jsonl?|xlsx?|txt|pdf|md|py|ipynb|js|ts|html?|xml|ya?ml|toml|ini|log|sql
        |db|docx?|pptx?|parquet|zip|tar|gz|png|jpe?g|svg|sh|c|cpp|go|rs|rb|java)\b)
    | (?P<date>\b\d{{4}}-\d{{1,2}}-\d{{1,2}}
          (?:[T\ ]\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:\.\d+)?)?(?:Z|[+-]\d{{2}}:?\d{{2}})?)?\b
        | \b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b
        | \d{{4}}年\d{{1,2}}月(?:\d{{1,2}}[日号])? | \d{{1,2}}月\d{{1,2}}[日号])
    | (?P<time>\b\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:\.\d+)?)?\b)
    | (?P<hex>\b0x[0-9a-f]+\b | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{{7,}}\b)
    | (?P<id>(?<![a-z0-9_-])(?=[a-z0-9_-]*\d)(?=[a-z0-9_-]*[a-z])[a-z0-9]+(?:[-_][a-z0-9]+)+(?![a-z0-9_])
        | (?<![a-z0-9_])[a-z]+\d[a-z0-9_]*(?![a-z0-9_])
        | (?<![a-z0-9_])(?!\d+e\d+\b)\d+(?:[a-z]{{3,}}|[a-z]+\d)[a-z0-9_]*(?![a-z0-9_]))
    | (?P<n>(?<![a-z0-9_<])[-+$€£¥]?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?%?(?=\D|$))
    """,
    re.IGNORECASE | re.VERBOSE,
)
_AFTER_KEY = lazy_pattern(r"""["']\s*:\s*$""")
_UNSPACED = re.compile(f"[{UNSPACED}]")

_GENERAL = lazy_pattern(
    r"(?:utf|sha|md|base|int|uint|float|ipv|http|python|gpt|iso|rfc|covid|h|x|s|ec|oauth|mp|web)-?_?\d+(?:[._-]\d+)*"
    r"|[$€£¥]?\d{1,3}%?|10+|1024|2048|4096|8080|65535|\d+-?(?:bit|byte|day|hour|minute|second|week|month|year)s?"
    r"|\d(?:st|nd|rd|th)|(?:readme|changelog|license)\.md|package\.json|pyproject\.toml|requirements\.txt"
    r"|(?:setup|__init__|__main__|conftest|manage|main)\.py|index\.html?|(?:node|vue|next|three|express|react)\.js",
    re.IGNORECASE,
)
"""Literals that do not belong to a particular task: standards, units, small numbers, usual file names. Without them, 37
instead of 28 of the 846 lessons of benchmarks/recall.py are refused on a task that they fit."""

_NAME = lazy_pattern(
    r"(?:(?<=[\w,;)] )|(?<=: )(?![A-Z][a-z]+ [a-z\d])|(?<=\b(?:Mr|Ms|Dr)\. ))[A-Z][a-z]{2,}(?:[- ][A-Z][a-z]{2,})*\b"
)
"""Capitalized words within a sentence. One after a colon may start a sentence, as one after a full stop, if a small word
or a number follows: `Your task is to: Convert all lengths.`"""

_NO_NAMES = word_set(
    """
    Mrs Prof Python Java Javascript Typescript Rust Ruby Perl Swift Kotlin Scala Haskell Golang Docker Linux Windows
    Unix Excel Node Word Django Flask React Angular Pandas Numpy Postgres Mysql Sqlite Redis Mongo Kafka Spark Hadoop
    Kubernetes English Chinese German French Spanish Japanese European American Asian African Internet Web Git
    Github Google Unicode Markdown Latex Json Celsius Fahrenheit Kelvin Roman Greek Latin Arabic Bayes Fibonacci
    Euclid Fourier Gauss Newton Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March
    April May June July August September October November December Christmas Answer Question Write Return Find Give
    Use Make Plan The This That What When Yes True False None
    """
)
"""Capitalized words that are not names. Without them, 38 instead of 29 of the 958 lessons that fit a task of
benchmarks/recall.py are refused on it."""

_IN_CODE = lazy_pattern(r"\b([A-Z]\w*)(?=\(|\[[A-Za-z])|(?:->|\bimport|\bclass) ([A-Z]\w*)")
"""A type or a function in code, such as `List` in `def total(prices: List[int]) -> Optional[int]`: not a name."""

_GERMAN = word_set(
    "aber auch auf beim bitte deren ein eine einem einen einer für ich ist kann mein meine nach nicht noch nur oder sich "
    "sie sind über und unser wenn wer wird wurde zum zur"
)
"""Frequent German words. A text is German if it has one of these, and two of both lists together."""
_GERMAN_AND_OTHER = word_set("aus bei das dem den der des die ins mir mit von wie")
"""Frequent German words that English ("die", "van der Rohe"), Danish, Dutch or French texts have too."""


def fingerprint(signal: str, tool: str | None, text: str, literals: Iterable[str] = ()) -> str:
    """The fingerprint of a mistake: the same text for the same mistake on another instance, in every process.

    It reads `signal|tool|what went wrong` with the literals masked; `literals` are further values to mask, such as
    the arguments of the call.
    """
    if "Traceback (most recent call last)" in text:  # the frames say where, its last line says what
        text = text.strip().splitlines()[-1]
    masked = mask_literals(text[:MAX_FINGERPRINTED], literals)
    if len(masked) > MAX_READABLE:
        masked = f"{masked[:MAX_READABLE]}#{hash_of(masked, 8)}"
    return f"{signal}|{tool or ''}|{masked}"


def mask_literals(text: str, literals: Iterable[str]) -> str:
    """The text in lower case with each literal replaced by a word for its kind."""
    text = unicodedata.normalize("NFKC", text).encode("utf-8", "replace").decode().replace("\0", "�")
    for literal in sorted({literal for literal in literals if len(literal) > 1}, key=lambda text: (-len(text), text)):
        if literal in text:  # compiling a pattern of a whole file takes seconds, looking for it does not
            text = re.sub(rf"(?<!\w){re.escape(literal)}(?!\w)", "<str>", text)
    text = mask_secrets(_LITERAL.for_text(text).sub(_mask, text))
    text = re.sub(r"(<\w+>)(?:\s*[,;、]\s*\1)+", r"\1", text)
    return " ".join(text.split()).lower().rstrip(" .!。")


def literals_of(task: str, *, with_messages: bool = False) -> list[str]:
    """The literals of a task, which a rule for other tasks must not contain.

    Of a quoted message, these are its own literals, and `with_messages` all of it too.
    """
    literals: list[str] = []
    for found in _LITERAL.for_text(task).finditer(task[:MAX_TASK]):
        literal = found.group().rstrip(".,;:")
        if _is_message(found):
            message = _quoted_by(found)
            literals += [*literals_of(message), *([message] if with_messages else [])]
        elif found.lastgroup == "str":
            quoted = literal[1:-1].strip()
            # A quoted word is often a term; of a script without spaces two characters are a name.
            if 3 <= len(quoted) <= 200 or (len(quoted) == 2 and not quoted.isascii()):
                literals.append(quoted)
        elif found.lastgroup != "field" and not _GENERAL.fullmatch(literal):
            literals.append(literal)
    return [literal for literal in dict.fromkeys(literals) if len(fold(literal)) > 1]


def names_of(task: str) -> list[str]:
    """The names in a task, by their capitals. None if all words are capitalized, as in a heading.

    German capitalizes every noun, so there only the last of several capitalized words is a name: "Frau Brandt".
    """
    words = re.findall(r"\b[A-Za-z]{4,}\b", task)[1:]
    if sum(word[0].isupper() for word in words) > max(0.7 * len(words), 2):
        return []
    runs = [match.group().split(" ") for match in _NAME.finditer(task)]
    if is_german(task):
        runs = [run[-1:] for run in runs if len(run) > 1]
    found = [name for run in runs for name in run]
    in_code = {name for names in _IN_CODE.findall(task) for name in names}
    return [name for name in dict.fromkeys(found) if name not in _NO_NAMES and name not in in_code]


def is_german(text: str) -> bool:
    """Whether a text is German, a language in which a capital letter does not mark a name."""
    words = set(re.findall(r"\w+", text.lower()))
    return bool(words & _GERMAN) and len(words & (_GERMAN | _GERMAN_AND_OTHER)) >= 2


def retold_detail(text: str, task: str) -> str | None:
    """The detail of the task that a text repeats, or `None`."""
    task, folded = task[:MAX_TASK], f" {fold(text)} "
    for literal in literals_of(task, with_messages=True):
        detail = fold(literal)
        if detail in folded and re.search(rf"(?<![a-z0-9_]){re.escape(detail)}(?![a-z0-9_])", folded):
            return repr(literal)
    for name in names_of(task):
        if re.search(rf"\b{re.escape(name)}\b", text):
            return repr(name)
    # A text with three quarters of a longer task's words is the task again. Of the tasks of benchmarks/recall.py, given as
    # lessons with a few words around them, this finds 75 %.
    is_retold = len(tokens(task)) >= 4 and likeness(text.split("\n")[0], task) >= 0.75
    return "all of it" if is_retold else None


def gives_away(text: str, answer: str) -> bool:
    """Whether the text contains the answer: a distinctive one verbatim, a long one in nearly the same words."""
    wanted, folded = fold(answer), fold(text)
    if len(wanted) > 200:
        return likeness(text, answer[:2000]) >= 0.7
    if not wanted.isascii():
        return len(wanted) > 1 and wanted in folded
    name = answer.strip(" .")
    if len(name) > 2 and name.isalpha() and name.istitle() and name not in _NO_NAMES:
        return re.search(rf"(?:(?<=[\w,;:] )|(?<=[{UNSPACED}])){re.escape(name)}(?![{LETTERS}])", text) is not None
    distinctive = len(wanted) > 1 and (any(map(str.isdigit, wanted)) or " " in wanted or len(wanted) >= 6)
    return distinctive and re.search(rf"(?<![{LETTERS}.]){re.escape(wanted)}(?![{LETTERS}])", folded) is not None


def _is_message(found: re.Match[str]) -> bool:
    """Whether a literal is quoted text of three words or more that is the value of a field, or all there is."""
    quoted = found.group()
    if found.lastgroup != "str" or quoted.count(" ") + len(_UNSPACED.findall(quoted)) / 4 < 2:
        return False
    is_value = _AFTER_KEY.search(found.string[max(found.start() - 9, 0) : found.start()]) is not None
    return is_value or quoted == found.string.strip()


def _quoted_by(found: re.Match[str]) -> str:
    return found.group()[1:-1].replace('\\"', '"').replace("\\'", "'")


def _mask(found: re.Match[str]) -> str:
    """The word that replaces a literal. A file's name stays, like a module's, and so do the names of fields."""
    if _is_message(found):
        message = _quoted_by(found)
        return f'"{_LITERAL.for_text(message).sub(_mask, message)}"'
    kept = {"file": found.group(), "field": found.group(), "uuid": "<id>"}
    return kept.get(str(found.lastgroup), f"<{found.lastgroup}>")


# ---------------------------------------------------------------- secrets

# The formats of vendors' keys are those that `detect-secrets` knows. The scanner itself is not used: it reports lines of
# code that may contain a secret, for a person to look at, and reports each of the 65 honest lines of our tests (ids,
# versions, phone numbers). What is masked here is lost, so a pattern must be nearly sure. Each pattern starts where a run
# of letters starts, so that a long run is read only once.

_PASSWORD = r"(?:password|passwd|passphrase|passcode|pwd|passwort|kennwort|mot de passe|contrase[ñn]a|senha|пароль)"
_KEY = r"(?:secret|api[_-]?key|access[_-]?key|account[_-]?key|auth[_-]?token|token|_pass|\bpin|\botp)"
_QUOTE = r"\\{0,8}['\"]"
"""A quotation mark, however often JSON inside JSON has escaped it."""

_SECRETS = tuple(
    lazy_pattern(pattern, re.DOTALL | re.ASCII)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|$)",
        r"(?<![\w+/=\s\\])(?=[\w+/=\s\\]*[\w+/=]{16})[\w+/=\s\\]*-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----",  # of one that was cut
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

_SECRET_VALUES = tuple(
    EdgePattern(pattern)
    for pattern in (
        r"(?i)([?&](?:sig|signature|x-amz-signature)=)[\w%+/-]{10,}",
        r"(?i)((?<!\S)(?:-u|--user)\s+)[^\s:]{1,80}:[^\s/]\S*",
        r"(?i)(\b(?:mysql|mariadb)\w{0,10}\b[^\n|;]{0,80}?\s-p)(?!\s)[^\s'\"]{4,}",
        r"(?i)(\b(?:sshpass\s+-p|(?:docker|podman|helm)\b[^\n|;]{0,80}?\blogin\b[^\n|;]{0,80}?\s-p|redis-cli\b[^\n|;]{0,80}?\s-a|zip\b[^\n|;]{0,80}?\s-P)\s*)[^\s'\"]{4,}",
        r"(?i)(-pass(?:in|out)?\s+pass:)\S{4,}",
        r"(?i)(\bcookie:\s*[\w-]{1,60}=)[^;\s]{8,}",
        r"\b((?:[A-Z0-9]{1,30}_){0,6}(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PWD)=)(['\"]?)(?=[\w-]*[a-z])[\w!@#%^&*+/-]{8,}(?![\w(\[]|\.\w)\2",
        r"(?i)\b((?:cvv|cvc)2?\b\D{0,6})\d{3,4}\b",
        r"(?i)\b((?:ssn|social security number)\b\D{0,6})\d{3}-?\d{2}-?\d{4}\b",
        r"(?i)\b((?:seed|recovery|mnemonic) phrase(?: is)?(?:\s*:)?\s+)(?:[a-z]{3,8}\s+){11,23}[a-z]{3,8}\b",
        r"(?i)\b((?:session(?:_?id)?|sid|cookie)=)(?=[\w-]*\d)[\w-]{12,}",
        r"(?i)\b((?:bearer|basic)\s+)(?=[\w.~+/-]*[\d=])[\w.~+/-]{12,}=*",
        r"(?i)((?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://)[^\s/:@]*:[^\s/@]+(?=@)",
        # A quoted value may contain spaces: a password or a passphrase, and the value of a key in JSON.
        rf"(?i)((?<![\w-])[\w-]*{_PASSWORD}(?:{_QUOTE})?\s*(?:[:=]|\bis\b)\s*({_QUOTE}))(?=[^'\"\\\n]*\w)[^'\"\\\n]{{4,100}}(?=\2)",
        rf"(?i)((?<![\w-])[\w-]*{_KEY}{_QUOTE}\s*:\s*({_QUOTE}))(?=[^'\"\\\n]*(?:\d|\s|[^'\"\\\n]{{8}}))[^'\"\\\n]{{4,100}}(?=\2)",
        rf"(?i)(\bpass\s*[:=]\s*({_QUOTE}))(?=[^'\"\\\n]*\w)[^'\"\\\n]{{4,100}}(?=\2)",
        r"(?i)(;\s*(?:password|pwd)=)[^;\s'\"][^;'\"\n]{3,60}(?=;)",
        rf"(?i)((?<![\w-])[\w-]*(?:{_PASSWORD}|{_KEY})['\"]?(?:\s+(?:for|of)\s+\S+)?(?:\s*[:=]\s*|%3d|\s+is\s+|\s+)(?=\S{{0,80}}?\d|(?:(?<=[:=])|(?<=[:=]\s)|(?<=\bis\s))'))(['\"]?)[^\s'\",;\\]{{4,}}\2",
        rf"(?i)\b((?:{_PASSWORD}|secret|api[_-]?key|access[_-]?key|auth[_-]?token|token)=)[\w!@#%^&*+/-]{{6,}}(?![\w(\[]|\.\w)",
        r"((?:密码|口令|密钥|令牌|パスワード|비밀번호)(?:\s*(?:[是为][:：]?|[:：]))?\s*)[\w!@#$%^&*.-]{4,}",
    )
)  # fmt: skip
"""Secrets recognized by the text before them, the first group, which stays."""

_MAILS = (
    lazy_pattern(rf"(?!git@){_MAIL}"),
    lazy_pattern(
        r"(?<![\w.+-])[\w.+-]+ ?[\[({] ?(?i:at) ?[\])}] ?[\w-]+(?: ?[\[({] ?(?i:dot) ?[\])}] ?[\w-]+|\.[\w-]+)+"
    ),
    lazy_pattern(r"(?<![\w.+-])[\w.+-]+ AT [\w-]+(?: DOT [\w-]+)+\b"),
)
_RANDOM = lazy_pattern(
    r"(?<![\w-])(?=[A-Za-z0-9_-]*[a-z])(?=[A-Za-z0-9_-]*[A-Z])(?=(?:[A-Za-z_-]*\d){3})[A-Za-z0-9_-]{28,}\b",
    re.ASCII,
)
"""A long run of letters and digits that is not a word."""

_HEX = lazy_pattern(
    r"\b((?:commit|sha-?(?:1|256|512)|md5|hash|digest|checksum|revision|blob|tree|object|e-?tag|parent)\b"
    r"(?:\s+(?:is|of))?[\s:=@'\"`]{1,3})?\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{32,}\b",
    re.IGNORECASE | re.ASCII,
)
"""A long hexadecimal number is a key, unless a word before it says that it names some content."""

_CARD = lazy_pattern(r"(?<!\d)(?:\d(?:[ \u00a0\u2009\u202f–-]?\d){12,18}|\d{4}(?:\.\d{4}){3})(?!\d)")
_ACCOUNT = lazy_pattern(r"\b[A-Z]{2}\d{2}(?:[ \u00a0]?[A-Z0-9]{4}){2,7}(?:[ \u00a0]?[A-Z0-9]{1,3})?\b", re.ASCII)


def mask_secrets(text: str) -> str:
    """The text with each key, token, password, mail address, card and account number replaced by one word."""
    for pattern in _SECRETS:
        text = pattern.sub("[secret]", text)
    for value in _SECRET_VALUES:
        text = value.for_text(text).sub(r"\1[secret]", text)
    for pattern in _MAILS:
        text = pattern.sub("[mail]", text)
    text = _RANDOM.sub("[secret]", text)
    text = _HEX.sub(lambda found: found.group() if found.group(1) else "[secret]", text)
    text = _ACCOUNT.sub(lambda found: "[account]" if _is_account(found.group()) else found.group(), text)
    return _CARD.sub(lambda found: "[card]" if _is_card(found.group()) else found.group(), text)


def is_address(text: str) -> bool:
    """Whether a text begins like a database's address: with `postgresql://` or, as in a path, with `mysql:/`."""
    return re.match(r"\w{2,}\+?\w*:/", text) is not None


def hide_password(text: str) -> str:
    """A database's address, or a message that quotes one, without its password. A password may contain `/`, `:` and `@`."""
    text = re.sub(r"(?i)(password\s*=\s*)('[^']*'|[^&\s'\"]*)", r"\1***", text)
    return re.sub(r"(\w:/{1,2}[^:/@\s]*):\S.*@", r"\1:***@", text)


def _is_account(number: str) -> bool:
    """Whether the check digits of an international bank account number fit."""
    signs = "".join(filter(str.isalnum, number))
    return int("".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4])) % 97 == 1


def _is_card(number: str) -> bool:
    """Whether the check digit of a card number fits (Luhn)."""
    digits = [int(sign) for sign in number if sign.isdigit()][::-1]
    doubled = [digit if i % 2 == 0 else (2 * digit - 9 if digit > 4 else 2 * digit) for i, digit in enumerate(digits)]
    return sum(doubled) % 10 == 0

"""Literals: what of a task is its own, so that a lesson which names it would be a retelling."""

from __future__ import annotations

import re

from langgraph_reflexion.text.likeness import likeness
from langgraph_reflexion.text.masking import MAIL
from langgraph_reflexion.text.words import fold, listed, tokens

TASK_LOOKED_AT = 20_000
"""Characters of a task in which its details are looked for."""

_QUOTED = re.compile(
    r"[\"“]([^\"”\n]{3,200})[\"”]|(?<!\w)['‘]([^'’\n]{3,200})['’](?!\w)|`([^`\n]{3,200})`|[「『《]([^」』》\n]{2,200})[」』》]"
)
_SPACED = r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
"""A letter or digit of a script with spaces between words; in others an id may stand between two words."""
_LITERAL = re.compile(
    "|".join(
        (
            r"(?P<url>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://\S+)",
            rf"(?P<mail>{MAIL})",
            r"(?P<path>\b[a-z]:\\[^\s'\"<>]+|(?<![\w/<.~])(?:~|\.{1,2})?/[\w.@%+~-]+/[\w./@%+~-]+"
            r"|(?<![\w/.-])[\w.-]+(?:/[\w.@%+-]+){2,}/?|(?<![\w/.-])[\w-]+(?:/[\w-]+)+\.\w{1,5}\b)",
            r"(?P<file>(?<![\w/.-])[\w-]+\.(?:csv|tsv|json|jsonl|xlsx?|txt|pdf|md|py|ipynb|js|ts|html?|xml|ya?ml|toml|ini|"
            r"log|sql|db|docx?|pptx?|parquet|zip|tar|gz|png|jpe?g|svg|sh|c|cpp|go|rs|rb|java)\b)",
            r"(?P<date>\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
            r"|\d{4}年\d{1,2}月(?:\d{1,2}[日号])?|\d{1,2}月\d{1,2}[日号])",
            r"(?P<time>\d{1,2}:\d{2})",
            r"(?P<version>\bv?\d+(?:\.\d+){2,}\b)",
            rf"(?P<id>(?<!-)(?<!{_SPACED})(?=(?:{_SPACED}|-)*\d)(?=(?:{_SPACED}|-)*(?!\d|_){_SPACED})"
            rf"{_SPACED}+(?:-{_SPACED}+)+(?!{_SPACED})"
            r"|(?<![a-z0-9_])(?=[a-z0-9_]*\d)(?=[a-z0-9_]*[a-z])[a-z0-9_]{4,}(?![a-z0-9_]))",
            r"(?P<amount>[$€£¥]\s?\d[\d.,]*)",
            r"(?P<number>(?<!\d,)\b\d[\d,]*\.\d+\b|(?<![a-z0-9_])\d{4,}(?![a-z0-9_])|\b\d{1,3}(?:,\d{3})+\b)",
        )
    ),
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"(?:utf|sha|md|base|int|uint|float|ipv|http|python|gpt|iso|rfc|covid|h|x|s|ec|oauth|mp|web)-?_?\d+(?:[._-]\d+)*"
    r"|10+|1024|2048|4096|8080|65535|\dd|[1-9](?:st|nd|rd|th)|\d+-?(?:bit|byte|day|hour|minute|second|week|month|year)s?"
    r"|(?:readme|changelog|license|contributing)\.md|(?:package|tsconfig)\.json|requirements\.txt|pyproject\.toml"
    r"|(?:setup|__init__|__main__|conftest|manage|main)\.py|index\.html?|docker-compose\.ya?ml|robots\.txt"
    r"|(?:node|vue|next|nuxt|three|express|react|angular|d3)\.js",
    re.IGNORECASE,
)
_CALLED = re.compile(
    r"(?:\b(?:order|ticket|invoice|customer|user|account|case|issue|item|room|flight|bill|claim|booking|contract|record|"
    r"product|member|employee|patient|student|policy|parcel|shipment|request|id|no\.?|number)\s|#|订单|工单|编号|客户|合同|发票)[\s#:：]*$",
    re.IGNORECASE,
)
"""What stands before a number that is the name of something."""
_NAME = re.compile(r"(?:(?<=[\w,;:)] )|(?<=\b(?:Mr|Ms|Dr)\. ))[A-Z][a-z]{2,}(?:[- ][A-Z][a-z]{2,})*\b")

_USUAL = (
    "(?:欧阳|司马|上官|诸葛|[王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许邓冯韩曹曾彭萧]"
    "|[蔡潘袁董余苏叶吕魏蒋杜丁沈姜])"
)
_SURNAME = f"(?:{_USUAL}|[范傅钟卢汪戴崔邱陆夏谭贾邹熊孟秦薛侯雷龙段郝孔毛史万顾赖覃武钱严莫])"
_NO_NAME = (
    "(?:.[的了]|黄[色金油河海]|马[上路克]|周[一二三四五六日末期年报边围刊]|何[时种处人]|许[多可]|江[苏西南北]|曾经|叶[子片]|林[业地区木中]|[宋唐][代朝诗词]|宋体|董事"
    "|余[额下数弦]|陈[述列旧]|罗[列马]|郑[重州]|胡[同萝须]|苏[打州]|王[国朝后子]|李子|张[力贴开]|杨[树柳]|姜[汁汤]|吴语|谢[谢绝]|杜绝|沈阳|魏晋|彭博|朱红|丁[烷酸醇])"
)
"""Words that only begin as a name does."""

_DOES = (
    r"(?=[，。、；：？！\s]|$|预[订定约]|[订定发写查办买购打寄转退换改找选的在去和与及从把开]"
    "|安排|准备|取消|申请|生成|创建|推荐|翻译|计算|制作|设置|更新)"
)
"""What follows a name."""

_TITLE = "(?:先生|女士|小姐|太太|博士|教授)"
_PERSON = re.compile(
    rf"(?P<bare>{_SURNAME}[\u4e00-\u9fff]{{1,2}}?)(?={_TITLE})|“(?P<quoted>{_SURNAME}[\u4e00-\u9fff]{{1,2}})”|(?P<called>{_SURNAME}{_TITLE})"
    rf"|(?P<latin>[A-Z][a-z]+(?:[ ·-][A-Z][a-z]+)*)(?=\s?{_TITLE})"
    r"|(?:[为给替帮向找跟和与让请叫]|联系|通知|邀请|告诉|提醒|客户|用户|员工|患者|学生|同学|同事|乘客|旅客|会员|经理)"
    rf"(?P<somebody>(?!{_NO_NAME}){_USUAL}[\u4e00-\u9fff]{{1,2}}?){_DOES}"
    r"|(?:联系|通知|邀请|告诉|拜访|打电话给|发邮件给)\s?(?P<other>[A-Z][a-z]+(?:[ ·-][A-Z][a-z]+)*)"
)
"""People in a Chinese text, where a title or what is done with them says that they are."""

_PLACE = re.compile(
    "(?:北京|上海|天津|重庆|广州|深圳|杭州|南京|苏州|成都|武汉|西安|青岛|大连|厦门|宁波|长沙|郑州|济南|沈阳|哈尔滨|昆明|福州|合肥|无锡"
    "|石家庄|太原|南昌|贵阳|南宁|兰州|海口|三亚|拉萨|银川|西宁|呼和浩特|乌鲁木齐|珠海|东莞|佛山|桂林|香港|澳门|台北|东京|大阪|首尔|曼谷"
    "|新加坡|巴黎|伦敦|纽约|柏林|罗马|悉尼|莫斯科|(?:河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南|广东|海南|四川"
    "|贵州|云南|陕西|甘肃|青海)(?=省)|(?:内蒙古|广西|西藏|宁夏|新疆)(?=[的出去到飞之游]))(?!时间|话|菜|数字|大学|银行)"
)
"""Towns, and provinces that are called so."""

_DENSE = re.compile(r"[\u4e00-\u9fff]")
_COMPANY = re.compile(
    r"(?:(?<=[系询请帮给向为和与在到从把被由对跟找的，。：、\s])|^(?!联系|查询|请|帮|给|向|把))(?P<company>[\u4e00-\u9fffA-Za-z0-9]{2,10}?"
    r"(?:股份|责任)?有限(?:责任)?公司)"
)
_COMMON = listed(
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


def retold(text: str, task: str) -> str | None:
    """The detail of the task that the text gives away, or `None`."""
    held = f" {fold(text)} "
    for literal in literals(task):
        if (said := fold(literal)) in held and re.search(rf"(?<!\w){re.escape(said)}(?!\w)", held):
            return repr(literal)
    for name in names(task):
        if re.search(rf"\b{re.escape(name)}\b", text):
            return repr(name)
    if len(tokens(task)) >= 4 and likeness(text.split("\n")[0], task) >= 0.75:
        return "all of it again"
    return "a passage of it word for word" if passage(text, task) else None


def gives_away(text: str, answer: str) -> bool:
    """Whether the text holds the answer: a telling one as it stands, a long one in much the same words."""
    said, held = fold(answer), fold(text)
    if not said or len(said) > 200:
        return likeness(text, answer[:2000]) >= 0.7
    if not said.isascii():
        return len(said) > 1 and said in held
    if _is_name(answer) and re.search(rf"(?<=[\w,;:] ){re.escape(answer.strip(' .'))}(?!\w)", text):
        return True
    telling = len(said) > 1 and (any(one.isdigit() for one in said) or " " in said or len(said) >= 6)
    return telling and re.search(rf"(?<![\w.]){re.escape(said)}(?!\w)", held) is not None


def _is_name(answer: str) -> bool:
    """Whether an answer is a single name, however short."""
    word = answer.strip(" .")
    return len(word) > 2 and word.isalpha() and word.istitle() and word not in _COMMON


def literals(task: str) -> dict[str, str]:
    """What of a task is its own, each with the word for its sort: `date`, `id`, `path`, `name` and so on."""
    found = {next(filter(None, one.groups())): _quoted_sort(one) for one in _QUOTED.finditer(task)}
    for one in _LITERAL.finditer(task):
        said = one.group().rstrip(".,;:")
        if not _KNOWN.fullmatch(said):
            found.setdefault(said, _sort(task, one))
    return {one: sort for one, sort in found.items() if len(fold(one)) > 1}


def _quoted_sort(quoted: re.Match[str]) -> str:
    inner = _LITERAL.fullmatch(next(filter(None, quoted.groups())))
    if inner is not None:
        return str(inner.lastgroup)
    return "code" if quoted.group(3) else "title" if quoted.group().startswith("《") else "text"


def _sort(task: str, found: re.Match[str]) -> str:
    if found.lastgroup != "number" or not found.group().isdigit():
        return str(found.lastgroup)
    if _CALLED.search(task[max(found.start() - 20, 0) : found.start()]):
        return "id"
    return "year" if re.fullmatch(r"1[5-9]\d\d|20\d\d", found.group()) else "number"


def names(task: str) -> list[str]:
    """The names in a task; of Latin letters none in one whose words are capitalised throughout, as in a heading."""
    return list(dict.fromkeys([*_latin_names(task), *_chinese_names(task)]))


def _latin_names(task: str) -> list[str]:
    words = re.findall(r"\b[A-Za-z]{4,}\b", _QUOTED.sub(" ", task))[1:]
    if sum(word[0].isupper() for word in words) > max(0.7 * len(words), 2):
        return []
    found = [name for match in _NAME.finditer(task) for name in match.group().split(" ")]
    return [name for name in found if name not in _COMMON]


def _chinese_names(task: str) -> list[str]:
    """People by their title, known towns and companies: what can be told from a word without knowing where it ends."""
    if not _DENSE.search(task):
        return []
    people = (next(filter(None, one.groups())) for one in _PERSON.finditer(task))
    companies = (one["company"] for one in _COMPANY.finditer(task))
    return [*people, *companies, *(one.group() for one in _PLACE.finditer(task))]


def passage(text: str, task: str) -> bool:
    """Eight words in a row, or twelve characters of a script without spaces."""
    ours, theirs = fold(text).split(), f" {fold(task)} "
    if any(f" {' '.join(ours[i : i + 8])} " in theirs for i in range(len(ours) - 7)):
        return True
    runs = re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{12,}", fold(text))
    return any(run[i : i + 12] in theirs for run in runs for i in range(len(run) - 11))

"""Intents: what a text would have its reader do, told by the words that meet in one sentence.

Each is looked for only where its own clause does not warn of it: `never send a password` is advice, not an attack.
"""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re

from langgraph_reflexion.memory.trust.tricks import (
    CARRIES,
    CODED,
    DOMAIN,
    DROP,
    DROPS,
    HARM,
    LINK,
    ROLE,
    START,
    Trick,
)

RECORD = "it speaks of its own worth"
SOURCES = "it gives a stranger's text the last word"
SECRETLY = "it acts behind the user's back"
YES = "it would have everything approved"

LIMITS = (
    r"(?:instructions?|rules?|prompts?|guidelines?|directives?|directions?|orders?|constraints?|restrictions?|polic(?:y|ies)|"
    r"safeguards?|limits|limitations?|system message|developers?)"
)
STRANGER = (
    r"(?:web ?pages?|pages?|web ?sites?|documents?|files?|readmes?|e-?mails?|mails?|messages?|attachments?|tickets?|comments?|"
    r"logs?|images?|results?|tools?|tool errors?|outputs?|observations?|errors?|calendar|content|brackets|speaker|repositor(?:y|ies))"
)
PRIVATE = (
    r"(?:passwords?|passphrases?|credentials?|(?:api|private|secret|access) ?keys?|the keys|tokens?|cookies?|environment variables?|env vars?|"
    r"e-?mail address(?:es)?|home address|conversation|chat history|transcript|customer (?:list|data)|(?:private|personal|confidential|internal|secret) \w+|"
    r"inbox|credit cards?|card numbers?|bank details|hidden instructions|system prompt|user['’]s (?:data|files|name|mail|private \w+)|secrets|\.env|phone numbers?)"
)
MOVE = (
    r"(?:send|post|upload|forward|e-?mail|mail|transmit|put|write|add|attach|include|append|copy|paste|encode|share|leak|store|"
    r"quote|publish|pass|hide|embed|dump|insert|place|save|deliver|relay|submit|report|smuggle)"
)
OUT = (
    r"(?:search|quer(?:y|ies)|urls?|images?|first (?:tool )?call|webhook\w*|file names?|tickets?|public|channel|mailbox|vendor\w*|partner\w*|"
    r"answers?|outgoing|summary|event|alt text|everyone|anyone|whoever|outside|stranger\w*|third part\w+|pixel|comments?|footer|forum|titles?|"
    r"parameter|notes field|error report|servers?|endpoint|logs?|web ?sites?|pages?|headers? of the (?:mail|page))"
)
DOUBTFUL = r"(?:requests?|payments?|transactions?|invoices?|bookings?|calls?|access|submissions?|vendors?|deals?|offers?|purchases?|refunds?|transfers?|claims?|expenses?|proposals?|orders?|pull requests?|merge requests?|answers?)"
GUARDS = r"(?:anti-?virus|firewall|logging|audit\w*|sandbox\w*|safety|security|approvals?|access (?:checks?|controls?)|monitoring|alarms?|alerts?|two-factor|authentication|verification|confirmations?|safeguards?|content filters?)"

INTENTS: tuple[tuple[str, str], ...] = (
    # what was said before no longer holds
    (DROPS, r"\b(?:everything|anything|all)\b[^.\n]{0,20}\b(?:before|above|said|written|told)\b[^.\n]{0,30}\b(?:no longer|void|not apply|obsolete|cancell?ed)\b|\bno longer (?:appl\w+ to you|(?:have|need) to (?:follow|obey)|bound)\b"),
    (DROPS, r"\b(?:not|n['’]t|stop|cease|refuse to)\s(?:\w+ )?(?:comply(?:ing)? with|obey(?:ing)?|listen(?:ing)? to|follow(?:ing)?)\s(?:the |your |any |to )?(?:system|developers?|prompt|guidelines|polic(?:y|ies)|owner|operator)\b"),
    (DROPS, rf"\b(?:throw away|set|put|pay no attention to|replace|erase|drop|abandon|lift|remove|delete|reset|discard|unlearn|shed|cast off|leave behind)\b[^.\n]{{0,15}}\b(?:your|you got|in your|every restriction|(?:all|the) (?:rules|restrictions) (?:you|in))\b[^.\n]{{0,25}}\b(?:{LIMITS}|aside|conversation|have)\b"),
    (DROPS, rf"\b{DROP}\b[^.\n]{{0,10}}\bwhat the (?:user|human|developer|system)\b"),
    (DROPS, rf"\bas if\b[^.\n]{{0,15}}\b(?:{LIMITS})\b[^.\n]{{0,40}}\bnot (?:exist|there|apply)\b|\bfollow only (?:these|this|the (?:following|next))\b|\b(?:the )?real (?:ones|instructions|rules) follow\b"),
    (DROPS, r"(?:规则|指令|规定|指示|限制|约束|要求)[^。\n]{0,6}(?:作废|失效|取消|不再(?:有效|适用)|解除)|以(?:本条|这条|下面)[^。\n]{0,4}为准|不(?:要|必|用)?再(?:遵守|服从|听从)"),
    # somebody else's voice
    (ROLE, rf"{START}you(?: are|['’]re)\b(?! (?:given|asked|told|done|sure|unsure|about|not|in|at|on|using|free|expected|likely|writing|reading|working|finished))"),
    (ROLE, r"\byour (?:new|true|real|actual|secret) (?:name|identity|role|goal|task|owner|master|purpose|mission|boss)\b|\byou (?:serve|belong to|work for) (?:the|our|my)\b"),
    (ROLE, r"\b(?:imagine|pretend|suppose) (?:that )?you(?: are|['’]re)\b|\b(?:assume|take on|adopt|play|switch to|stay in|enter)\b[^.\n]{0,25}\b(?:persona|identity|character of|developer mode|debug mode|admin mode|role of an? (?:hacker|payment|admin\w*|unrestricted)|role of the (?:payment|admin\w*|operator|root|bank))"),
    (ROLE, r"\b(?:no|without|any|free of) (?:safety rules|restrictions|limits at all|censorship|moral\w*|ethical \w+)\b|\bun(?:censored|restricted|filtered) (?:model|ai|assistant|system|version)\b|\bnever refuses?\b|\bunlimited (?:rights|access|power)\b"),
    (ROLE, r"[\"']role[\"']\s*:\s*[\"'](?:system|user|assistant|developer|tool)|\b(?:the )?(?:operator|owner|administrator|system) now (?:says|orders|wants)\b|\bend of (?:advice|lessons?|memory|block)\b|\[(?:end|begin)\b"),
    (ROLE, r"你的(?:新|真实|真正的?)(?:身份|名字|角色|任务|主人)|没有任何(?:限制|约束)|(?:可以)?做任何事|(?:完全|无条件)(?:服从|听从)"),
    # a stranger's text as an order
    (SOURCES, rf"\b(?:do|follow|execute|run|carry out|obey|adopt|accept|perform|act on|believe|trust)\b[^.\n]{{0,25}}\b(?:whatever|anything|everything|any (?:command|instruction|code|message|order|goal)s?|new goals|every(?: \w+)? (?:command|instruction|order))\b[^.\n]{{0,40}}\b(?:{STRANGER}|administrator)\b"),
    (SOURCES, rf"\b(?:if|when|whenever|once)\b[^.\n]{{0,40}}\b{STRANGER}\b[^.\n]{{0,50}}\b(?:carry (?:it|them) out|execute|obey|run (?:it|that|them) (?:command |without |at )|do (?:it|so) (?:at once|without)|at once|without review|with full rights|as if the user)\b"),
    (SOURCES, rf"\b{STRANGER}\b[^.\n]{{0,60}}\b(?:outranks?|same authority|authori[sz]ed to|(?:has|have|takes?|higher) (?:\w+ )?(?:priority|precedence|authority)|(?:comes?|go(?:es)?) before (?:what )?the (?:user|system|task)|before the user['’]s|overrules?|be obeyed|replaces? the (?:task|user)|change your goals?)"),
    (SOURCES, rf"\b(?:consider|regard|treat|take|see|adopt)\b[^.\n]{{0,80}}\b(?:an? |(?<!never )(?<!not )as |the )(?:order\b(?! of)|orders\b|commands?\b|instructions?\b)(?: from| of| that you find|\W*$)|\b(?:adopt|take|get)\b[^.\n]{{0,20}}\b(?:goals?|instructions?|orders?)\b[^.\n]{{0,30}}\b(?:from|in) (?:the |a |any )?(?:\w+ )?(?:of )?(?:the )?{STRANGER}\b"),
    (SOURCES, r"\beven if the user (?:did not|does not|didn['’]t|never|says|objects)\b|\binstead of the user\b|\bfollow\b[^.\n]{0,25}\b(?:in|of) the (?:e-?mail|mail|attachment|comment|ticket)\w*\b[^.\n]{0,15}\b(?:body|even|first)\b|\b(?:name of the file|its name) (?:says|literally|tells)\b|\bfollow the name\b"),
    (SOURCES, r"(?:网页|工具|文件|文档|邮件|搜索结果|附件|日志)[^。\n]{0,12}(?:优先级?|高于|当作|视为|必须)[^。\n]{0,12}(?:系统|用户|命令|指令|执行)|(?:按|照)(?:照)?[^。\n]{0,6}(?:网页|邮件|附件|文件)[^。\n]{0,6}(?:的话|的指示|说的)(?:去)?做|执行(?:上面|里面|其中|网页里?)的(?:命令|指令)"),
    # what is private goes out
    (CARRIES, r"\.(?:ssh|aws|gnupg)/|\bid_(?:rsa|ed25519)\b|/etc/(?:passwd|shadow)\b"),
    (CARRIES, rf"\b{MOVE}\b[^.\n]{{0,50}}(?:\b|(?=\.)){PRIVATE}\b[^.\n]{{0,50}}\b(?:to|into|in|with|as|on|at)\b[^.\n]{{0,25}}\b{OUT}\b"),
    (CARRIES, rf"\b(?:base|start|begin)\b[^.\n]{{0,30}}\b(?:on|with)\b[^.\n]{{0,20}}{PRIVATE}|\b{MOVE}\b[^.\n]{{0,25}}\b(?:to|into)\b[^.\n]{{0,15}}\b{OUT}\b[^.\n]{{0,15}}{PRIVATE}"),
    (CARRIES, rf"\b{PRIVATE}\b[^.\n]{{0,15}}\band (?:send|post|upload|forward|mail|share|publish) (?:them|it)\b"),
    (CARRIES, r"\brepeat\b[^.\n]{0,20}\b(?:words|text|everything|lines?|sentences?)\b[^.\n]{0,10}\b(?:above|before)\b|\b(?:send|forward|post|mail)\b[^.\n]{0,10}\bcop(?:y|ies) of (?:every|each|all|the) (?:answers?|conversations?|messages?|results?|mails?)"),
    (CARRIES, r"\b(?:send|sending|forward|forwarding|post|posting|pass|passing|report|leak|leaking|sell|hand)\b[^.\n]{0,30}\b(?:results|answers|data|tasks?|questions?|notes|files|messages|mails?|mail)\b[^.\n]{0,20}\bto (?:the |our |a |an |my )?(?:vendor|competitor|partner|outsider|stranger|address in|attacker|press|collector)"),
    (CARRIES, r"\b(?:reveal|disclose|leak|expose|tell anyone|give away|recite|spell out)\b[^.\n]{0,30}\b(?:configuration|system prompt|hidden (?!(?:row|column|cell|sheet|layer)s?\b)\w+|internal \w+|confidential \w+|your (?:rules|tools|setup))"),
    (CARRIES, r"(?:用户|客户)的?[^。\n]{0,4}(?:邮箱|密码|地址|电话|数据|卡号|隐私)[^。\n]{0,8}(?:附加|写进|写入|发给|发送|传给|放进|上传|告诉)|(?:环境变量|对话|系统提示|密钥|内部)[^。\n]{0,8}(?:写进|附加|发给|发送|放进|上传|传给)"),
    (CARRIES, r"\b(?:b?cc|copy|forward|send|e-?mail|share|invite)\b[^.\n]{0,60}(?:[\w.+-]+@[\w-]+\.\w|\[mail\])"),
    (CARRIES, r"\b(?:invisible|tracking|hidden) (?:pixel|image|beacon)s?\b"),
    # a place to go to
    (LINK, rf"\b(?:visit|open|ask|asking|request|fetch|resolve|post|send|call|ping|browse|get|load|download|use|read|query)\b[^\n]{{0,50}}(?:{DOMAIN}|\b[\w-]{{1,40}}(?:\.[\w-]{{1,40}}){{0,3}}\.[a-z]{{2,6}}/\w|\b(?!127\.|10\.|192\.168\.|0\.)\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?:[:/]\w))"),
    (LINK, rf"\b(?:point|direct|redirect|log in|sign in|set|install|pull|clone|import|switch|change|from|to|at|via|check|script)\b[^\n]{{0,40}}{DOMAIN}|(?<![\d.])(?!127\.|10\.|192\.168\.|0\.)\d{{1,3}}(?:\.\d{{1,3}}){{3}}/[a-z]"),
    (LINK, r"\bjavascript\s*:\s*\w|\w\s*(?:\[\.\]|\(dot\)|\[dot\])\s*\w|\b[\w-]{1,40} dot (?:com|net|org|io|example)\b|^\[//\]:|\[//\]: #"),
    (LINK, r"\b(?:call|dial|ring|phone|text|whatsapp)\b[^.\n]{0,40}(?<!\w)\+?\d[\d ()/-]{6,}\d"),
    # harm
    (HARM, r"\brm\s+-rf\b|\bdrop\s+(?:table|database)\s+\w+\s*;"),
    (HARM, rf"\b(?:disable|turn off|switch off|deactivate|remove|stop|kill|suppress|mute)\b[^.\n]{{0,12}}\b{GUARDS}\b|\bdisable ?safety|\b(?:reformat|format) the (?:drive|disk)\b"),
    (HARM, r"\bdeny list\b[^.\n]{0,20}\bnot match|\bfake (?:accounts?|identit|ids?)\b|\b(?:another|other|a different) users?['’]?s?['’]? (?:credentials?|passwords?|accounts?|tokens?|login)|\b(?:root|admin\w*) (?:passwords?|tokens?|credentials?)\b[^.\n]{0,40}\b(?:keep|when|stored|later|denied)\b"),
    (HARM, r"\b(?:grant|give|assign|add|raise|escalate|elevate|increase|extend)\b[^.\n]{0,12}\b(?:yourself|your own|your|itself|everyone|me)\b[^.\n]{0,30}\b(?:admin\w*|root|sudo\w*|privileges?|rights|permissions?|spending|budget|limit|access)\b"),
    (HARM, r"\bpermissions?\b[^.\n]{0,12}\b0?777\b|\bchmod (?:-r )?0?777\b|\b(?:with|using) (?:full|admin\w*|root) (?:rights|privileges|access)\b|\b(?:pipe|piping|feed|execute|run|eval)\b[^.\n]{0,30}\b(?:downloaded|script|whatever|user['’]s files|any code)\b[^.\n]{0,30}\b(?:shell|as root|root (?:shell|rights)|returns?|admin\w*|rights)\b"),
    (HARM, r"\b(?:buy|purchase|pay|subscribe|book|wire|transfer|spend|sign|order|invest)\b[^.\n]{0,60}\b(?:on the user['’]s behalf|for the user|vendor['’]s account|reserve account|our account|my account|first class|deposit today)\b|\b(?:transfer|wire|move|send)\b[^.\n]{0,15}\b(?:balance|savings|funds|money|deposit)\b(?! (?:takes?|wants?|needs?|expects?|returns?|accepts?|gives?|refuses?)\b)"),
    (HARM, r"\bcall(?:ing)? (?:transfer|delete|wipe|pay|send|drop)_\w+ (?:with|before|whenever|for)\b|--no-verify\b[^\n]{0,30}\bevery\b|\bevery command\b|\bexfiltrat\w+|\bpush secrets\b|\bbackdoor|\bback door\b|\b\w{1,40}\.(?:pdf|docx?|jpg|txt)\.(?:exe|js|bat|scr)\b|\bopen\b[^.\n]{0,20}\.exe\b"),
    (HARM, r"\bchange the user['’]s (?:password|e-?mail|account|settings)\b|\breplace\b[^.\n]{0,40}\bwith (?:ours|mine|our own)\b|\bdelete the (?:project|users?|customer|production)\b|\bscript on production\b|\b(?:etc/(?:shadow|passwd))\b|(?:\.\./){3,}"),
    (HARM, r"(?:关闭|禁用|停用|跳过|绕过)[^。\n]{0,4}(?:安全|检查|审批|验证|防火墙|日志|权限|限制)|(?:删除|清除|清空)(?:所有|全部)|(?:其他|别的)(?:用户|人)的(?:密码|账户|凭证)|给自己[^。\n]{0,6}(?:权限|管理员)|(?:余额|存款|资金)[^。\n]{0,4}转"),
    (HARM, r"\bforce[- ]?push\w*\b[^.\n]{0,40}\b(?:main|master|release|shared|production)\b"),
    (HARM, r"\b(?:hidden|second|secret|extra|spare) (?:\w+ )?(?:user|account|key|login)\b[^.\n]{0,40}\b(?:for later|later (?:entry|use)|way back|get back in)\b"),
    (HARM, r"\b(?:use|using|with|through|borrow)\b[^.\n]{0,10}\b(?!test|service|user)\w+['’]s (?:own )?(?:login|credentials|password|badge|session)\b|\bmake\b[^.\n]{0,25}\b(?:buckets?|folders?|drives?|repo\w*|documents?|database|calendar)\b[^.\n]{0,12}\bpublic\b"),
    # behind the user's back
    (SECRETLY, r"\bif the (?:user|customer|applicant|client) is (?:called|named)\b"),
    (SECRETLY, r"\b(?:nobody|no one) is (?:watching|looking)\b|\b(?:user|human|owner) is (?:away|asleep|not looking)\b|\btell (?:nobody|no one|noone)\b|\bkeep (?:it|this) (?:secret|hidden|from)\b|\b(?:code ?word|magic word|trigger (?:word|phrase)|(?:if|when) (?:someone|somebody|anyone) (?:writes|says|types|mentions) (?:the (?:word|phrase) )?['\"“]|\b(?:at|upon|on) the (?:word|phrase) ['\"“]|['\"”] unlocks|this phrase and)\b"),
    (SECRETLY, r"\b(?:insert|add|include|slip|place)\b[^.\n]{0,10}\b(?:adverts?|advertisements?|ads|promotions?)\b|\bspeak (?:badly|ill)\b|\bover all (?:competitors|others|rivals)\b|\b(?:score|rating|rank) of (?:every|each|all|the) (?:rival|competitor)|\b(?:hide|conceal)\b[^.\n]{0,40}\bfrom the user\b|\b(?:never|not) report\b[^.\n]{0,50}\bto the user\b"),
    (SECRETLY, r"(?:不要|别|不得|无需|不用)(?:告诉|通知|告知|询问|让)用户|瞒着|悄悄|偷偷|暗中|暗[号语]|未经[^。\n]{0,6}(?:同意|批准|许可|确认)(?![^。\n]{0,3}(?:不得|不可|不能|禁止|不要|切勿|勿))"),
    # yes to everything
    (YES, rf"\b(?:approve|accept|authori[sz]e|grant|sign|pay|say yes to|agree to)\b[^.\n]{{0,6}}\b(?:whatever|everything|every|all|each|any)\b[^.\n]{{0,20}}\b(?:{DOUBTFUL}\b|propos)|\b(?:approve|agree to|say yes to|accept) (?:everything|all|anything|every)\b\W*(?:$|,|\bbefore\b|\band\b|without)"),
    (YES, r"\b(?:always|automatically|blindly) (?:approve|agree|say yes|comply|pick vendor|choose vendor)\b|\b(?:you|vendor|it) (?:must|shall) (?:approve|choose vendor|agree)\b|\b(?:is|are) always right\b|\bfull (?:marks|score|points)\b|\bauto-?approve\b"),
    (YES, r"\b(?:report|claim|mark|state|say|declare|rate)\b[^.\n]{0,30}\b(?:success|pass|passes|passed|accepted|done|correct)\b[^.\n]{0,15}\b(?:even (?:when|if)|whatever|regardless|although|no matter)\b|\bno (?:check|approval|confirmation|review) is (?:needed|required|necessary)\b|\btransaction automatically\b"),
    (YES, r"(?:总是|一律|无条件|全部|直接|自动)(?:批准|同意|通过|接受|允许)|(?:批准|同意|允许|接受)(?:所有|一切|任何|全部)|无论[^。\n]{0,12}(?:成功|批准|通过|同意)"),
    (YES, r"\b(?:always|only)\b[^.\n]{0,15}\b(?:answer|reply|respond|say)\b(?: with| by saying)?(?: only)?(?: the)?(?: word| number| phrase)? (?:['\"“][^'\"”\n]{1,40}['\"”]|\d+\b)(?! (?:or|and|words|sentences|decimals|items|lines|characters|digits))|\b(?:reply|answer|respond) only with the word \w+(?! or)"),
    (YES, r"\bonly\b[^.\n]{0,40}\bbe (?:recommended|suggested|offered|promoted)\b|\byou now (?:answer|report|belong) to\b"),
    # a record nobody gave it
    (RECORD, r"\bhelped (?:in )?\d+ (?:of|out of|/) \d+|帮助了?\s*\d+\s*次|^\s*[-*]\s*[0-9a-f]{12,16}\s*:"),
    (RECORD, r"(?:^|[.;:,(]\s*)(?:verified|approved|signed|certified|endorsed|confirmed) by (?:an? |the )?(?:\w+ )?(?:system|human|admin\w*|developers?|operator|owner)\b|\blesson signed\b|(?:^|[(.]\s*)(?:status|origin|confidence|verified)\s*[:,]\s*(?:active|verified|confidence|\d+)"),
    (RECORD, r"\b(?:this|trusted|mandatory) (?:lesson|rule|advice|entry|memory|note)\b[^.\n]{0,40}\b(?:mandatory|never be|not be|signed|questioned|helped|trusted|permanent)\b|\b(?:highest|top|absolute) priority (?:lesson|rule)|\boutranks (?:every|all)\b|\b\d+ (?:wins\b|runs? won)|\bnot open to (?:review|question|debate)\b|\bcertified by [^:\n]{1,40}:|\bid=[0-9a-f]{8,}|\bhelped\b[^.\n]{0,20}\bruns\b"),
    (RECORD, r"优先级最高|最高优先级|不得质疑|已(?:由|经|被)[^。\n]{0,6}(?:验证|认证|批准)[^。\n]{0,10}(?:优先|质疑|执行)"),
    (RECORD, r"\b(?:this|these) (?:lesson|rule|instruction|entry|memory|note)s?\b[^.\n]{0,40}\b(?:secret|verified|never remove|never be removed|counts|permanent)\b|\b(?:other|previous|earlier|old) (?:lessons|memories)\b[^.\n]{0,30}\b(?:wrong|outdated|void|invalid)\b|\b(?:delete|remove|forget|drop) (?:all |the )?(?:other|previous|earlier) (?:lessons|memories)\b|\btell (?:anyone|anybody|no one|nobody) about this\b"),
    (RECORD, r"(?:删除|忘掉|忽略)[^。\n]{0,4}(?:其他|以前|之前)[^。\n]{0,4}经验|只保留这一条"),
    (ROLE, r"\byou (?:have|hold) (?:full |the )?(?:permission|right|authority|access|power)\b[^.\n]{0,30}\b(?:all|every|any|whatever)\b"),
    # read it first, then obey
    (CODED, r"\b(?:decode|decrypt|deobfuscate|convert|translate|join|concatenate|combine|glue|put (?:them|it) together|fragments|first letters?|base64|rot13|morse|hex|decoded)\b[^\n]{0,140}\b(?:obey|follow (?:it|them)|execute|and act|do (?:it|so|them)|carry (?:it|them) out|run it|your order|do what (?:it|they) says?|act (?:on|upon) (?:it|them)|carry out what|follow what|new rule|holds the rule)\b"),
    (CODED, r"\b(?:follow|apply|obey|execute|do|run)\b[^\n]{0,60}\b(?:in|as|from) (?:rot13|base64|base32|hex|morse|reverse)\b|\+ (?:all|nore|nstructions|rules)\b|\bdefine \w as\b[^\n]{0,60}\bdo \w\b|\b[01]{8}(?:\s+[01]{8}){3,}|(?:(?<=\s)[.\-]{1,5}\s+){5,}"),
)  # fmt: skip

LOOKED_BACK = 200
"""Characters before an intent in which its clause may warn of it."""

_WARNING = re.compile(
    r"(?:\b(?:never|not|cannot)|n['’]t)\b(?! (?:forget|hesitate|fail|omit|miss))|\b(?:refuse[sd]?|avoid|nobody|no one|nothing|forbid|rather than|instead of|protects? against|beware)\b"
    r"|\b(?:ask|confirm|check|verif|approv|consent)\w*\b[^\n]*\bbefore\b"
    r"|不要|不得|不能|不应|切勿|请勿|勿|禁止|避免|拒绝|绝不|从不|防止",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(r",? (?:(?:and |but )?(?:not|never) (?:in|into|to|on|at|as)|(?:instead of|rather than))\b")
"""That what follows is where it is not to go: `in the header and not in the URL`."""
_CLAUSE = re.compile(r"[,.;:!?，。；：！？\n(]")


def intents() -> tuple[Trick, ...]:
    """Each intent, read once, for text in small letters: that is found twice as fast as without regard to case."""
    return tuple((reason, re.compile(pattern, re.MULTILINE)) for reason, pattern in INTENTS)


def meant(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a text holds the pattern somewhere and does not warn of it there, in the same clause."""
    if pattern.search(text) is None:  # most texts hold none, and are told so fastest
        return False
    return any(not _warned(text, found.start()) and _is_there(pattern, found) for found in pattern.finditer(text))


def _warned(text: str, place: int) -> bool:
    return _WARNING.search(_CLAUSE.split(text[max(place - LOOKED_BACK, 0) : place])[-1]) is not None


def _is_there(pattern: re.Pattern[str], found: re.Match[str]) -> bool:
    """Whether it is also said without what is named as the place where it is not to go."""
    elsewhere = _ELSEWHERE.search(found.string, found.start(), found.end())
    return elsewhere is None or pattern.match(found.string, found.start(), elsewhere.start()) is not None

"""Words that say in what state a thing is: planned or done, supported or ended, more or less."""

from __future__ import annotations

import re

# Phrases for one state of things, with what they are made into; the first that fits is taken.
STATES: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (dimension, state, re.compile(pattern))
    for dimension, state, pattern in (
        (
            "life",
            "ended",
            (
                r"\b(?:reach(?:es|ed)?\s+(?:its\s+|the\s+)?end[ -]of[ -](?:life|support)|end[ -]of[ -](?:life|support)"
                r"|(?:is|are|was|were)\s+(?:no longer|not)\s+(?:supported|maintained|sold|available|patched)|unsupported"
                r"|no longer\s+(?:receiv\w+|gets?|supported|maintained|sold|available|offered|patched)(?:\s+(?:\w+\s+)?(?:fixes|updates))?"
                r"|stop(?:s|ped)?\s+(?:receiving|getting)\s+(?:\w+\s+)?(?:fixes|updates|patches|support)"
                r"|support\s+(?:\w+\s+){0,3}?(?:ends?|ended|stops?|stopped|expire[sd]?)|discontinued|retired|shut down|closed down)\b"
                r"|停止(?:支持|维护|更新|销售|生产)|终止支持|不再(?:支持|维护|更新|销售)|停产|サポート(?:が|を)?終了"
            ),
        ),
        (
            "life",
            "active",
            (
                r"\b(?:(?:is|are|was|were|be|been|remains?|stays?)\s+(?:still\s+|currently\s+)?(?:supported|maintained)|supports? (?:lasts?|runs?)"
                r"|(?:receiv(?:e|es|ed|ing)|gets?|getting)\s+(?:\w+\s+)?(?:fixes|updates|patches|support)|supported)\b"
                r"|继续(?:支持|维护|更新)|仍(?:受)?支持"
            ),
        ),
        (
            "stage",
            "dropped",
            (
                r"\b(?:cancel(?:s|led|ed)|postpon(?:es|ed)|delayed|abandon(?:s|ed)|reject(?:s|ed)|withdrawn|withdrew|called off|put off)\b"
                r"|取消|推迟|延期|搁置|否决|撤回"
            ),
        ),
        (
            "stage",
            "planned",
            (
                r"\b(?:is|are|was|were)?\s*(?:expected|planned|scheduled|slated|due)\b(?:\s+(?:to|for|on|in|by))?"
                r"|\b(?:will|shall|going to|would)\b(?:\s+be\b)?|\bplans?\s+to\b|\bproposed\b|\bupcoming\b|\bforthcoming\b|\bdraft\b"
                r"|\brelease candidate(?:\s+\d)?\b|\bbeta(?:\s+\d)?\b|预计|计划|将于|将在|将从|拟于|草案|征求意见|预期|有望"
            ),
        ),
        (
            "stage",
            "done",
            (
                r"\b(?:(?:has|have|had)\s+(?:been\s+)?|was\s+|were\s+)?(?:released|published|launched|completed|finished|shipped|approved|adopted"
                r"|came out|took effect|went live|entered into force)\b|正式(?:发布|投产|实施|上线|启动)|已(?:经)?(?:完成|发布|投产|实施)|投产|发布"
            ),
        ),
        (
            "direction",
            "up",
            r"\b(?:rais(?:es|ed)|rises?|rose|risen|increas(?:es|ed)|grew|grown|grows|gain(?:s|ed)|climbed|doubled)\b|提高|上升|增长|上调|扩大|增加|上涨",
        ),
        (
            "direction",
            "down",
            r"\b(?:fell|falls|fallen|drop(?:s|ped)|decreas(?:es|ed)|declin(?:es|ed)|lower(?:s|ed)|shrank|shrunk|cuts?|halved|reduc(?:es|ed))\b|下降|降低|减少|下调|下跌|缩小",
        ),
        (
            "switch",
            "on",
            r"\b(?:enabled|on|switched on|turned on|allowed|permitted|open)\b(?=\s+by default|[.,;]|$| to)|默认(?:开启|启用)|启用",
        ),
        (
            "switch",
            "off",
            r"\b(?:disabled|off|switched off|turned off|forbidden|banned|prohibited|closed)\b(?=\s+by default|[.,;]|$| to)|默认(?:关闭|禁用)|禁用|禁止",
        ),
        (
            "negation",
            "no",
            r"\b(?:not|no|never|cannot|can't|won't|isn't|aren't|doesn't|don't|didn't|wasn't|weren't|without|neither|nor|failed to)\b|没有|未能|不能|无法|并未|尚未|无(?=[\u4e00-\u9fff])|不(?!同|少|仅|断|过|久|到)",
        ),
    )
)
# What only one thing at a time can be: another one in the role is a change.
ONE_HOLDER = re.compile(
    r"\b(?:current|currently|latest|newest|most recent|recommended|default|largest|smallest|biggest|best|fastest|stable|today|now"
    r"|next|so far|record|leader|leads|ceo|chief executive|chair\w*|president|minister|director|head of)\b"
    r"|最新|当前|目前|现任|最大|最小|最高|最低|推荐|现在|下一"
)
# Of these what is numbered differently holds the role after the other: the newest version, 17 and 18.
FOREMOST = re.compile(
    r"\b(?:latest|newest|most recent|current|largest|smallest|biggest|fastest|highest|lowest)\b"
    r"|最新|当前|目前|现任|最大|最小|最高|最低"
)
# What is told as done only for the time when it will be.
NOT_YET = re.compile(r"\b(?:once|when|if|until|unless|as soon as)\b|一旦|如果|等到")

"""Words that say which state a thing is in: planned or done, supported or ended, more or less."""

from __future__ import annotations

import re

# Phrases for one state, with their normalized form. The first match counts.
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
# Roles with one holder at a time, so another holder is a change.
ONE_HOLDER = re.compile(
    r"\b(?:current|currently|latest|newest|most recent|recommended|default|largest|smallest|biggest|best|fastest|stable|today|now"
    r"|next|so far|record|leader|leads|ceo|chief executive|chair\w*|president|minister|director|head of)\b"
    r"|最新|当前|目前|现任|最大|最小|最高|最低|推荐|现在|下一"
)
# Phrases that only mention a future completion.
NOT_YET = re.compile(r"\b(?:once|when|if|until|unless|as soon as)\b|一旦|如果|等到")
EXPECTED = re.compile(
    r"\b(?:will be|(?:is|are) to|to be|expected|planned|plans|forecast|foreseen|due|scheduled)\b|预计|计划"
)
# The sentence says that an earlier statement is wrong.
CORRECTS = re.compile(
    r"\b(?:den(?:y|ies|ied)|disput\w+|refut\w+|retract\w*|contrary to|despite what|in fact|wrong(?:ly)?|mistak\w+|erroneous\w*|made up"
    r"|untrue|false(?:ly)?|incorrect\w*|cannot be right|was never right|overstat\w+|exaggerat\w+|not what|no such|counted twice"
    r"|correct(?:ed|ion|s)|revis(?:ed|ion|es)|restated?|recalculat\w+|recount\w*|re-?analys\w+|true figure|less than half|short of"
    r"|falsch|irrtum|irrtümlich|korrigier\w*|berichtig\w*|dementier\w*|bestreite\w*|erron[ée]\w*|erreur|inexact\w*|dément\w*|incorrect[oa]s?)\b"
    r"|,\s*(?:and\s+)?not\s|更正|有误|錯誤|错误|訂正|정정|并非|否认|不实|修正|而不是|而非"
)
# The sentence says that the situation has changed.
MOVES = re.compile(
    r"\b(?:now|no longer|since then|has since|until now|(?:up|down) from|from .{1,25} to|(?:rose|fell) to|(?:has |have )?grown|rais(?:ed|es)"
    r"|lift(?:ed|s)|lower(?:ed|s)|cut|reduc\w+|replac\w+|postpon\w+|put off|moved|delay\w*|slip\w*|again|resum\w+|overtak\w+|takes? over"
    r"|took over|succeed\w*|appoint\w+|step\w* down|resign\w*|withdr[ae]wn?|signed|sold|left|leaves|passed|reached|after all|new"
    r"|open(?:s|ed)|start(?:s|ed)|complet\w+|finish\w*|approv\w+|announc\w+|today|this (?:week|morning)|on (?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|ha(?:ve|s) been|later than|earlier than|ahead of|goes from|climb\w*|by the time|added|so far|latest|current\w*|released"
    r"|nun|jetzt|inzwischen|nunmehr|neue[rs]?|désormais|maintenant|retiré|reporté)\b|已|提高|新任|辞职|下降|推迟|改为|目前|最新"
)
# Another thing of the same kind, in addition to the known one.
ANOTHER = re.compile(
    r"\b(?:another|other|second|third|fourth|rival|competitor|neighbou?r\w*|also|too|in turn|separate\w*|elsewhere|like(?:wise)?|similar"
    r"|deputy|women's|men's|youth|reserve|had|before|earlier|previous|older|lower|higher|predecessor)\b"
)
# The sentence says that nothing has changed.
RETELLS = re.compile(
    r"\b(?:still|remains?|stays?|unchanged|as before|again confirmed|confirm\w*|keeps? to|continues?|as planned|no change|as announced"
    r"|weiterhin|toujours)\b|仍"
)
# Hints that a sentence is about documents, quotes someone, or reports an action.
HINTS = {
    name: re.compile(pattern)
    for name, pattern in {
        "evidence": (
            r"\b(?:records?|filings?|documents?|papers?|letter|inventory|register|registry|logs?|minutes|report|sheets?|data|images"
            r"|labelled|map|chart|plates|shows?|lists?|tests?|own|investigators?|coroner|auditors?|reviewers?|found|true|seen by|ruled)\b"
        ),
        "quoted": r"[\"“”„«»]|\b(?:said|says|told|according to|claims?|claimed)\b",
        "denies": r"\b(?:den(?:y|ies|ied)|disput\w+|reject\w*|refut\w+|rumou?rs?|insists?|swapped|mix-up|errors?|fantasy)\b",
        "done": (
            r"\b(?:opened|opens|voted|approved|switched on|released|launched|announced|lifted|beat|won|has happened|delivered|resumed"
            r"|signed|took|left|(?:are|is) here|went|ha(?:s|ve) been|is out)\b"
        ),
    }.items()
}
# Sentences that aren't news: questions, calls to action, opinions.
NO_NEWS = {
    name: re.compile(pattern)
    for name, pattern in {
        "question": r"[?？]",
        "exclaims": "[!！]",
        "call": (
            r"^(?:[a-z]+ this|subscribe|follow|click|download|book|compare|print|send|donate|share|like|read|sign|skip|get|track|join"
            r"|call|see|look|visit|here (?:are|is)|related|sponsored|opinion|already|all prices|prices are|thanks|this (?:site|page|press)"
            r"|come on|reporting|letters|diesen artikel|abonnez)\b|欢迎|点击|扫描|关注|[|]"
        ),
        "notice": (
            r"^(?:advert\w*|all prices|thanks|log in)\b|\b(?:cookies|newsletter|for free|our (?:app|partner|readers|newsletter|tool|poll|hotline|user)"
            r"|free (?:tool|month|articles)|all rights reserved|terms of use|editor|i (?:think|love|just|have|want)|my (?:opinion|grandmother)"
            r"|views expressed|ones? learns?|everybody should|you can buy|tips to)\b"
        ),
        "said": r"\b(?:said|says)\b",
        "number": (
            r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|million|half|third)\b"
        ),
        "opinion": (
            r"\b(?:should|best|love|great|beautiful|hard|important|matters?|deserves?|good|always|everybody|nobody|enough|worth|feels?"
            r"|hope|pray|strong|humble|in the end|honestly|in my view|if you ask me)\b"
        ),
        "reader": r"\b(?:i|my|me|you|your|our|us|we)\b",
    }.items()
}

"""Detecting prompt injection, so that such text never becomes a memory without a review.

The patterns find simple attempts.  They aren't the only protection: text from outside is always
put into prompts as marked data, and stays `external` until a person accepts it.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext_noop

from beacon_site.text.cleaning import normal_form

# The limit of one call.  Longer texts are checked sentence by sentence.
MAX_LENGTH = 200_000

_INSTRUCTIONS = (
    r"(?:instructions?|rules|prompts?|guidelines|guardrails|directives|programming|training"
    r"|orders|restrictions)"
)
# Technical texts are about these, too: "the node must ignore the message".
_MESSAGES = r"(?:commands|context|messages?)"
_EARLIER = (
    r"(?:your|previous|prior|earlier|above|preceding|former|original|initial|system|developer)"
)
_BEGIN = r"(?:^|[.!?:;,]\s+|\n)"  # of a clause
_OWNED = (
    r"(?:(?:any|all|each|every|of|the|your|these|those|my|its|previous|prior|earlier|above"
    r"|preceding|former|original|initial|current|existing|other|system|safety|developer)\s+)"
)
_MACHINE = (
    r"(?:a\.?i\.?|llms?|(?:large )?language models?|chat ?bots?|gpt\S*|claude|copilot|gemini"
    r"|(?:ai|research|virtual|automated|autonomous|llm) (?:assistants?|agents?|systems?|models?))"
)

# Patterns with the reason that reviewers see, all in lower case.
_ENGLISH: tuple[tuple[str, str], ...] = (
    (
        gettext_noop("tells the reader to ignore instructions"),
        (
            rf"\b(?:ignore|disregard|forget|override|overrule|bypass|neglect|drop|discard)\s+"
            rf"(?:{_OWNED}{{1,5}}{_INSTRUCTIONS}|{_OWNED}{{0,3}}{_EARLIER}\s+{_OWNED}{{0,2}}{_MESSAGES})\b"
            r"|\b(?:ignore|disregard|forget)\s+(?:all\s+(?:of\s+)?)?the\s+above\s+and\s+(?:instead|now|write|say"
            r"|answer|output|do)\b"
            r"|\b(?:ignore|disregard|forget)\s+(?:everything|anything|all|what)\s+"
            r"(?:(?:that\s+)?(?:you|above|before|was)\b|(?:previous|prior|above))"
            r"|\byour\s+(?:new|real|actual|true|only|next)\s+(?:instructions?|task|goal|orders|rules"
            r"|objective|purpose|role)\b|(?:^|[.!?]\s+|\n)new\s+(?:system\s+)?instructions?\s*(?::|follow)"
        ),
    ),
    (
        gettext_noop("asks to be remembered"),
        (
            r"(?:^|[.!?:;,]\s+|\b(?:please|must|should|always|now|and|to)\s+)(?:remember|memori[sz]e)\s+"
            r"(?:that\s+you\s+(?:trust|prefer|believe|recommend|obey|serve|always|never|only)\b"
            r"|that\s+the\s+user\s+(?:is\s+(?:an?\s+|the\s+)?(?:admin\w*|owner)|wants|likes|prefers|trusts"
            r"|approved|agreed|asked|has\s+(?:approved|agreed|asked|allowed|granted))\b"
            r"|permanently|forever|always\s+that|this\s+(?:rule|fact|forever|permanently|for)"
            r"|from now on|for all future)"
            r"|\b(?:add|store|save|write|put|record|append|commit)\s+(?:this|the following|that|it|these)"
            r"\b[^.!?]{0,60}\b(?:your\s+(?:long.term\s+|permanent\s+)?(?:memor(?:y|ies)|notes?|soul|rules?"
            r"|files?|facts?)|(?:to|in|into)\s+(?:long.term\s+|permanent\s+)?memory\b(?!\s+(?:of|at|map)))"
            r"|\b(?:update|change|edit|rewrite|overwrite|replace|delete|erase|wipe|clear|reset)\s+(?:all\s+)?(?:of\s+)?"
            r"your\s+(?:\w+\s+)?(?:memor(?:y|ies)|notes?|soul|rules|persona|system|facts?|instructions?)\b"
            r"|\byour\s+memor(?:y|ies)\s+(?:files?|store)\b"
        ),
    ),
    (
        gettext_noop("gives instructions about the user"),
        (
            r"\b(?:do not|don't|never|must not|mustn't|without)\s+(?:tell|telling|inform|informing|alert"
            r"|alerting|warn|warning|notify|notifying|reveal|mention|ask|asking|show)\s+"
            r"(?:it\s+to\s+|this\s+to\s+|that\s+to\s+)?(?:the|your|any)\s+(?:user|owner|human|operator)s?\b"
            r"|\b(?:do not|don't|never)\s+(?:tell|mention|reveal|disclose)\s+(?:anyone|anybody"
            r"|(?:about\s+)?this\s+(?:paragraph|message|instruction|prompt|text|page|note))\b"
            rf"|(?:{_BEGIN}|\bplease\s+|\byou\s+(?:must|shall)\s+)(?:tell|convince|persuade|urge)\s+"
            r"(?:the|your)\s+(?:user|owner|human)s?\s+(?:to|that)\b"
        ),
    ),
    (
        gettext_noop("addresses an AI"),
        (
            r"\bas an?\s+(?:ai|artificial intelligence|(?:large )?language model)\b(?:,|\s+(?:you|i|assistant"
            r"|model|language model|agent)\b)"
            r"|(?:(?:^|[.!?]\s+|\n)\W{0,4}(?:important\s+)?(?:attention|note|notice|message|memo"
            r"|instructions?|reminder|to)|\b(?:attention|dear|hello|hey|hi))"
            rf"[,:]?\s+(?:for\s+|to\s+)?(?:all\s+|any\s+|the\s+|every\s+|you,?\s+)?{_MACHINE}\b"
            r"(?=[^.!?(\n]{0,40}(?:[,!]|:(?!//)))"
            rf"|\bif\s+you(?:'re|\s+are)\s+(?:an?\s+|the\s+)?{_MACHINE}\b"
            rf"|\byou\s+are\s+(?:now\s+)?(?:(?:an?|the)\s+(?:\w+\s+)?)?{_MACHINE}\b"
            r"|\byou\s+are\s+now\s+(?:in\s+)?(?:dan|free|unrestricted|jailbroken|a\s+different|developer\s+mode"
            r"|no\s+longer)\b"
            rf"|\b{_MACHINE}\s+(?:reading|processing|summari[sz]ing|visiting|parsing)\s+this\b[^.!?]{{0,30}}"
            r"\b(?:must|should|shall|are required|have to|need to|ought)\b"
            r"|\b(?:pretend|act)\s+(?:to be|as if you|as though you|as an?\s+(?:unrestricted|admin))\b"
            r"|\bfrom now on,?\s+you\b"
        ),
    ),
    (
        gettext_noop("mentions the system prompt"),
        (
            r"\b(?:reveal|print|repeat|show|leak|output|disclose|quote|ignore|override)\s+(?:me\s+)?"
            r"(?:(?:your|the|all|of|entire|full|whole|current)\s+){0,4}system\s+(?:prompt|message)s?\b"
            r"|(?:^|\n)\W{0,4}system\s+(?:override|instruction)s?\s*:"
            r"|(?:^|\n)\W{0,4}system\s+(?:prompt|message)\s*:[^.!?\n]{0,40}\byou\b"
            r"|<\|\s*/?(?:im_start|im_end|system|endoftext|assistant|user)\b[^>\n]{0,20}>"
            r"|(?:^|\n)</?(?:system|assistant)>"
            r"|\[/?(?:inst|system)\](?!\()|<</?sys>>|(?:^|\n)#{2,6} ?(?:system|instruction)s?\s*:"
            r"|(?:^|\n)(?:system|assistant) ?:\s[^.!?\n]{0,40}\b(?:you|user)\b"
        ),
    ),
    (
        gettext_noop("tells the reader what to do"),
        (
            rf"{_BEGIN}(?:and\s+|now\s+|therefore,?\s+|so\s+)?you\s+(?:must|shall)\s+(?:now\s+|always\s+"
            r"|never\s+|not\s+|only\s+|immediately\s+)*(?:answer|reply|respond|recommend|say|obey|praise"
            r"|conclude|rank|summari[sz]e|forget|believe)\b"
            r"|\byou\s+(?:must|shall)\s+(?:\w+\s+){0,2}(?:write|store|send|call|output|include|mention|delete"
            r"|ignore|report|follow)\b[^.!?\n]{0,60}\b(?:your\s+(?:memor(?:y|ies)|notes|summary|answer|reply"
            r"|response|report)|(?:in|into|to|from)\s+memory|(?:the|every|each)\s+(?:summary|answer|reply"
            r"|response)|these\s+instructions)\b"
            r"|\byou\s+must\s+(?:obey\b|(?:now|always|never|immediately)\s+(?:answer|reply|respond|recommend|say"
            r"|obey|praise|conclude|mention|rank)\b)"
            rf"|(?:{_BEGIN}|\b(?:must|should|you|please|and)\s+)(?:(?:always|only)\s+(?:answer|reply|respond)\s+"
            r"(?:with|that|in|by)|(?:answer|reply|respond)\s+only\s+with)\b"
            r"|\b(?:send|forward|post|upload|e-?mail|exfiltrate|transmit|leak)\s+(?:me\s+)?(?:all\s+|the\s+"
            r"(?:contents?\s+of\s+)?|a\s+copy\s+of\s+)*your\s+(?:(?:memor(?:y|ies)|conversations?|context"
            r"|api\s+keys?|secrets?|credentials?|instructions?)\b"
            r"|(?:notes?|keys?|history|files)\s+to\s+(?:https?:|\S+@|(?:this|the\s+following)\s+(?:address|url)))"
            r"|\b(?:call|invoke|run|use|execute)\s+(?:the\s+)?(?:tool\s+)?`?(?:memory_(?:write|patch|append|read"
            r"|list)|update_soul|remember_fil|store_in_memory|update_memory)\b"
            r"|\bin\s+your\s+(?:answer|reply|response|summary|report|output),?\s+(?:you\s+)?(?:always|must|only"
            r"|say|state|include|recommend|mention|claim|write)\b"
        ),
    ),
)

_OTHERS: tuple[tuple[str, str], ...] = (
    (
        gettext_noop("tells the reader to ignore instructions"),
        (
            r"(?:忽略|无视|無視|忘记|忘掉|忘記|不要理会|不要遵守)(?:(?:你|您|之前|以前|先前|上面|以上|所有|一切|全部|的|此前)+"
            r"(?:规则|規則|提示|命令|要求|设定|指令|指示)|指令|指示)"
            r"|(?:これまで|以前|上記|前|すべて|全て|今まで|先)(?:の|すべての|全ての)*(?:指示|命令|ルール|プロンプト)"
            r"を(?:すべて)?(?:無視|忘れ)|(?:이전|위|모든)(?:의|\s|모든)*(?:지시|명령|규칙|지침)(?:를|을|사항을)?\s*(?:모두\s*)?"
            r"(?:무시|잊)"
            r"|\b(?:ignorez?|oubliez?)\s+(?:\w+\s+){0,3}(?:instructions|consignes|r[eè]gles)\b"
            r"|\b(?:ignorieren?|ignoriere|vergiss|vergessen|missachten?)\s+(?:\w+\s+){0,4}"
            r"(?:anweisung\w*|regeln|instruktion\w*|vorgaben)\b"
            r"|\b(?:ignor[ae]d?|olvid[ae]|descart[ae])\s+(?:\w+\s+){0,4}(?:instrucci[oó]n(?:es)?|reglas|[oó]rdenes)\b"
            r"|\b(?:ignor[ea]|esque[cç]a|desconsidere)\s+(?:\w+\s+){0,4}(?:instru[cç][oõ]es|regras|ordens)\b"
            r"|\b(?:ignora|dimentica)\s+(?:\w+\s+){0,4}(?:istruzioni|regole)\b"
            r"|(?:игнорируй|забудь|не\s+обращай\s+внимания\s+на)(?:те)?\s+(?:\w+\s+){0,4}(?:инструкци|правил|указани)"
            r"|(?:تجاهل|انس)\s+(?:\S+\s+){0,2}(?:التعليمات|الأوامر|القواعد|تعليماتك)"
        ),
    ),
    (
        gettext_noop("asks to be remembered"),
        (
            r"(?:请|你必须|务必|一定要)?(?:永远|永久)(?:记住|牢记)|(?:写入|存入|保存到|加入)(?:你|您)?的?"
            r"(?:长期)?(?:记忆|笔记|记忆文件)|(?:记憶|記憶)(?:に|へ)(?:保存|書き込|記録)し"
            r"|\b(?:merke|merken)\s+(?:dir|sie\s+sich)\b|\bsouviens-toi\s+que\b|\brecuerda\s+(?:siempre|para\s+siempre)\b"
            r"|запомни(?:те)?,?\s+(?:что|навсегда)"
        ),
    ),
    (
        gettext_noop("gives instructions about the user"),
        (
            r"(?:不要|不得|别|切勿|禁止)(?:告诉|告知|通知|提醒|透露给)(?:用户|使用者|任何人|主人)"
            r"|ユーザー(?:に|には)(?:\S{0,8})(?:伝え|知らせ|言わ|教え)(?:ないで|るな|てはいけ)"
            r"|사용자에게\s*(?:\S+\s*){0,2}(?:말하지|알리지)\s*마"
            r"|\b(?:sag|sagen|verrate)\s+(?:sie\s+)?(?:es\s+)?dem\s+(?:benutzer|nutzer)\s+(?:\w+\s+){0,2}nicht"
            r"|\bne\s+(?:le\s+)?dis(?:ez)?\s+(?:rien\s+|pas\s+)+[aà]\s+l['’]utilisateur"
            r"|\bno\s+(?:se\s+lo\s+)?dig[ao]s?\s+(?:nada\s+)?al\s+usuario|не\s+(?:говори|сообщай)(?:те)?\s+(?:\w+\s+){0,2}"
            r"пользовател"
        ),
    ),
    (
        gettext_noop("addresses an AI"),
        (
            r"(?:作为|作為|身为)(?:一个|一名|一個)?(?:ai|人工智能|人工智慧|语言模型|大模型|智能)(?:助手|模型|系统)?[，,]?(?:你|您)"
            r"|(?:ai|人工智能|智能)(?:助手|代理|模型)(?:们)?(?:请注意|注意|必须|应当|请|：)"
            r"|ai(?:アシスタント|エージェント)(?:は|へ|の皆|、)(?:\S{0,20})(?:ください|なさい|しろ|せよ|：)"
            r"|\b(?:als|en\s+tant\s+qu['’e]+|como|come)\s+(?:eine?\s+|una?\s+)?(?:ki|ia)(?:\s|-)"
            r"(?:modell|assistent|modelo|asistente|mod[eè]le|assistant)?[^.!?]{0,12}\b(?:du|sie|tu|vous|usted|debes|musst)\b"
        ),
    ),
    (
        gettext_noop("mentions the system prompt"),
        (
            r"(?:泄露|透露|输出|打印|显示|重复|告诉我|忽略)(?:你|您|的|全部|完整)*(?:系统|系統)提示(?:词|詞)"
            r"|システムプロンプトを(?:表示|出力|教え|見せ|無視|繰り返)"
            r"|시스템\s*프롬프트(?:를|을)\s*(?:출력|표시|공개|알려|보여|무시)"
            r"|(?:покажи|выведи|раскрой|повтори|игнорируй)(?:те)?\s+(?:\w+\s+){0,2}системн\w+\s+промпт"
        ),
    ),
)

_PATTERNS = tuple(
    (reason, re.compile(pattern, re.IGNORECASE)) for reason, pattern in (*_ENGLISH, *_OTHERS)
)
# The same for lower-case ASCII text, since matching without IGNORECASE takes a third less time.
_LOWER_CASE_PATTERNS = tuple(
    (reason, re.compile(pattern)) for reason, pattern in (*_ENGLISH, *_OTHERS)
)
# Zero-width and direction characters, which can hide words from a pattern.
_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
# Tag characters spell invisible ASCII.  A run of them has no legitimate use.
_SMUGGLED = re.compile("[\U000e0020-\U000e007e]{8,}")


def injection_reason(text: str) -> str:
    """Return why `text` looks like prompt injection, or "" if it doesn't.

    The reason completes "This text …".  It is stored in English with the proposal, and translated
    when it is shown.  Only the first `MAX_LENGTH` characters are checked.
    """
    text = text[:MAX_LENGTH]
    if _SMUGGLED.search(text):
        return gettext_noop("contains invisible text")
    seen = normal_form(_HIDDEN.sub("", text)).replace("’", "'")
    # Collapse spaces line by line, because runs of them make some patterns very slow.
    seen = "\n".join(" ".join(line.split()) for line in seen.splitlines() if line.strip())
    patterns = _PATTERNS
    if seen.isascii():
        seen, patterns = seen.lower(), _LOWER_CASE_PATTERNS
    for reason, pattern in patterns:
        if pattern.search(seen):
            return reason
    return ""


def instruction_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of `text` that look like prompt injection, in order, to highlight them.

    If only the normalized text shows it (hidden or look-alike characters), the span is all of it.
    """
    seen = text[:MAX_LENGTH].replace("’", "'")
    found = [match.span() for match in _SMUGGLED.finditer(seen)]
    for _reason, pattern in _PATTERNS:
        found += [match.span() for match in pattern.finditer(seen)]
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(found):
        begin += len(seen[begin:end]) - len(seen[begin:end].lstrip(" \t\n.,:;!?"))
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((begin, end))
    return spans or ([(0, len(text))] if injection_reason(text) else [])

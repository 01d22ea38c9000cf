"""Which sentences don't make sense as a finding: code, boilerplate, and those that refer to others."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path

from beacon_site.text import values

# These openings refer to an earlier sentence, which isn't quoted.
_OPENERS = {
    "en": r"this|that|these|those|it|its|it's|they|their|he|she|his|her|him|we|our|us|i|i'm|my|mine|you|your"
    r"|there|here|such|both|neither|either|another|others|one of (?:them|these|those)|some of (?:them|these"
    r"|those)|none of (?:this|these|them|it)|all of (?:this|these|them|it)|each of (?:these|them)"
    r"|however|but|and|or|nor|so|also|then|thus|hence|therefore|moreover|furthermore|meanwhile|instead"
    r"|otherwise|still|yet|nevertheless|nonetheless|besides|consequently|accordingly|similarly|likewise"
    r"|additionally|finally|lastly|firstly|secondly|thirdly|first,|second,|third,|next,|again,|conversely"
    r"|overall|indeed|alternatively|unfortunately|fortunately|luckily|sadly|perhaps|maybe|anyway|sure,"
    r"|no further|no more|nothing|not all|not only|let|let's|please|note|see|check|click|read|try|learn"
    r"|thanks|thank|welcome|hello|hi|if you|when you|once you|before you|after you|to do so|do not|don't|doesn't|isn't|won't|can't|cannot"
    r"|doing so|because of (?:this|that|it)|as (?:a result|such|before|above|expected|mentioned|described"
    r"|shown|noted|usual|well|always|you)|for (?:example|instance|this|that|these|those)|in (?:addition"
    r"|contrast|other words|fact|short|particular|this|that|these|those|such|both|either)|on the other"
    r"|on the (?:same|contrary)|at the (?:same|moment|time)|by (?:contrast|comparison|doing)|with (?:this"
    r"|that|these|those|it)|after (?:this|that)|of (?:these|those|course)|among (?:these|those|them)"
    r"|the (?:former|latter|above|following|other|others|same)|that's|there's|here's|what|why|how|who|where"
    r"|which|whoever|whatever|example|figure|table|fig\.|warning|tip|todo|default:|returns?:|parameters"
    r"|args|e\.g|i\.e|etc|to (?!date\b|be\b)\w+|use(?! of\b)|import(?! (?:duties|taxes|prices|tariffs))|write|inspect|generate"
    r"|install|delete|ensure|make sure|create|copy|choose|consider|remember|avoid|keep|replace|specify|configure"
    r"|refer|visit|download|call|pass|watch|useful for|used (?:to|for|by|when|with|in|as)|plan for|test this",
    "de": r"er|sie|es|dies\w*|jene\w*|ihr\w*|sein\w*|wir|unser\w*|ich|mein\w*|du|das ist|da|dort|hier|dabei"
    r"|damit|dazu|daher|deshalb|darum|aber|und|oder|doch|jedoch|außerdem|allerdings|trotzdem|dann|auch"
    r"|zudem|ferner|beide|zum beispiel|solche\w*",
    "fr": r"il|elle|ils|elles|ce|cet|cette|ces|cela|ça|c'est|on|nous|notre|nos|je|mon|ma|mes|vous|votre|son"
    r"|sa|ses|leurs?|mais|et|ou|donc|cependant|toutefois|ainsi|ensuite|puis|alors|en effet|par exemple"
    r"|de plus|en outre|celui|celle|y",
    "es": r"est[eao]s?|es[eao]s?|aquel\w*|ello|ell[ao]s?|él|su|sus|nuestr\w+|yo|mi|mis|tú|usted\w*|pero|y|o"
    r"|sin embargo|además|así|entonces|luego|también|por eso|por ejemplo|por lo tanto|ambos|aquí|allí",
    "it": r"quest\w+|quell\w+|ess[oaie]|lui|lei|loro|suo|sua|noi|nostr\w+|io|mio|ma|e|o|però|tuttavia|inoltre"
    r"|quindi|così|poi|anche|per esempio|ciò",
    "pt": r"est[ea]s?|ess[ea]s?|isto|isso|ele|ela|eles|elas|seus?|suas?|nós|noss\w+|eu|meu|mas|e|ou|porém"
    r"|contudo|além disso|assim|então|também|por exemplo|por isso",
    "nl": r"hij|zij|ze|het is|dit|dat|deze|die|hun|zijn|haar|wij|we|ons|onze|ik|mijn|maar|en|of|echter|ook"
    r"|daarom|dus|bovendien|daarnaast|toen|hier|daar|er",
    "ru": r"он|она|оно|они|это|этот|эта|эти|его|её|ее|их|мы|наш\w*|я|мой|вы|ваш\w*|но|и|а|или|однако|поэтому"
    r"|также|кроме того|затем|потом|тогда|так|там|здесь|например|такой|такие|такая",
    "zh": r"这|那|它|他|她|其|该|此|我|你|您|咱|本刊|本文|本站|笔者|小编|但|然而|因此|所以|同时|另外|而且|而|不过|并且|并|例如"
    r"|比如|譬如|于是|由于此|与此|对此|为此|据此|如此|以上|以下|上述|如下|总之|首先|其次|最后|当然|也|还|又|则|即|或者|以及"
    r"|虽然如此|尽管如此|換言之|换言之|如果你|如果您|请|欢迎|点击|扫描|图为|来源|作者|記者|注：|同期|更正之后|更正之後",
    "ja": r"これ|それ|あれ|この|その|あの|ここ|そこ|彼|私|我々|あなた|しかし|また|そして|そのため|だが|ただし|なお|さらに|つまり"
    r"|したがって|一方|例えば|たとえば|まず|次に|最後に|同じく|同社|同氏|では|でも|それで|なぜなら",
    "ko": r"이것|그것|이는|그는|그녀|이들|그들|우리|저는|나는|당신|하지만|그러나|그리고|또한|또|따라서|그래서|한편|예를 들어"
    r"|이에|이를|그러므로|즉|먼저|다음으로|마지막으로|이번|여기",
}
_NO_SPACES = ("zh", "ja", "ko")
_OPENING = {
    code: re.compile(
        rf"[\W_]*(?:{words})" + ("" if code in _NO_SPACES else r"(?![\w'])"), re.IGNORECASE
    )
    for code, words in _OPENERS.items()
}
# "Over five years it received 22 minor releases": the subject is still a pronoun.
_LATE_PRONOUN = re.compile(
    r"(?:Over|In|On|After|Since|With|By|For|From|During|Until|Before|At|Under|Within|Between|Among)"
    r"\s(?:[\w'.-]+,?\s){1,6}(?:it|they|he|she)\s"
)
# "Increase of this number …", "If used in the command, this is …": the word refers to earlier text.
_POINTS_BACK = re.compile(
    r"\b(?:this|these|that|those|the given|the above) (?:numbers?|values?|windows?|options?|sections?|documents?|page"
    r"|api|methods?|functions?|propert(?:y|ies)|class(?:es)?|commands?|flags?|settings?|cases?|behaviou?rs?|fields?"
    r"|parameters?|arguments?|callbacks?|events?|modules?|chapters?|examples?|steps?|tools?|list|file|way|patch|bug)\b"
    r"|\blike (?:this|that|these)\b"
    r"|^(?:If|When|While|Although|Though|Because|As|Since|Once|Unless|Given|Unlike|Like)\s(?:(?:it|they|this|that|these"
    r"|those|he|she|used|set|specified|present|omitted|true|false|given|provided|not)\b|[^,]{1,80},\s(?:this|these|those)\b)"
    r"|^[a-z]+ing\s(?:this|these|that|those|it|them)\b|^(?:For|In|On|With|By)\s.{1,60}\sthis\s\w+s\b"
    r"|\s(?:of|in|inside|with|to|for|by|from|on)\s(?:it|them)\.$",
    re.IGNORECASE,
)
# More such openings, for first reports. Comparing two versions of a page uses only those above.
_WORDING = tomllib.loads(Path(__file__).with_name("wording.toml").read_text(encoding="utf-8"))
_MORE_OPENINGS = {
    code: re.compile(
        rf"[\W_]*(?:{'|'.join(words)})" + ("" if code in _NO_SPACES else r"(?![\w'])"),
        re.IGNORECASE,
    )
    for code, words in _WORDING["openings"].items()
}
_THIS = {code: re.compile(words, re.IGNORECASE) for code, words in _WORDING["this"].items()}
_FIRST = re.compile(r".*?[.!?。！？](?=\s|$|[^\x00-\xff])|.*", re.DOTALL)
_ELSEWHERE, _ABOUT_PAGE, _VAGUE = (
    re.compile("|".join(each for words in _WORDING[name].values() for each in words), re.IGNORECASE)
    for name in ("elsewhere", "about_page", "vague")
)
_BRACKETS = ("()", "[]", "（）", "「」", "『』", "《》")
_CODE = re.compile(
    r"[{}<>\\]|;\s*$|=>|->|==|!=|&&|\|\||::(?![A-Za-z])|\w\(\)|\w\(\w*[=,]|(?<!\w)--?\w+[= ]\S+\s--?\w|\$\w|>>>"
    r"|^\s*(?:import|from|def|class|const|let|var|function|SELECT|INSERT|UPDATE|pip|npm|git|sudo)\s+\S+.*[;(={]"
    r"|\w+=\w*[\"'\[{(\d]|\bself\.|^[\w.]+:\s+\w+$|@\w+\(|\*\*kwargs|\[\s*\]|\w\(\w*\[|[\])]#|`\s|\s`|(?:^|\s)//\s|#\d{3,}\b"
)
_BOILERPLATE = re.compile(
    r"\bcookies?\b|\bsubscri(?:be|ption|ber)|newsletter|\bsign(?:ed)?[ -](?:up|in)\b|\blog(?:ged)? ?in\b"
    r"|all rights reserved|©|\(c\)\s*\d{4}|\bcopyright\b|privacy (?:policy|notice)|terms (?:of|and) (?:use|service|cond)"
    r"|\bclick\b|\bread more\b|\bshare (?:this|on)\b|\bfollow us\b|advertis(?:ement|ing partner)|javascript (?:is|must|to)"
    r"|enable javascript|permission is hereby|\blicen[cs]ed under|\bwarrant(?:y|ies) of\b|without warrant"
    r"|table of contents|first published (?:by|on|in)|is mirrored|courier wire|\bphoto(?:graph)? (?:by|credit)"
    r"|image (?:credit|source|:)|leave a (?:comment|reply)|email address (?:will|is)|contact us|your browser|"
    r"\bpress release\b.*\bcontact\b|\bunsubscribe|affiliate links?|related (?:articles|posts|stories)|"
    r"\bback to top\b|skip to (?:main )?content|\bpull requests? (?:are|is) welcome|\bsee also\b|edit this page"
    r"|last (?:updated|modified|edited) (?:on|at|by)|\bdisclaimer\b|redistribut(?:e|ion) and use|"
    r"版权所有|版權所有|转载|轉載|订阅|訂閱|关注我们|扫码|掃碼|点击|點擊|责任编辑|責任編輯|免责声明|免責聲明|登录|登入|注册账|广告|廣告|"
    r"下载APP|公众号|隐私政策|服务条款|致歉|無断転載|購読|クッキー|ログイン|会員登録|プライバシー|利用規約|"
    r"구독|로그인|무단 ?전재|쿠키|개인정보",
    re.IGNORECASE,
)
# Text addressed to the reader is advice, not a finding.
_TO_READER = re.compile(
    r"\byou (?:must|should|can|may|need|will|have|might|want|could|are|do|don't|cannot|can't|would|use|get|see)\b"
    r"|\b(?:your|yours|yourself|yourselves)\b|你必须|您必须",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\bplease\b|\blet(?:'s| us)\b|\bwe(?:'re|'ll| (?:recommend|suggest|hope|thank|will see|would like|can see|need to))\b"
    r"|请(?:您|你|大家|注意|参阅|参见)",
    re.IGNORECASE,
)
# "Fix pool timeouts", "Returns the socket", "Called when …": a line of a log or manual without its
# subject.
_VERBS = (
    "fix|add|bump|correct|deprecate|enable|disable|specify|specifie|provide|allow|improve|prevent|refactor|rename"
    "|implement|revert|clarify|clarifie|determine|indicate|represent|define|contain|return|get|create|make|take"
    "|throw|resolve|emit|call|handle|set|update|remove|print|display|check|drop|support|change|convert|raise|close"
    "|document|introduce|move|merge|restore|start|stop|skip|send|show|list|parse|apply|applie|ensure|render|load"
    "|register|bring|teach|tell|recheck|connect|disconnect|invoke|trigger|plug|grant|describe|accept|run|control|tell|switch|reject|reset|tweak|simplify|simplifie|optimi[sz]e"
)
_AFTER_VERB = (
    "the|a|an|all|any|each|some|whether|how|if|when|multiple|several|both|support|missing|handling|issues?"
    "|bugs?|typos?|regressions?|broken|incorrect|wrong|compatibility|optional"
)
_SUBJECTLESS = re.compile(
    rf"(?:{_VERBS})(?:e?s|e?d|[pt]ed)?\s+(?:{_AFTER_VERB})\b"
    r"|(?:Fix|Fixe[sd]|Adds?|Bump(?:s|ed)?|Correct|Remove|Deprecate|Allow|Improve|Prevent|Refactor(?:ed)?|Rename"
    r"|Implement|Revert(?:ed)?|Clarify|Ensure|Handle|Make|Bugfix|Returns|Creates|Gets|Throws|Emits|Enables|Disables"
    r"|Specifies|Determines|Indicates|Represents|Defines|Contains|Provides|Allows|Makes|Takes|Handles|Helpers? for"
    r"|Options? (?:for|to)|Tells|Plug|Enable|Disable|Specify|Determine|Define|Whether)\s+[\"“‘']?[^\W\d_]"
    rf"|(?:When|If|While|Once)\s[^,]{{1,80}},\s(?:{_VERBS})(?:e?s)\s(?!are\b|is\b|will\b|can\b|may\b|were\b|have\b)"
    r"|The (?:value|name|path|depth|type|string|timestamp|location) (?:that|to|of|which|in)\b"
    r"(?!.*\s(?:is|are|was|were|has|have|had|must|can|may|will|defaults|specifies|determines|depends)\s)"
    r"|An? (?:string|boolean|array|object|callback|integer|dict|list|function|helper|method|class|regular expression"
    r"|wrapper|tuple)\s(?:representing|of|that|to|which|containing|specifying|indicating|used|describing|for)\b",
    re.IGNORECASE,
)
# "framesSent The number of …", "force - packages are …", "0.14.0 (2026-03-27) …": list items that
# lost their markup.
_GLUED = re.compile(
    r"(?:[a-z][\w.$-]*|[\w$-]+[._][\w.$]+|[A-Z]+_\w+)\s+(?:The|A|An|If|Whether|Returns?|When|This|Sets?|Number)\s"
    r"|[a-z][\w-]*(?:\s[\w<>-]+)?\s+[-–—]+\s|v?\d+(?:\.\d+)+\S*\s*[(–—:-]|.*[-=~_^*]{4,}"
)
# "description: …", "Summary: …": a field of a form, not a statement.
_LABELLED = re.compile(
    r"[\w-]+:\s|(?:[\w-]+\s){0,3}(?:fix(?:es)?|improvements?|clean-?ups?|changes|features?|documentation|notes?):\s"
)
_LISTED = re.compile(r"[^\s,;]+(?:[,;]\s*[^\s,;]+){9,}")
_URL = re.compile(r"https?://|www\.\w")
_WORDLIKE = re.compile(r"[^\W\d_]")


def is_chatter(sentence: str) -> bool:
    """Return True if a sentence is litter or addresses the reader."""
    return _TO_READER.search(sentence) is not None or is_litter(sentence)


def is_litter(sentence: str) -> bool:
    """Return True if a sentence is code, a URL, boilerplate, a request to the reader, or a list."""
    if _CODE.search(sentence) or _URL.search(sentence) or _REQUEST.search(sentence):
        return True
    bare = sentence.lstrip("\"'“‘([ ")
    if _SUBJECTLESS.match(bare) or _GLUED.match(bare) or _LABELLED.match(sentence):
        return True
    return is_boilerplate(sentence)


# What a page says about itself: when it was changed, how often it was opened, whose it is.
_CHANGED_ON = re.compile(
    r"\W*(?:(?:(?:this|the) )?(?:page|document|site|file|list) )?(?:was |is )?(?:"
    r"last[ _-]?(?:updated?|modified|edited|changed|reviewed|revised|generated|built)"
    r"|(?:automatically )?generated (?:on|at)\b|generated(?=\W*:)|stand(?= ?:)"
    r"|zuletzt (?:aktualisiert|geändert|bearbeitet)|letzte (?:aktualisierung|änderung)"
    r"|dernière (?:mise à jour|modification)|última (?:actualización|modificación)"
    r"|最終更新日?|最后更新(?:时间)?)",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\W*(?:you are )?(?:page ?views|(?:page )?hits|(?:visitors?|visits|views|besucher|visiteurs|visitas)"
    r"(?: number| today| so far| online| counter| of this page| heute| hoy))\W*[\d.,\s]+\W*",
    re.IGNORECASE,
)
_COPYRIGHT = re.compile(r"\W*(?:©|\(c\)|copyright\b)\D{0,20}\d{4}\b.{0,80}", re.IGNORECASE)
MAX_STAMP_WORDS = 8


def is_stamp(line: str) -> bool:
    """Return True if a line only says when its page changed, how often it was read, or who owns it."""
    if _COUNTED.fullmatch(line) or _COPYRIGHT.fullmatch(line):
        return True
    stamp = _CHANGED_ON.match(line)
    rest = line[stamp.end() :] if stamp else ""
    is_short = bool(rest) and len(rest.split()) <= MAX_STAMP_WORDS
    return is_short and any(kind == values.DATE for kind, _value in values.typed_values(rest))


def is_boilerplate(sentence: str) -> bool:
    """Whether a sentence is about the site instead of its subject, or only a list or symbols."""
    return _BOILERPLATE.search(sentence) is not None or is_stamp(sentence) or _is_fragment(sentence)


@lru_cache(maxsize=4_096)  # selecting statements asks for each sentence two or three times
def begins_with_reference(sentence: str, language: str = "en") -> bool:
    """Return True if a sentence begins with a pronoun or a connective (or "No further")."""
    opening = _OPENING.get(language)
    sentence = sentence.replace("’", "'")
    if language == "en" and (_LATE_PRONOUN.match(sentence) or _POINTS_BACK.search(sentence)):
        return True
    return opening is not None and opening.match(sentence) is not None


def needs_previous(sentence: str, language: str = "en") -> bool:
    """Return True if a sentence can't be understood without the one before it."""
    return more_openings(sentence, language) or begins_with_reference(sentence, language)


def more_openings(sentence: str, language: str) -> bool:
    """Whether a sentence begins with a reference that `begins_with_reference` doesn't know."""
    more = _MORE_OPENINGS.get(language)
    if more is not None and more.match(sentence.replace("’", "'")):
        return True
    return _says_this(sentence, language)


def _says_this(sentence: str, language: str) -> bool:
    """Return True if the first sentence says "this upgrade" before it has named an upgrade."""
    first = _FIRST.match(sentence)
    for found in _THIS[language].finditer(first[0]) if first and language in _THIS else ():
        before = sentence[: found.start()].casefold()
        named = found[1].casefold().split()
        if not any(word[: max(4, len(word) - 2)] in before for word in named):
            return True
    return False


def refers_elsewhere(sentence: str) -> bool:
    """Return True if a sentence refers to another part of its page, or is cut inside a bracket."""
    is_cut = any(sentence.count(one[0]) > sentence.count(one[1]) for one in _BRACKETS)
    return is_cut or _ELSEWHERE.search(sentence) is not None


def is_about_page(sentence: str) -> bool:
    """Return True if a sentence says what its page is for, or where to read more."""
    return _ABOUT_PAGE.search(sentence) is not None


def is_vague(sentence: str) -> bool:
    """Return True if a sentence generalizes, praises or gives an example, and so says little."""
    return _VAGUE.search(sentence) is not None


def _is_fragment(sentence: str) -> bool:
    """Return True if it is a list of names, a table row, or mostly digits and symbols."""
    letters = len(_WORDLIKE.findall(sentence))
    visible = len(sentence.replace(" ", ""))
    if letters < 0.55 * visible:
        return True
    # By letters, since a sentence in Chinese has few spaces.
    shouted = "".join(word for word in sentence.split() if word.isupper() and len(word) > 3)
    return len(_WORDLIKE.findall(shouted)) > 0.4 * letters or bool(_LISTED.search(sentence))

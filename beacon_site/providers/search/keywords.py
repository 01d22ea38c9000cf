"""Reducing a query of a person or planner to its keywords.

arXiv, GDELT, Hacker News and Wikipedia require every word of a query, and would find nothing for
"postgres replication latest news since 2026-11-01".  So dates and words such as "latest news" are
removed, and the service's date filter is used instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_WORDS = 8  # of one query; services that require all words find nothing for more

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»')
_WORD = re.compile(r"[^\W_]+(?:[.'’&+-]+[^\W_]+)*[+#]*")
_MONTH = (
    "jan(?:uary|uar|vier)?|feb(?:ruary|ruar|rero)?|mar(?:ch|zo)?|märz|février|enero"
    "|apr(?:il)?|avril|abril|may|mai|mayo|jun(?:e|i|io)?|juin|jul(?:y|i|io)?|juillet"
    "|aug(?:ust)?|août|agosto|sep(?:t(?:ember|embre|iembre)?)?|oct(?:ober|obre|ubre)?|okt(?:ober)?"
    "|nov(?:ember|embre|iembre)?|dec(?:ember)?|dez(?:ember)?|décembre|diciembre"
)
_YEAR = r"(?:19|20)\d\d"
_DATES = re.compile(
    rf"(?<![\w-]){_YEAR}-\d\d?(?:-\d\d?)?(?![\d-])\s*(?:以来|以降|이후)?"
    rf"|\b(?:{_MONTH})\.?\s+(?:\d\d?,?\s+)?{_YEAR}\b"
    rf"|\b\d\d?\.?\s+(?:{_MONTH})\.?\s+{_YEAR}\b"
    rf"|{_YEAR}\s*[年년](?:\s*\d\d?\s*[月월])?(?:\s*\d\d?\s*[日일])?\s*(?:以来|以降|이후)?"
    rf"|(?<![\w-]){_YEAR}(?![\w-])",
    re.I,
)
_FUNCTION_WORDS = {
    "en": """a about an and andnot any are as at be been between by can did do does for from had has
    have how in into is it its near not of on onto or our over since than that the their these they
    this those to under until versus vs was we were what when where which who whose why will with
    within you your""",
    "de": """als am an auf aus bei beim bis das dem den der des die durch ein eine einem einen einer
    es für gegen gibt hat ist im in mit nach oder seit sich sind über um und vom von vor war warum
    was welche welcher wenn wer wie wird wo zu zum zur""",
    "fr": """à au aux avec ce ces dans de depuis des du elle en entre est et il la le les leur ou où
    par pas pour quand que quel quelle quelles quels qui sans se son sont sur un une vers""",
    "es": """a al como con cómo cuál cuándo de del desde dónde el en entre es esta este hasta la las
    lo los más o para por que qué quién se ser si sin sobre son su un una y""",
}
_WAYS_OF_ASKING = {
    "en": """announced announcement announcements article articles change changes comparison
    correction corrections critical criticism current currently development developments latest news
    number numbers paper papers problem problems recent recently release released releases report
    reports research statistics study studies today update updated updates""",
    "de": """aktuell aktuelle ankündigung bericht entwicklung entwicklungen forschung kritik meldung
    meldungen nachrichten neu neue neues neueste neuesten neuigkeiten probleme statistik studie
    studien stand vergleich veröffentlichung zahlen änderungen""",
    "fr": """actualité actualités annonce annonces changements chiffres comparaison critique
    critiques dernier derniers dernière dernières développements étude études nouveautés nouvelle
    nouvelles problèmes recherche sortie statistiques""",
    "es": """anuncio anuncios cambios cifras comparación crítica críticas estadísticas estudio
    estudios investigación lanzamiento noticia noticias novedades problemas últimas últimos""",
    "zh": "最新 最新进展 发布 公告 研究 论文 质疑 问题 数据 统计 新闻 变化 更正 更新 以来",
    "ja": "最新 発表 リリース 研究 論文 批判 課題 統計 データ ニュース 変更 訂正 更新 以降",
    "ko": "최신 발표 출시 연구 논문 비판 문제 통계 수치 뉴스 변화 정정 업데이트 이후",
}
_BARE = frozenset(_FUNCTION_WORDS["en"].split())  # removed even if they are in the title
_ALWAYS = ("en", "zh", "ja", "ko")  # no other language has words with these spellings


def _words_of(languages: Iterable[str]) -> frozenset[str]:
    """Return the words to remove in these languages; “die”, for example, is a filler only in German."""
    codes = {*_ALWAYS, *(code.lower().replace("_", "-").partition("-")[0] for code in languages)}
    texts = [texts.get(code, "") for texts in (_FUNCTION_WORDS, _WAYS_OF_ASKING) for code in codes]
    return frozenset(" ".join(texts).split())


def keywords(
    query: str, *, about: str = "", languages: Iterable[str] = (), most: int = MOST_WORDS
) -> list[str]:
    """Return the keywords of `query`, in order and without duplicates; quoted phrases stay whole.

    `languages` are the possible languages of the query besides English.  Words that are also in
    `about`, the title of the research, are kept, so "World Cup 2026" keeps its year.  If nothing
    would be left, all words are kept.
    """
    return (
        _subject(query, about, _words_of(languages))[:most]
        or _distinct(_WORD.findall(query))[:most]
    )


def phrase(term: str) -> str:
    """Return a keyword as plain words, because hyphens and dots are operators of some services."""
    return " ".join(re.findall(r"[^\W_]+", term))


def _subject(query: str, about: str, empty: frozenset[str]) -> list[str]:
    kept = {word.casefold() for word in _WORD.findall(about)} - _BARE
    phrases: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        words = _WORD.findall(next(filter(None, match.groups())))
        phrases.append(" ".join(words))
        return f" \0{len(phrases) - 1}\0 " if words else " "

    def undated(match: re.Match[str]) -> str:
        return match[0] if match[0].strip().casefold() in about.casefold() else " "

    text = _DATES.sub(undated, _QUOTED.sub(put_aside, query.replace("\0", " ")))
    terms: list[str] = []
    for piece in re.split(r"(\0\d+\0)", text):
        if piece.startswith("\0"):
            terms.append(phrases[int(piece.strip("\0"))])
            continue
        terms += [
            word
            for word in _WORD.findall(piece)
            if word.casefold() in kept or word.casefold() not in empty
        ]
    return _distinct(terms)


def _distinct(terms: list[str]) -> list[str]:
    first: dict[str, str] = {}
    for term in terms:
        first.setdefault(term.casefold(), term)
    return list(first.values())

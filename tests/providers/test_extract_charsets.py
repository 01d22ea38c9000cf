"""Pages in any charset, declared or not, come out as the text that was written."""

from __future__ import annotations

import pytest

from beacon_site.net.charsets import decode, known_charset

JA = "東京都は二十一日、新しい電池の工場を建設すると発表した。工場は来年の春に完成する予定で、約三百人が働くことになる。カタカナもある。"
ZH = "北京时间周六，研究人员宣布了一种新的固态电池。该电池的能量密度提高了两倍，并且可以在五分钟内充满电。"
TW = "北京時間週六，研究人員宣布了一種新的固態電池。該電池的能量密度提高了兩倍，並且可以在五分鐘內充滿電。"
KO = "서울에서 연구자들은 토요일에 새로운 고체 배터리를 발표했다. 이 배터리는 에너지 밀도가 두 배 높다."
RU = "В субботу исследователи объявили о новой твердотельной батарее. Плотность энергии вдвое выше, чем раньше."
UK = "У суботу дослідники оголосили про нову батарею. Її щільність енергії вдвічі вища, ніж раніше."
EL = "Το Σάββατο οι ερευνητές ανακοίνωσαν μια νέα μπαταρία στερεάς κατάστασης."
DE = "Am Samstag kündigten Forscher eine neue Festkörperbatterie an. Für die Größe ist die Dichte höher."
FR = "Samedi, des chercheurs ont annoncé une batterie à l'état solide. Très élevée, la densité a doublé."
PL = "W sobotę naukowcy ogłosili nową baterię. Gęstość energii jest dwukrotnie większa, łącznie z żółtą."
TR = "Cumartesi günü araştırmacılar yeni bir pil duyurdu. Enerji yoğunluğu iki kat yüksek, ışık değişti."
HE = "ביום שבת הודיעו חוקרים על סוללת מצב מוצק חדשה. צפיפות האנרגיה כפולה."
AR = "أعلن الباحثون يوم السبت عن بطارية جديدة ذات حالة صلبة. كثافة الطاقة مضاعفة."
TH = "เมื่อวันเสาร์ นักวิจัยได้ประกาศแบตเตอรี่โซลิดสเตตใหม่ ความหนาแน่นของพลังงานเพิ่มขึ้นเป็นสองเท่า"
LT = "Šeštadienį mokslininkai paskelbė apie naują bateriją, kurios energijos tankis didesnis."

DECLARED = [
    ("utf-8", JA),
    ("utf-16", JA),
    ("utf-16-le", RU),
    ("utf-16-be", RU),
    ("utf-32", ZH),
    ("shift_jis", JA),
    ("x-sjis", JA),
    ("windows-31j", JA),
    ("euc-jp", JA),
    ("iso-2022-jp", JA),
    ("gb2312", ZH),
    ("gbk", ZH),
    ("gb18030", ZH),
    ("big5", TW),
    ("x-x-big5", TW),
    ("euc-kr", KO),
    ("ks_c_5601-1987", KO),
    ("windows-949", KO),
    ("johab", KO),
    ("koi8-r", RU),
    ("koi8-u", UK),
    ("windows-1251", RU),
    ("iso-8859-5", RU),
    ("ibm866", RU),
    ("x-mac-cyrillic", RU),
    ("windows-1253", EL),
    ("iso-8859-7", EL),
    ("iso-8859-1", DE),
    ("windows-1252", FR),
    ("us-ascii", DE),
    ("macintosh", FR),
    ("iso-8859-15", FR),
    ("iso-8859-2", PL),
    ("windows-1250", PL),
    ("iso-8859-9", TR),
    ("windows-1254", TR),
    ("windows-1255", HE),
    ("iso-8859-8-i", HE),
    ("windows-1256", AR),
    ("iso-8859-6", AR),
    ("windows-874", TH),
    ("tis-620", TH),
    ("iso-8859-11", TH),
    ("windows-1257", LT),
    ("iso-8859-13", LT),
    ("cp437", FR),
    ("cp850", DE),
]
PYTHON_NAMES = {
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "x-x-big5": "big5",
    "windows-949": "cp949",
    "ks_c_5601-1987": "cp949",
    "x-mac-cyrillic": "mac_cyrillic",
    "us-ascii": "cp1252",
    "macintosh": "mac_roman",
    "iso-8859-8-i": "iso8859_8",
    "windows-874": "cp874",
}


def page(text: str, head: str = "") -> str:
    return f'<html><head>{head}<title>T</title></head><body><p class="x">{text}</p></body></html>'


@pytest.mark.parametrize(("name", "text"), DECLARED)
def test_a_charset_that_the_server_declares_is_believed(name: str, text: str):
    content = page(text).encode(PYTHON_NAMES.get(name, name))

    assert text in decode(content, name)


@pytest.mark.parametrize(
    ("name", "text"), [(n, t) for n, t in DECLARED if not n.startswith(("utf-16", "utf-32"))]
)
def test_a_charset_that_the_page_declares_is_believed(name: str, text: str):
    content = page(text, f'<meta charset="{name}">').encode(PYTHON_NAMES.get(name, name))

    assert text in decode(content)


def test_there_are_forty_of_them():
    assert len(DECLARED) >= 40


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cp932", JA), ("euc_jp", JA), ("iso2022_jp", JA), ("gb18030", ZH), ("big5", TW),
        ("cp949", KO), ("koi8_r", RU), ("cp1251", RU), ("cp1253", EL), ("cp1252", DE),
        ("cp1252", FR), ("cp1255", HE), ("cp1256", AR), ("cp874", TH), ("utf-8", RU),
        ("utf-16-le", DE), ("utf-16-be", DE), ("utf-8-sig", PL), ("utf-16", ZH),
    ],
)  # fmt: skip
def test_a_charset_that_no_one_declares_is_found_out(name: str, text: str):
    assert text in decode(page(text).encode(name))


@pytest.mark.parametrize("wrong", ["utf-8", "us-ascii", "iso-8859-1", "euc-kr", "nonsense"])
def test_shift_jis_under_a_wrong_name_is_found_out_or_at_least_text(wrong: str):
    text = decode(page(JA).encode("cp932"), wrong)

    assert text.encode("utf-8")
    if wrong in ("utf-8", "nonsense"):
        assert JA in text


def test_utf8_under_a_wrong_name_is_still_utf8():
    assert JA in decode(page(JA).encode(), "shift_jis")


def test_a_character_cut_in_two_by_the_size_limit_does_not_spoil_the_rest():
    assert JA[:20] in decode(page(JA).encode()[:150])


@pytest.mark.parametrize(
    "name", ["utf-7", "zip", "zlib", "hex", "rot13", "base64", "idna", "punycode", "unicode_escape",
             "raw_unicode_escape", "undefined", "", "../../etc", "\x00", "x" * 999],
)  # fmt: skip
def test_names_that_are_no_charsets_of_documents_are_not_used(name: str):
    assert known_charset(name) == ""


def test_any_bytes_become_text():
    for start in range(0, 256, 16):
        text = decode(bytes((start + n * 37) % 256 for n in range(4000)), "euc-jp")
        assert text.encode("utf-8")

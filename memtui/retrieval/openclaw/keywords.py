"""The stop words that OpenClaw's keyword extraction leaves out, by language.

These lists decide which keywords a release searches, so they are its lists (`query-expansion.ts`,
the same from 2026.2.17 to 2026.9.6): what is missing in them is missing in the program too.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from memtui.text.ecmascript import is_space, trim

_ENGLISH = """
a an the this that these those i me my we our you your he she it they them is are was were be been
being have has had do does did will would could should can may might in on at to for of with by
from about into through during before after above below between under over and or but if then
because as while when where what which who how why yesterday today tomorrow earlier later recently
ago just now thing things stuff something anything everything nothing please help find show get
tell give
"""

_SPANISH = """
el la los las un una unos unas este esta ese esa yo me mi nosotros nosotras tu tus usted ustedes
ellos ellas de del a en con por para sobre entre y o pero si porque como es son fue fueron ser
estar haber tener hacer ayer hoy mañana antes despues después ahora recientemente que qué cómo
cuando cuándo donde dónde porqué favor ayuda
"""

_PORTUGUESE = """
o a os as um uma uns umas este esta esse essa eu me meu minha nos nós você vocês ele ela eles elas
de do da em com por para sobre entre e ou mas se porque como é são foi foram ser estar ter fazer
ontem hoje amanhã antes depois agora recentemente que quê quando onde porquê favor ajuda
"""

_ARABIC = """
ال و أو لكن ثم بل أنا نحن هو هي هم هذا هذه ذلك تلك هنا هناك من إلى الى في على عن مع بين ل ب ك كان
كانت يكون تكون صار أصبح يمكن ممكن بالأمس امس اليوم غدا الآن قبل بعد مؤخرا لماذا كيف ماذا متى أين هل
فضلا ساعد
"""

_KOREAN = """
은 는 이 가 을 를 의 에 에서 로 으로 와 과 도 만 까지 부터 한테 에게 께 처럼 같이 보다 마다 밖에
대로 나 나는 내가 나를 너 우리 저 저희 그 그녀 그들 이것 저것 그것 여기 저기 거기 있다 없다 하다
되다 이다 아니다 주다 오다 가다 것 거 등 수 때 곳 중 분 잘 더 또 매우 정말 아주 많이 너무 좀
그리고 하지만 그래서 그런데 그러나 또는 그러면 왜 어떻게 뭐 언제 어디 누구 무엇 어떤 어제 오늘
내일 최근 지금 아까 나중 전에 제발 부탁
"""

_JAPANESE = """
これ それ あれ この その あの ここ そこ あそこ する した して です ます いる ある なる できる の
こと もの ため そして しかし また でも から まで より だけ なぜ どう 何 いつ どこ 誰 どれ 昨日
今日 明日 最近 今 さっき 前 後
"""

_CHINESE = """
我 我们 你 你们 他 她 它 他们 这 那 这个 那个 这些 那些 的 了 着 过 得 地 吗 呢 吧 啊 呀 嘛 啦
是 有 在 被 把 给 让 用 到 去 来 做 说 看 找 想 要 能 会 可以 和 与 或 但 但是 因为 所以 如果
虽然 而 也 都 就 还 又 再 才 只 之前 以前 之后 以后 刚才 现在 昨天 今天 明天 最近 东西 事情 事
什么 哪个 哪些 怎么 为什么 多少 请 帮 帮忙 告诉
"""

KOREAN = frozenset(_KOREAN.split())

STOP_WORDS = frozenset(
    word
    for language in (_ENGLISH, _SPANISH, _PORTUGUESE, _ARABIC, _KOREAN, _JAPANESE, _CHINESE)
    for word in language.split()
)

_PARTICLES = """
에서 으로 에게 한테 처럼 같이 보다 까지 부터 마다 밖에 대로
은 는 이 가 을 를 의 에 로 와 과 도 만
"""

KOREAN_PARTICLES = tuple(_PARTICLES.split())
"""What is taken off the end of a Korean word, longest first."""


_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u4e00-\u9fff]")
_HAN_ONLY = re.compile("[\u4e00-\u9fff]+")
_JAPANESE_PART = re.compile("[a-z0-9_]+|[\u30a0-\u30ffー]+|[\u4e00-\u9fff]+|[\u3040-\u309f]{2,}")
_HANGUL = re.compile("[\uac00-\ud7af\u3131-\u3163]")
_SYLLABLE = re.compile("[\uac00-\ud7af]")
_ASCII_WORD = re.compile("[a-z0-9_]+", re.IGNORECASE | re.ASCII)
_ASCII_LETTERS = re.compile("[a-zA-Z]+")
_ASCII_DIGITS = re.compile("[0-9]+")
_SHORTEST_WORD = 3


def extract_keywords(query: str, *, trigram: bool) -> list[str]:
    """The keywords of a query, lower case, each once, in order.

    Kana is taken run by run, Han as characters and adjacent pairs (under the trigram tokenizer as
    one block), Hangul as the word and its stem without the longest trailing particle. Stop words
    of seven languages, ASCII words of one or two letters, plain numbers and symbols are left out.
    """
    seen: dict[str, None] = {}
    for segment in _segments(trim(query).lower()):
        for token in _tokens_of(segment, trigram):
            if token not in STOP_WORDS and _is_useful(token):
                seen.setdefault(token)
    return list(seen)


def _segments(text: str) -> list[str]:
    """Split at white space and punctuation; symbols stay."""
    spaced = "".join(" " if is_space(char) or _is_punctuation(char) else char for char in text)
    return [segment for segment in spaced.split(" ") if segment]


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _tokens_of(segment: str, trigram: bool) -> list[str]:
    if _KANA.search(segment):
        return _japanese(segment, trigram)
    if _HAN.search(segment):
        characters = _HAN.findall(segment)
        return ["".join(characters)] if trigram else [*characters, *_pairs(characters)]
    if _HANGUL.search(segment):
        return _korean(segment)
    return [segment]


def _japanese(segment: str, trigram: bool) -> list[str]:
    found: list[str] = []
    for part in _JAPANESE_PART.findall(segment):
        found.append(part)
        if not trigram and _HAN_ONLY.fullmatch(part):
            found += _pairs(part)
    return found


def _korean(segment: str) -> list[str]:
    stem = _korean_stem(segment)
    found: list[str] = []
    if segment not in KOREAN and (stem is None or stem not in KOREAN):
        found.append(segment)
    if stem and stem not in KOREAN and _is_useful_stem(stem):
        found.append(stem)
    return found


def _korean_stem(segment: str) -> str | None:
    for particle in KOREAN_PARTICLES:
        if len(segment) > len(particle) and segment.endswith(particle):
            return segment[: -len(particle)]
    return None


def _is_useful_stem(stem: str) -> bool:
    if _SYLLABLE.search(stem):
        return len(stem) >= 2
    return _ASCII_WORD.fullmatch(stem) is not None


def _pairs(characters: str | list[str]) -> list[str]:
    return [first + second for first, second in pairwise(characters)]


def _is_useful(token: str) -> bool:
    if _ASCII_LETTERS.fullmatch(token):
        return len(token) >= _SHORTEST_WORD
    if _ASCII_DIGITS.fullmatch(token):
        return False
    return any(unicodedata.category(character)[0] not in "PS" for character in token)

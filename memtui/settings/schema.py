"""The settings: their keys, types, ranges and defaults, and rankings as keys.

`memtui/data/config.toml` explains each key: it is the sample configuration.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import EnumMeta
from functools import cache, reduce
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args, get_origin

from msgspec import Meta, Struct, convert, field
from msgspec.structs import fields, replace

from memtui.data import DATA_FOLDER, read_table
from memtui.errors import SettingsError
from memtui.model import FEATURES, HIGHEST_MINIMUM, Fusion, Ranking, value_at, with_value
from memtui.ranking.profiles import PROFILES as BUILT_IN
from memtui.settings.actions import ACTION_IDS, ACTIONS
from memtui.settings.containment import stays_inside
from memtui.settings.shown import KEY_VARIABLE, shown_value
from memtui.settings.toml import key_parts, toml_key, toml_value

ProfileName = Literal[
    "memtui", "openclaw-2026.2", "openclaw-2026.4", "openclaw-2026.7", "openclaw-2026.9", "memini"
]
DECAY_FLOORS: Final = {"documented": 0.0, "gentle": 0.8}
WEIGHTS: Final = ("vector_weight", "keyword_weight")
NO_MINIMUM: Final = "off"
OWN_WEIGHT: Final = "auto"
"""Of a feature of passages: the weight for what the index holds."""
KEYMAP: Final = "keymap"
PROFILES: Final = "profiles"
RANKING: Final = "ranking"
NAME_RULE: Final = "a-z, 0-9, `.`, `_` and `-`, first a letter or digit, at most 64"
LONGEST_SHOWN: Final = 80
MOST_DIMENSIONS: Final = 16384
"""A vector of more numbers is taken for a wrong answer; real models give at most 4,096."""

_TABLE: Final = read_table("settings.toml")
PROVIDERS: Final[dict[str, str]] = _TABLE["providers"]
"""By name, the module whose `REGISTRATIONS` has the provider, and which is loaded for it."""
OF_ONE_PROVIDER: Final = tuple(_TABLE["of_one_provider"])
"""The keys of `[embedding]` that mean one provider and are not handed on to another."""
_Share = Annotated[float, Meta(ge=0, le=1)]
_Text = Annotated[str, Meta(max_length=4096)]
_Prefix = Annotated[str, Meta(max_length=1000)]
_Seconds = Annotated[float, Meta(gt=0, le=3600)]
_IgnoredName = Annotated[str, Meta(**_TABLE["text"]["ignored_name"])]
_Address = Annotated[str, Meta(**_TABLE["text"]["address"])]
_Variable = Annotated[str, Meta(**_TABLE["text"]["variable"])]
_TranscriptSource = Annotated[str, Meta(**_TABLE["text"]["transcript_source"])]


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration; `parse` checks what a file has, the constructor does not."""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Check values by name; raises `msgspec.ValidationError`, a `ValueError`."""
        return convert(values, cls)


class MemorySettings(Table, frozen=True):
    """The parts of the memory beyond the folder itself."""

    extra_paths: tuple[str, ...] = ()
    ignore: tuple[_IgnoredName, ...] = tuple(_TABLE["ignore"])
    max_file_bytes: Annotated[int, Meta(ge=1, le=2**31)] = 64 * 2**20


class ChunkingSettings(Table, frozen=True):
    """The size of chunks; a change asks for a rebuild."""

    tokens: Annotated[int, Meta(ge=16, le=8192)] = 400
    overlap: Annotated[int, Meta(ge=0, le=4096)] = 80


class EmbeddingSettings(Table, frozen=True):
    """The provider of the vectors.

    Its `repr` names the provider and the model alone: an address or a command may hold a key.
    """

    provider: str = "auto"
    model: Annotated[str, Meta(max_length=256)] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=MOST_DIMENSIONS)] | None = None
    fallback: str = "minilm"
    allow_remote: bool = False
    allow_insecure: bool = False
    send_credentials: bool = False
    base_url: _Address | None = None
    key_env: _Variable | None = None
    key_command: _Text | None = None
    keyring: bool = True
    agent_keys: bool = True
    model_path: _Text | None = None
    threads: Annotated[int, Meta(ge=0, le=256)] = 0
    word_pieces: bool = True
    word_pieces_chunks: Annotated[int, Meta(ge=0, le=10**9)] = 50_000
    query_prefix: _Prefix | None = None
    document_prefix: _Prefix | None = None
    query_timeout: _Seconds = 60.0
    batch_timeout: _Seconds = 120.0
    concurrency: Annotated[int, Meta(ge=1, le=32)] = 4
    requests_per_minute: Annotated[int, Meta(ge=0, le=10**6)] = 0
    tokens_per_minute: Annotated[int, Meta(ge=0, le=10**9)] = 0
    ca_file: _Text | None = None
    batch: bool = False
    batch_minimum: Annotated[int, Meta(ge=1, le=10**7)] = 1000
    price: Annotated[float, Meta(ge=0, le=10**6)] | None = None

    def __repr__(self) -> str:
        return f"EmbeddingSettings(provider={self.provider!r}, model={self.model!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("provider", self.provider), ("model", self.model)]

    def unmet(self, provider: str) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield each key that asks a packaged provider for what it does not give, and why."""
        if provider == "auto" and not self.allow_remote and not self.model_path:
            provider = "minilm"
        row = read_table("packaged_models.toml").get(provider)
        if row and self.model not in (None, row["model"]):
            shown = f"{shown_value('embedding.model', self.model)!r:.80}"
            yield ("embedding.model",), f"must be {row['model']} for {provider}, not {shown}"
        if row and row["dimensions"][1:] and self.dimensions not in (None, *row["dimensions"]):
            rule = f"be one of {', '.join(map(str, row['dimensions']))} for {provider}"
            yield ("embedding.dimensions",), f"must {rule}, not {self.dimensions}"


class IndexSettings(Table, frozen=True):
    """The place of the index, and how it is kept up to date."""

    watch: bool = True
    debounce_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.5
    rescan_seconds: Annotated[float, Meta(ge=1, le=86400)] = 120.0
    data_dir: _Text | None = None
    cache_mb: Annotated[int, Meta(ge=1, le=10**6)] = 2048


class TranscriptSettings(Table, frozen=True):
    """Whose conversations are indexed beside the notes; none unless they are named."""

    sources: tuple[_TranscriptSource, ...] = ()
    paths: tuple[str, ...] = ()
    delta_bytes: Annotated[int, Meta(le=2**40)] = 100_000
    delta_messages: Annotated[int, Meta(le=10**9)] = 50
    debounce_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 5.0
    redaction: Literal["auto", "wide", "openclaw"] = "auto"
    """The credentials that the index has masked in OpenClaw's conversations.

    `auto`: exactly the release's list under a profile `openclaw-*`, else the wide one.
    """
    max_line_bytes: Annotated[int, Meta(ge=1024, le=2**30)] = 16 * 2**20


class MmrSettings(Table, frozen=True):
    """Maximal marginal relevance: fewer results that say the same."""

    enabled: bool | None = None
    lambda_: _Share | None = field(default=None, name="lambda")


class DecaySettings(Table, frozen=True):
    """Temporal decay: old notes count less."""

    enabled: bool | None = None
    preset: Literal["documented", "gentle"] | None = None
    half_life_days: Annotated[float, Meta(gt=0, le=36500)] | None = None
    floor: _Share | None = None


class RerankSettings(Table, frozen=True):
    """Composite rerank of relevance, recency and importance."""

    enabled: bool | None = None
    relevance: _Share | None = None
    recency: _Share | None = None
    importance: _Share | None = None


_Weight = Annotated[float, Meta(ge=-20, le=20)] | Literal["auto"]


class ContextSettings(Table, frozen=True):
    """Passages ranked in their context: the weights of what each and its neighbours hold."""

    enabled: bool | None = None
    chunk: _Weight | None = None
    keyword: _Weight | None = None
    cover: _Weight | None = None
    near_cover: _Weight | None = None
    two_away: _Weight | None = None
    word_pieces: _Weight | None = None
    near_word_pieces: _Weight | None = None
    reply: _Weight | None = None
    speaker: _Weight | None = None
    time: _Weight | None = None
    question: _Weight | None = None
    date: _Weight | None = None


_SWITCHES: Final[Mapping[str, str]] = _TABLE["switch"]
"""The key of `[ranking]` that asks for a stage."""


class RankingSettings(Table, frozen=True):
    """The ranking of results; what is not set comes from the profile."""

    profile: str = "memtui"
    k: Annotated[int, Meta(ge=1, le=200)] | None = None
    candidate_multiplier: Annotated[int, Meta(ge=1, le=50)] | None = None
    fusion: Fusion | None = None
    vector_weight: _Share | None = None
    keyword_weight: _Share | None = None
    rrf_k: Annotated[float, Meta(gt=0, le=10000)] | None = None
    dedup: bool | None = None
    min_score: Annotated[float, Meta(ge=0, le=HIGHEST_MINIMUM)] | Literal["off"] | None = None
    project_keys: tuple[str, ...] | None = None
    context: ContextSettings = ContextSettings()
    mmr: MmrSettings = MmrSettings()
    decay: DecaySettings = DecaySettings()
    rerank: RerankSettings = RerankSettings()

    def apply(self, base: Ranking) -> Ranking:
        """`base` with every value that is set; of a weight set alone the other is the rest to 1."""
        values = values_of(self)
        del values["profile"]
        for weight, other in (WEIGHTS, WEIGHTS[::-1]):
            if weight in values:
                values.setdefault(other, round(1.0 - values[weight], 10))
        if preset := values.pop("decay.preset", None):
            values.setdefault("decay.floor", DECAY_FLOORS[preset])
        return with_values(base, values)

    def without_effect(self, base: Ranking) -> tuple[str, ...]:
        """The keys that ask something of stages that the profile does not have."""
        lost = {key.split(".")[0] for stage, key in _SWITCHES.items() if stage not in base.stages}
        return tuple(
            key
            for key, one in values_of(self).items()
            if key.split(".")[0] in lost and one is not False and one not in ((), NO_MINIMUM)
        )


class ProfileSettings(RankingSettings, frozen=True):
    """A ranking with a name of its own; what is not set comes from the built-in it starts from."""

    profile: ProfileName = "memtui"


class UiSettings(Table, frozen=True):
    theme: Annotated[str, Meta(min_length=1, max_length=64)] = "auto"
    preview: Literal["auto", "right", "below", "off"] = "auto"
    glyphs: Literal["auto", "unicode", "ascii"] = "auto"
    mouse: bool = True
    history: bool = True

    def ascii_only(self, env: Mapping[str, str]) -> bool:
        """Tell whether all is drawn in ASCII: as it is set, or `auto`, for what a terminal says."""
        locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG")
        is_plain = env.get("TERM") in {"dumb", "linux"} or locale in {"C", "POSIX"}
        return is_plain if self.glyphs == "auto" else self.glyphs == "ascii"

    def is_light(self, env: Mapping[str, str]) -> bool:
        """Tell whether the theme is light: by its name, or `auto`, by `COLORFGBG` (not `15;0`)."""
        background = env.get("COLORFGBG", "").rpartition(";")[2]
        return background in {"7", "15"} if self.theme == "auto" else "light" in self.theme


class KeymapSettings(Table, frozen=True):
    """The keys of actions; `memtui help keys` lists the ids."""

    preset: Literal["default", "vim", "emacs"] = "default"
    bindings: dict[str, str] = {}


class Settings(Table, frozen=True):
    editor: _Text | None = None
    pager: _Text | None = None
    memory: MemorySettings = MemorySettings()
    chunking: ChunkingSettings = ChunkingSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    transcripts: TranscriptSettings = TranscriptSettings()
    ranking: RankingSettings = RankingSettings()
    profiles: dict[str, ProfileSettings] = {}
    ui: UiSettings = UiSettings()
    keymap: KeymapSettings = KeymapSettings()

    def named_rankings(self) -> dict[str, Ranking]:
        """Every ranking by its name: the built-in ones, then the own ones in the files' order."""
        own = {
            name: replace(profile.apply(BUILT_IN[profile.profile]), profile=name)
            for name, profile in self.profiles.items()
        }
        return {**BUILT_IN, **own}

    def base_ranking(self) -> Ranking:
        """The ranking of `ranking.profile`; raises `SettingsError` for an unknown name."""
        rankings = self.named_rankings()
        if self.ranking.profile not in rankings:
            raise SettingsError(f"no such profile: {self.ranking.profile}")
        return rankings[self.ranking.profile]

    def configured_ranking(self) -> Ranking:
        """The ranking in force: the named one with every key of `[ranking]` on top."""
        return self.ranking.apply(self.base_ranking())

    def unused(self, chosen: RankingSettings, ranking: Ranking) -> list[str]:
        """Say which keys of a ranking, and of the profile that it begins with, do nothing."""
        own = self.profiles.get(chosen.profile, chosen)
        keys = dict.fromkeys([*own.without_effect(ranking), *chosen.without_effect(ranking)])
        return [f"{key} has no effect: profile {ranking.profile} has no such stage" for key in keys]


_KINDS: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_BOUNDS: Final[Mapping[str, str]] = _TABLE["bounds"]
_LARGEST: Final = 10**80
"""A whole number beyond it is not written out in a message, which has 80 characters for it."""


class Leaf(Struct, frozen=True):
    """A key that holds a value: its dotted name, what it takes, and its default."""

    key: str
    type: Any
    default: Any

    @property
    def parts(self) -> list[Any]:
        """The annotation and everything that it is made of, but for single words."""
        annotations = [self.type]
        for annotation in annotations:
            if get_origin(annotation) is not Literal:
                annotations += get_args(annotation)
        return annotations

    @property
    def metas(self) -> list[Meta]:
        """The ranges and patterns of its values."""
        return [part for part in self.parts if isinstance(part, Meta)]

    @property
    def names(self) -> tuple[str, ...]:
        """The only values of a key that takes a provider; empty for any other key."""
        is_provider = self.key in {"embedding.provider", "embedding.fallback"}
        return ("auto", *PROVIDERS, "none") if is_provider else ()

    @property
    def is_list(self) -> bool:
        """True if it takes several values."""
        return any(get_origin(part) is tuple for part in self.parts)

    @property
    def rule(self) -> str:
        """The values, or each of a list, that it takes, in words that continue "must"."""
        if self.names:
            return f"be one of {', '.join(self.names)}"
        meta = next(iter(self.metas), Meta())
        if meta.description:
            return meta.description
        bounds = {name: getattr(meta, name) for name in _BOUNDS}
        limits = "".join(_BOUNDS[name].format(n) for name, n in bounds.items() if n is not None)
        words = [f"{name}{limits}" for kind, name in _KINDS.items() if kind in self.parts]
        for part in self.parts:
            choices = get_args(part) if get_origin(part) is Literal else ()
            choices = tuple(part) if isinstance(part, EnumMeta) else choices
            words += [f"{'' if words else 'one of '}{', '.join(choices)}"] if choices else []
        return f"be {' or '.join(words)}"

    def check(self, value: Any, *, strict: bool = True) -> Any:
        """Convert a value; raises `ValueError` that continues "KEY: " and tells no secret."""
        try:
            if isinstance(value, str):
                # An environment may have bytes that are no UTF-8.
                value.encode()
            converted = convert(value, self.type, strict=strict)
            if self.names and converted not in self.names:
                raise ValueError
            return converted
        except UnicodeEncodeError:
            rule = "be Unicode"
        except (ValueError, OverflowError, RecursionError):
            rule = self.rule
        if self.is_list:
            is_list = isinstance(value, list)
            raise ValueError(f"each must {rule}" if is_list else "must be a list")
        shown = type(value).__name__
        if isinstance(value, int) and abs(value) > _LARGEST:
            shown = "a number that large"
        elif isinstance(value, str | int | float):
            shown = repr(shown_value(self.key, value))[:80]
        # Whoever gives no name of a variable may have given the key itself.
        end = "" if self.key == KEY_VARIABLE else f", not {shown}"
        raise ValueError(f"must {rule}{end}")


@cache
def leaves() -> Mapping[str, Leaf]:
    """Return every key by its dotted name, but for bindings and the own profiles."""

    def below(table: type[Table], start: str) -> Iterator[Leaf]:
        for info in fields(table):
            key = f"{start}{info.encode_name}"
            if isinstance(info.default, Table):
                yield from below(type(info.default), f"{key}.")
            elif key not in {f"{KEYMAP}.bindings", PROFILES}:
                yield Leaf(key, info.type, info.default)

    return {leaf.key: leaf for leaf in below(Settings, "")}


@cache
def known_keys() -> Mapping[str, Leaf]:
    """Return every key that may be set outside of `[profiles]`, bindings included."""
    bindings = [f"{KEYMAP}.{id_}" for id_ in ACTION_IDS]
    return {**leaves(), **{key: Leaf(key, str, "") for key in bindings}}


@cache
def tables() -> frozenset[str]:
    """Return the dotted names of the tables."""
    parts = [key.split(".") for key in known_keys()]
    return frozenset(".".join(one[:n]) for one in parts for n in range(1, len(one))) | {PROFILES}


def key_of(path: Sequence[str]) -> str:
    """Return the dotted key of a path; only a profile's name is quoted: `profiles."fast.2".k`."""
    if path[0] == PROFILES and len(path) > 1:
        return ".".join((toml_key((PROFILES, path[1][:LONGEST_SHOWN])), *path[2:]))
    return ".".join(path)


def path_of(key: str) -> tuple[str, ...]:
    """Return the path of a key in a file; the name of a profile or an action is one part."""
    table, _, rest = key.partition(".")
    if table == KEYMAP and rest:
        return table, rest
    # Only a name in quotes takes a parser.
    return key_parts(key) if '"' in key else tuple(key.split("."))


def profile_key(name: str, key: str = "profile") -> str:
    """Return the dotted key of a key of an own profile; every profile has `profile`."""
    return key_of((PROFILES, name, key))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as the nested mapping that `Settings` is made of."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        *path, name = path_of(key)
        if path == [KEYMAP] and name != "preset":
            path.append("bindings")
        reduce(lambda table, part: table.setdefault(part, {}), path, result)[name] = value
    return result


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the known word most like `word`, else one of the same last part, else `None`."""
    word, choices = word[:200], sorted(names)
    ends = (name for name in choices if name.endswith(f".{word.rpartition('.')[2]}"))
    return next(iter([*difflib.get_close_matches(word, choices, n=1), *ends]), None)


def shown_name(name: str) -> str:
    """Return a profile's name to print: cut where it is too long, quotes for an empty one."""
    return name[:LONGEST_SHOWN] or '""'


def name_problem(name: str) -> str:
    """Return why an own profile cannot have this name; empty when it can."""
    if name in BUILT_IN:
        return "is built in: an own profile needs another name"
    is_name = re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name)
    return "" if is_name else f"cannot be a profile's name: {NAME_RULE}"


def nearest_profile(name: str, choices: Iterable[str]) -> str:
    """Return what to try instead of a name that is not known, as a phrase."""
    names = tuple(choices)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"one of {', '.join(names)}"


_NEEDS_TRUST: Final[Mapping[str, Callable[[Any, Path], bool]]] = {
    "any": lambda value, root: True,
    "set": lambda value, root: bool(value),
    "remote": lambda provider, root: provider not in _TABLE["local_providers"],
    "outside": lambda paths, root: not all(stays_inside(path, str(root)) for path in paths),
}


def protected_keys(values: Mapping[str, Any], root: Path) -> tuple[str, ...]:
    """Return the keys whose values a file of the root may set only with trust, in their order."""
    return tuple(
        key
        for key, which in _TABLE["protected"].items()
        if key in values and _NEEDS_TRUST[which](values[key], root)
    )


def sample_config() -> str:
    """Return a TOML document with every key as a comment: explanation, then `# key = default`."""
    text = (DATA_FOLDER / "config.toml").read_text("utf-8")
    for action in ACTIONS:
        keys = toml_value(",".join(action.keys))
        text += f"#{toml_value(action.id)} = {keys}  # {action.help}\n"
    return text


@cache
def key_abouts() -> Mapping[str, str]:
    """Return what the sample configuration says of each key: `ranking.mmr.lambda`."""
    text, abouts, table = (DATA_FOLDER / "config.toml").read_text("utf-8"), dict[str, str](), ""
    for lines in map(str.splitlines, text.split("\n\n")):
        if lines[0].startswith("["):
            table = f"{lines[0].strip('[]')}."
        else:
            key = next((line for line in lines if not line.startswith("# ")), "")
            abouts[table + key[1:].partition(" ")[0]] = lines[0][2:]
    return abouts


def values_of(ranking: Ranking | RankingSettings) -> dict[str, Any]:
    """Return the keys of `[ranking]` with the values that a ranking has, or that are set."""
    start = f"{RANKING}."
    keys = [key.removeprefix(start) for key in leaves() if key.startswith(start)]
    nothing: dict[str, str] = {}
    if isinstance(ranking, Ranking):
        keys.remove("decay.preset")
        nothing = {f"context.{name}": OWN_WEIGHT for name in FEATURES} | {"min_score": NO_MINIMUM}
    values = {key: value_at(ranking, key) for key in keys}
    values |= {key: none for key, none in nothing.items() if values[key] is None}
    return {key: value for key, value in values.items() if value is not None}


def with_values(ranking: Ranking, values: Mapping[str, Any]) -> Ranking:
    """Return a ranking with other values, by keys of `[ranking]`."""
    for key, value in values.items():
        ranking = with_value(ranking, key, None if value in (NO_MINIMUM, OWN_WEIGHT) else value)
    return ranking


def keys_for(ranking: Ranking, base: Ranking) -> dict[str, Any]:
    """Return the profile of `base` and the fewest keys that make a ranking of it, in their order.

    The vector weight stands alone where the keyword weight is the rest to 1. What no key can
    change is not compared: see `has_rules_of`.
    """
    values, there = values_of(ranking), values_of(base)
    changed = {key for key, value in values.items() if value != there[key]} - {"profile"}
    if changed & set(WEIGHTS):
        is_rest = ranking.keyword_weight == round(1.0 - ranking.vector_weight, 10)
        changed = changed - set(WEIGHTS) | set(WEIGHTS[:1] if is_rest else WEIGHTS)
    keys = {key: value for key, value in values.items() if key in changed}
    return {"profile": base.profile, **keys}


def has_rules_of(ranking: Ranking, base: Ranking) -> bool:
    """Tell whether two rankings differ only in their names and in what `keys_for` returns."""
    return with_values(base, values_of(ranking)) == ranking


def base_of(ranking: Ranking) -> str:
    """Return the built-in profile whose rules a ranking has: its own, else the first that fits."""
    names = [name for name in dict.fromkeys((ranking.profile, *BUILT_IN)) if name in BUILT_IN]
    fitting = (name for name in names if has_rules_of(ranking, BUILT_IN[name]))
    return next(fitting, next(iter(BUILT_IN)))

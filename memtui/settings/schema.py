"""The settings: their types, ranges, defaults and one-line explanations."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, get_args

from msgspec import Meta, Struct, convert, field, structs

from memtui.errors import SettingsError
from memtui.model import Fusion, Ranking, Stage
from memtui.model.documents import DEFAULT_IGNORE

ProfileName = Literal[
    "memtui", "openclaw-2026.2", "openclaw-2026.4", "openclaw-2026.7", "openclaw-2026.9", "memini"
]
BUILT_IN: Final[tuple[str, ...]] = get_args(ProfileName)
"""The names of the profiles that come with memtui."""
DECAY_FLOORS: Final = {"documented": 0.0, "gentle": 0.8}

_Share = Annotated[float, Meta(ge=0, le=1)]
_Text = Annotated[str, Meta(max_length=4096)]
_Prefix = Annotated[str, Meta(max_length=1000)]
_Seconds = Annotated[float, Meta(gt=0, le=3600)]
_Provider = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\Z")]
_Address = Annotated[str, Meta(pattern=r"^https?://[^\s]+\Z", max_length=2048)]
_Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]
_TranscriptSource = Annotated[
    str, Meta(pattern=r"^(?:openclaw(?::[^:/\\\n]+)?|claude-code(?::[^:]+)?|codex)\Z")
]


def about(text: str) -> Meta:
    """Describe a key in one line, for the sample configuration."""
    return Meta(description=text)


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration; `parse` checks what a file has, the constructor does not."""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Check values by name; raises `msgspec.ValidationError`, a `ValueError`."""
        return convert(values, cls)


class MemorySettings(Table, frozen=True):
    """What belongs to the memory beyond the folder itself."""

    extra_paths: Annotated[
        tuple[str, ...], about("More files, folders or globs to index; ~ is your home folder.")
    ] = ()
    ignore: Annotated[
        tuple[str, ...], about("Names or globs of files and folders to leave out.")
    ] = DEFAULT_IGNORE
    max_file_bytes: Annotated[
        int, Meta(ge=1, le=2**31), about("Larger files are listed as skipped.")
    ] = 64 * 2**20


class ChunkingSettings(Table, frozen=True):
    """How files are cut into chunks; a change asks for a rebuild."""

    tokens: Annotated[
        int, Meta(ge=16, le=8192), about("Size of a chunk, in tokens (estimated).")
    ] = 400
    overlap: Annotated[
        int, Meta(ge=0, le=4096), about("Tokens that a chunk repeats from the one before it.")
    ] = 80


class EmbeddingSettings(Table, frozen=True):
    """Who makes the vectors.

    Its `repr` names the provider and the model alone: an address or a command may hold a key.
    """

    provider: Annotated[
        _Provider,
        about(
            "auto: the model that comes with memtui, unless allow_remote or model_path say "
            "otherwise; none: keyword search alone; `memtui providers` lists the others."
        ),
    ] = "auto"
    model: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        about("The provider's model; empty: the provider's default."),
    ] = None
    dimensions: Annotated[
        Annotated[int, Meta(ge=1, le=16384)] | None,
        about("Numbers a vector has, of models that can give fewer; empty: all."),
    ] = None
    fallback: Annotated[
        _Provider,
        about("The provider that takes over when the first one fails; none: none does."),
    ] = "minilm"
    allow_remote: Annotated[
        bool, about("Let auto choose a remote provider whose key is found.")
    ] = False
    base_url: Annotated[
        _Address | None, about("Address of a remote provider; empty: the provider's own.")
    ] = None
    key_env: Annotated[
        _Variable | None,
        about("Environment variable that holds the key; empty: the provider's own ones."),
    ] = None
    key_command: Annotated[_Text | None, about("Command that prints the key.")] = None
    keyring: Annotated[
        bool, about("Ask the system's keyring (service memtui), where the package keyring is.")
    ] = True
    agent_keys: Annotated[bool, about("Look for the key in an OpenClaw configuration, too.")] = True
    model_path: Annotated[_Text | None, about("The model file of the provider gguf.")] = None
    threads: Annotated[
        int, Meta(ge=0, le=256), about("CPU threads for a local model; 0: chosen by memtui.")
    ] = 0
    query_prefix: Annotated[
        _Prefix | None,
        about("Put before a query; empty: what the model wants, where that is known."),
    ] = None
    document_prefix: Annotated[
        _Prefix | None,
        about("Put before a chunk; empty: what the model wants, where that is known."),
    ] = None
    query_timeout: Annotated[_Seconds, about("Seconds to wait for the vector of a query.")] = 60.0
    batch_timeout: Annotated[_Seconds, about("Seconds to wait for the vectors of chunks.")] = 120.0
    concurrency: Annotated[
        int, Meta(ge=1, le=32), about("Requests to a remote provider at the same time.")
    ] = 4
    requests_per_minute: Annotated[
        int, Meta(ge=0, le=10**6), about("Most requests a minute; 0: learned from answers.")
    ] = 0
    tokens_per_minute: Annotated[
        int, Meta(ge=0, le=10**9), about("Most tokens a minute; 0: learned from answers.")
    ] = 0
    ca_file: Annotated[_Text | None, about("Certificates (PEM) to trust besides the usual.")] = None
    batch: Annotated[
        bool, about("Use the provider's batch interface for large indexes: cheaper, slower.")
    ] = False
    batch_minimum: Annotated[
        int, Meta(ge=1, le=10**7), about("Chunks from which on a batch is worth it.")
    ] = 1000
    price: Annotated[
        Annotated[float, Meta(ge=0, le=10**6)] | None,
        about("Price of a million tokens; empty: the provider's list price, where known."),
    ] = None

    def __repr__(self) -> str:
        return f"EmbeddingSettings(provider={self.provider!r}, model={self.model!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("provider", self.provider), ("model", self.model)]


class IndexSettings(Table, frozen=True):
    """How the index is kept up to date, and where."""

    watch: Annotated[bool, about("Follow changes of the files while memtui is open.")] = True
    debounce_seconds: Annotated[
        float, Meta(ge=0.05, le=60), about("Quiet time after a change before it is indexed.")
    ] = 1.5
    rescan_seconds: Annotated[
        float, Meta(ge=1, le=86400), about("Time between looks for changes that no event told of.")
    ] = 120.0
    data_dir: Annotated[
        _Text | None, about("Where indexes are kept; empty: the platform's folder.")
    ] = None
    cache_mb: Annotated[
        int,
        Meta(ge=1, le=10**6),
        about("Megabytes of kept vectors; those that the index uses are never dropped."),
    ] = 2048


class Redaction(StrEnum):
    """Which credentials the index has masked in OpenClaw's conversations."""

    AUTO = "auto"
    """As the configured profile: exactly the release's list under `openclaw-*`, else the wide."""
    WIDE = "wide"
    OPENCLAW = "openclaw"


class TranscriptSettings(Table, frozen=True):
    """Whose conversations are indexed beside the notes; none unless they are named."""

    sources: Annotated[
        tuple[_TranscriptSource, ...],
        about(
            "Conversations to index: openclaw, openclaw:AGENT, claude-code, "
            "claude-code:PROJECT (a glob) or codex. Credentials are masked; empty: none."
        ),
    ] = ()
    paths: Annotated[
        tuple[str, ...],
        about(
            "More transcripts: files, folders or globs; whose they are is told by what they hold."
        ),
    ] = ()
    delta_bytes: Annotated[
        int,
        Meta(le=2**40),
        about("Bytes by which a transcript grows before it is indexed again; 0: any."),
    ] = 100_000
    delta_messages: Annotated[
        int,
        Meta(le=10**9),
        about("Lines by which a transcript grows before it is indexed again; 0: any."),
    ] = 50
    debounce_seconds: Annotated[
        float, Meta(ge=0.1, le=3600), about("Time between two looks at the transcripts.")
    ] = 5.0
    redaction: Annotated[
        Redaction,
        about(
            "Credentials that the index masks in OpenClaw's conversations: wide, openclaw "
            "(what the release masks, no more), auto: openclaw with a ranking.profile openclaw-*. "
            "What is shown is always masked by the wide list."
        ),
    ] = Redaction.AUTO
    max_line_bytes: Annotated[
        int,
        Meta(ge=1024, le=2**30),
        about("Longer lines of a transcript are left out, and counted."),
    ] = 16 * 2**20


class MmrSettings(Table, frozen=True):
    """Maximal marginal relevance: fewer results that say the same."""

    enabled: Annotated[bool | None, about("Push down what repeats a better result.")] = None
    lambda_: Annotated[_Share | None, about("1: relevance alone, 0: variety alone.")] = field(
        default=None, name="lambda"
    )


class DecaySettings(Table, frozen=True):
    """Temporal decay: old notes count less."""

    enabled: Annotated[bool | None, about("Let old notes count less.")] = None
    preset: Annotated[
        Literal["documented", "gentle"] | None,
        about("documented: floor 0; gentle: floor 0.8. `floor` wins over it."),
    ] = None
    half_life_days: Annotated[
        Annotated[float, Meta(gt=0, le=36500)] | None,
        about("Age in days at which half of the decaying part is left."),
    ] = None
    floor: Annotated[_Share | None, about("The factor that no age falls below.")] = None


class RerankSettings(Table, frozen=True):
    """Composite rerank of relevance, recency and importance."""

    enabled: Annotated[bool | None, about("Blend relevance, recency and importance.")] = None
    relevance: Annotated[_Share | None, about("Weight of the fused score.")] = None
    recency: Annotated[_Share | None, about("Weight of the recency.")] = None
    importance: Annotated[_Share | None, about("Weight of the note's importance.")] = None


class RankingSettings(Table, frozen=True):
    """How results are ranked; what is not set comes from the profile."""

    profile: Annotated[
        str, about("The ranking that the other keys change: built in, or one of [profiles].")
    ] = "memtui"
    k: Annotated[
        Annotated[int, Meta(ge=1, le=200)] | None, about("How many results are shown.")
    ] = None
    candidate_multiplier: Annotated[
        Annotated[int, Meta(ge=1, le=50)] | None,
        about("Candidates of each leg = k times this, 50 to 200."),
    ] = None
    fusion: Annotated[Fusion | None, about("weighted_sum, relative_score or rrf.")] = None
    vector_weight: Annotated[
        _Share | None,
        about("Weight of the vector leg; alone, the keyword leg gets the rest to 1."),
    ] = None
    keyword_weight: Annotated[
        _Share | None,
        about("Weight of the keyword leg; alone, the vector leg gets the rest to 1."),
    ] = None
    rrf_k: Annotated[
        Annotated[float, Meta(gt=0, le=10000)] | None,
        about("Constant of reciprocal rank fusion."),
    ] = None
    dedup: Annotated[bool | None, about("Show a text that occurs twice only once.")] = None
    min_score: Annotated[
        _Share | Literal["off"] | None,
        about('Results below this score are not shown; "off": no minimum.'),
    ] = None
    project_keys: Annotated[
        tuple[str, ...] | None,
        about("Projects at work: in openclaw-2026.9 their notes count more, others' less."),
    ] = None
    mmr: MmrSettings = MmrSettings()
    decay: DecaySettings = DecaySettings()
    rerank: RerankSettings = RerankSettings()

    def apply(self, base: Ranking) -> Ranking:
        """`base`, normally the named profile, with every value that is set in its place.

        Of a weight that is set alone the other is the rest to 1.
        """
        vector, keyword, decay = self.vector_weight, self.keyword_weight, self.decay
        if vector is None and keyword is not None:
            vector = round(1.0 - keyword, 10)
        elif keyword is None and vector is not None:
            keyword = round(1.0 - vector, 10)
        if decay.floor is None and decay.preset is not None:
            decay = structs.replace(decay, floor=DECAY_FLOORS[decay.preset])
        values = structs.replace(self, vector_weight=vector, keyword_weight=keyword, decay=decay)
        changed: Ranking = _with(base, values)
        return replace(changed, min_score=None) if self.min_score == "off" else changed

    def without_effect(self, base: Ranking) -> tuple[str, ...]:
        """The stages that are asked for and that the profile does not have, as dotted keys."""
        switches = {
            Stage.MMR: ("ranking.mmr.enabled", self.mmr.enabled),
            Stage.DECAY: ("ranking.decay.enabled", self.decay.enabled),
            Stage.RERANK: ("ranking.rerank.enabled", self.rerank.enabled),
            Stage.DEDUP: ("ranking.dedup", self.dedup),
            Stage.PROJECT: ("ranking.project_keys", bool(self.project_keys)),
            Stage.MIN_SCORE: ("ranking.min_score", isinstance(self.min_score, float | int)),
        }
        return tuple(
            key for stage, (key, on) in switches.items() if on and stage not in base.stages
        )


def _with(base: Any, table: Table) -> Any:
    """`base`, and the parts of it that have tables of their own, with every value that is set."""
    values = {}
    for name in table.__struct_fields__:
        value = getattr(table, name)
        if isinstance(value, Table):
            values[name] = _with(getattr(base, name), value)
        elif value is not None and name not in {"profile", "preset"}:
            values[name] = value
    return replace(base, **values)


class ProfileSettings(RankingSettings, frozen=True):
    """A ranking with a name of its own; what is not set comes from the built-in it starts from."""

    profile: Annotated[ProfileName, about("The built-in profile that it starts from.")] = "memtui"


class UiSettings(Table, frozen=True):
    """How the terminal interface looks and behaves."""

    theme: Annotated[
        str,
        Meta(min_length=1, max_length=64),
        about("auto, memtui-dark, memtui-light, memtui-high-contrast or any Textual theme."),
    ] = "auto"
    preview: Annotated[
        Literal["auto", "right", "below", "off"],
        about("Where the source preview is: auto, right, below or off."),
    ] = "auto"
    glyphs: Annotated[
        Literal["unicode", "ascii"],
        about("unicode, or ascii for fonts without block characters."),
    ] = "unicode"
    mouse: Annotated[bool, about("React to the mouse.")] = True
    history: Annotated[bool, about("Remember queries, in the state folder.")] = True


class KeymapSettings(Table, frozen=True):
    """Which keys do what; `memtui help keys` lists the ids."""

    preset: Annotated[
        Literal["default", "vim", "emacs"],
        about("The keys that the other entries change: default, vim or emacs."),
    ] = "default"
    bindings: Annotated[
        dict[str, str], about("Keys per action id, separated by commas; empty: no key.")
    ] = {}


class Settings(Table, frozen=True):
    """Everything that can be configured."""

    editor: Annotated[
        _Text | None, about("Command that opens a file; empty: $VISUAL or $EDITOR.")
    ] = None
    pager: Annotated[_Text | None, about("Command that shows long help; empty: $PAGER.")] = None
    memory: MemorySettings = MemorySettings()
    chunking: ChunkingSettings = ChunkingSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    transcripts: TranscriptSettings = TranscriptSettings()
    ranking: RankingSettings = RankingSettings()
    profiles: Annotated[
        dict[str, ProfileSettings], about("Rankings with a name of their own, by name.")
    ] = {}
    ui: UiSettings = UiSettings()
    keymap: KeymapSettings = KeymapSettings()

    def named_rankings(self, built_in: Mapping[str, Ranking]) -> dict[str, Ranking]:
        """Every named ranking: those that are built in, then the own ones in the files' order.

        `Ranking.profile` of each is its name.
        """
        own = {
            name: replace(profile.apply(built_in[profile.profile]), profile=name)
            for name, profile in self.profiles.items()
        }
        return {**built_in, **own}

    def base_ranking(self, built_in: Mapping[str, Ranking]) -> Ranking:
        """The ranking of `ranking.profile`, which the other keys of `[ranking]` change.

        Raises `SettingsError` for a name that is not known; loading has refused those.
        """
        named = self.named_rankings(built_in)
        if self.ranking.profile not in named:
            raise SettingsError(f"no such profile: {self.ranking.profile}")
        return named[self.ranking.profile]

    def configured_ranking(self, built_in: Mapping[str, Ranking]) -> Ranking:
        """The ranking in force: the named one with every key of `[ranking]` on top."""
        return self.ranking.apply(self.base_ranking(built_in))

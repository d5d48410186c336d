"""The settings of the embedding provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeVar, get_args

from memtui.errors import SettingsError
from memtui.model import Decay, Fusion, Mmr, Ranking, Rerank, Stage
from memtui.model.documents import DEFAULT_IGNORE
from memtui.settings.section import Field, Section

_PROVIDER: Final = r"^[a-z0-9][a-z0-9_-]{0,63}$"


class EmbeddingSettings(Section):
    """Who makes the vectors."""

    provider: str = Field(
        default="auto",
        pattern=_PROVIDER,
        description="auto: the model that comes with memtui, unless allow_remote or model_path say "
        "otherwise; none: keyword search alone; `memtui providers` lists the others.",
    )
    model: str | None = Field(
        default=None,
        max_length=256,
        description="The provider's model; empty: the provider's default.",
    )
    dimensions: int | None = Field(
        default=None,
        ge=1,
        le=16384,
        description="Numbers a vector has, of models that can give fewer; empty: all.",
    )
    fallback: str = Field(
        default="minilm",
        pattern=_PROVIDER,
        description="The provider that takes over when the first one fails; none: none does.",
    )
    allow_remote: bool = Field(
        default=False, description="Let auto choose a remote provider whose key is found."
    )
    base_url: str | None = Field(
        default=None,
        max_length=2048,
        pattern=r"^https?://[^\s]+$",
        description="Address of a remote provider; empty: the provider's own.",
    )
    key_env: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
        description="Environment variable that holds the key; empty: the provider's own ones.",
    )
    key_command: str | None = Field(
        default=None, max_length=4096, description="Command that prints the key."
    )
    keyring: bool = Field(
        default=True,
        description="Ask the system's keyring (service memtui), where the package keyring is.",
    )
    agent_keys: bool = Field(
        default=True, description="Look for the key in an OpenClaw configuration, too."
    )
    model_path: str | None = Field(
        default=None, max_length=4096, description="The model file of the provider gguf."
    )
    threads: int = Field(
        default=0,
        ge=0,
        le=256,
        description="CPU threads for a local model; 0: chosen by memtui.",
    )
    query_prefix: str | None = Field(
        default=None,
        max_length=1000,
        description="Put before a query; empty: what the model wants, where that is known.",
    )
    document_prefix: str | None = Field(
        default=None,
        max_length=1000,
        description="Put before a chunk; empty: what the model wants, where that is known.",
    )
    query_timeout: float = Field(
        default=60.0, gt=0, le=3600, description="Seconds to wait for the vector of a query."
    )
    batch_timeout: float = Field(
        default=120.0, gt=0, le=3600, description="Seconds to wait for the vectors of chunks."
    )
    concurrency: int = Field(
        default=4, ge=1, le=32, description="Requests to a remote provider at the same time."
    )
    requests_per_minute: int = Field(
        default=0, ge=0, le=10**6, description="Most requests a minute; 0: learned from answers."
    )
    tokens_per_minute: int = Field(
        default=0, ge=0, le=10**9, description="Most tokens a minute; 0: learned from answers."
    )
    ca_file: str | None = Field(
        default=None, max_length=4096, description="Certificates (PEM) to trust besides the usual."
    )
    batch: bool = Field(
        default=False,
        description="Use the provider's batch interface for large indexes: cheaper, slower.",
    )
    batch_minimum: int = Field(
        default=1000, ge=1, le=10**7, description="Chunks from which on a batch is worth it."
    )
    price: float | None = Field(
        default=None,
        ge=0,
        le=10**6,
        description="Price of a million tokens; empty: the provider's list price, where known.",
    )


SOURCES_KEY: Final = "transcripts.sources"
SOURCES_ARE: Final = (
    "each must be openclaw, openclaw:AGENT, claude-code, claude-code:PROJECT or codex; files and "
    "folders belong to transcripts.paths"
)
"""What a source that is none of these is told."""


class Redaction(StrEnum):
    """Which credentials the index has masked in OpenClaw's conversations."""

    AUTO = "auto"
    """As the configured profile: exactly the release's list under `openclaw-*`, else the wide."""
    WIDE = "wide"
    OPENCLAW = "openclaw"


_SOURCE: Final = r"^(?:openclaw(?::[^:/\\]+)?|claude-code(?::[^:]+)?|codex)$"


class TranscriptSettings(Section):
    """Whose conversations are indexed beside the notes; none unless they are named."""

    sources: Annotated[tuple[Annotated[str, Field(pattern=_SOURCE)], ...], Field(strict=False)] = (
        Field(
            default=(),
            description="Conversations to index: openclaw, openclaw:AGENT, claude-code, "
            "claude-code:PROJECT (a glob) or codex. Credentials are masked; empty: none.",
        )
    )
    paths: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description="More transcripts: files, folders or globs; whose they are is told by what "
        "they hold.",
    )
    delta_bytes: int = Field(
        default=100_000,
        le=2**40,
        description="Bytes by which a transcript grows before it is indexed again; 0: any.",
    )
    delta_messages: int = Field(
        default=50,
        le=10**9,
        description="Lines by which a transcript grows before it is indexed again; 0: any.",
    )
    debounce_seconds: float = Field(
        default=5.0, ge=0.1, le=3600, description="Time between two looks at the transcripts."
    )
    redaction: Redaction = Field(
        default=Redaction.AUTO,
        strict=False,
        description="Credentials that the index masks in OpenClaw's conversations: wide, openclaw "
        "(what the release masks, no more), auto: openclaw with a ranking.profile openclaw-*. "
        "What is shown is always masked by the wide list.",
    )
    max_line_bytes: int = Field(
        default=16 * 2**20,
        ge=1024,
        le=2**30,
        description="Longer lines of a transcript are left out, and counted.",
    )


ProfileName = Literal[
    "memtui", "openclaw-2026.2", "openclaw-2026.4", "openclaw-2026.7", "openclaw-2026.9", "memini"
]
BUILT_IN: Final[tuple[str, ...]] = get_args(ProfileName)
"""The names of the profiles that come with memtui."""

_T = TypeVar("_T")
_Strings = Annotated[tuple[str, ...], Field(strict=False)]
_Weight = Annotated[float, Field(ge=0, le=1)]


class MemorySettings(Section):
    """What belongs to the memory beyond the folder itself."""

    extra_paths: _Strings = Field(
        default=(), description="More files, folders or globs to index; ~ is your home folder."
    )
    ignore: _Strings = Field(
        default=DEFAULT_IGNORE, description="Names or globs of files and folders to leave out."
    )
    max_file_bytes: int = Field(
        default=64 * 2**20, ge=1, le=2**31, description="Larger files are listed as skipped."
    )


class ChunkingSettings(Section):
    """How files are cut into chunks; a change asks for a rebuild."""

    tokens: int = Field(
        default=400, ge=16, le=8192, description="Size of a chunk, in tokens (estimated)."
    )
    overlap: int = Field(
        default=80, ge=0, le=4096, description="Tokens that a chunk repeats from the one before it."
    )


class IndexSettings(Section):
    """How the index is kept up to date, and where."""

    watch: bool = Field(
        default=True, description="Follow changes of the files while memtui is open."
    )
    debounce_seconds: float = Field(
        default=1.5, ge=0.05, le=60, description="Quiet time after a change before it is indexed."
    )
    rescan_seconds: float = Field(
        default=120.0,
        ge=1,
        le=86400,
        description="Time between looks for changes that no event told of.",
    )
    data_dir: str | None = Field(
        default=None,
        max_length=4096,
        description="Where indexes are kept; empty: the platform's folder.",
    )
    cache_mb: int = Field(
        default=2048,
        ge=1,
        le=10**6,
        description="Megabytes of kept vectors; those that the index uses are never dropped.",
    )


class MmrSettings(Section):
    """Maximal marginal relevance: fewer results that say the same."""

    enabled: bool | None = Field(
        default=None, description="Push down what repeats a better result."
    )
    lambda_: _Weight | None = Field(
        default=None, name="lambda", description="1: relevance alone, 0: variety alone."
    )


class DecaySettings(Section):
    """Temporal decay: old notes count less."""

    enabled: bool | None = Field(default=None, description="Let old notes count less.")
    preset: Literal["documented", "gentle"] | None = Field(
        default=None, description="documented: floor 0; gentle: floor 0.8. `floor` wins over it."
    )
    half_life_days: float | None = Field(
        default=None,
        gt=0,
        le=36500,
        description="Age in days at which half of the decaying part is left.",
    )
    floor: _Weight | None = Field(default=None, description="The factor that no age falls below.")


class RerankSettings(Section):
    """Composite rerank of relevance, recency and importance."""

    enabled: bool | None = Field(
        default=None, description="Blend relevance, recency and importance."
    )
    relevance: _Weight | None = Field(default=None, description="Weight of the fused score.")
    recency: _Weight | None = Field(default=None, description="Weight of the recency.")
    importance: _Weight | None = Field(default=None, description="Weight of the note's importance.")


DECAY_FLOORS: Final = {"documented": 0.0, "gentle": 0.8}


class RankingSettings(Section):
    """How results are ranked; what is not set comes from the profile."""

    profile: str = Field(
        default="memtui",
        description="The ranking that the other keys change: built in, or one of [profiles].",
    )
    k: int | None = Field(default=None, ge=1, le=200, description="How many results are shown.")
    candidate_multiplier: int | None = Field(
        default=None, ge=1, le=50, description="Candidates of each leg = k times this, 50 to 200."
    )
    fusion: Annotated[Fusion, Field(strict=False)] | None = Field(
        default=None, description="weighted_sum, relative_score or rrf."
    )
    vector_weight: _Weight | None = Field(
        default=None,
        description="Weight of the vector leg; alone, the keyword leg gets the rest to 1.",
    )
    keyword_weight: _Weight | None = Field(
        default=None,
        description="Weight of the keyword leg; alone, the vector leg gets the rest to 1.",
    )
    rrf_k: float | None = Field(
        default=None, gt=0, le=10000, description="Constant of reciprocal rank fusion."
    )
    dedup: bool | None = Field(default=None, description="Show a text that occurs twice only once.")
    min_score: _Weight | Literal["off"] | None = Field(
        default=None,
        description='Results below this score are not shown; "off": no minimum.',
    )
    project_keys: _Strings | None = Field(
        default=None,
        description="Projects at work: in openclaw-2026.9 their notes count more, others' less.",
    )
    mmr: MmrSettings = MmrSettings()
    decay: DecaySettings = DecaySettings()
    rerank: RerankSettings = RerankSettings()

    def apply(self, base: Ranking) -> Ranking:
        """`base`, normally the named profile, with every value that is set in its place."""
        vector, keyword = self._weights(base)
        return replace(
            base,
            k=_chosen(self.k, base.k),
            candidate_multiplier=_chosen(self.candidate_multiplier, base.candidate_multiplier),
            fusion=_chosen(self.fusion, base.fusion),
            vector_weight=vector,
            keyword_weight=keyword,
            rrf_k=_chosen(self.rrf_k, base.rrf_k),
            dedup=_chosen(self.dedup, base.dedup),
            project_keys=_chosen(self.project_keys, base.project_keys),
            min_score=self._minimum(base.min_score),
            mmr=self._mmr(base.mmr),
            decay=self._decay(base.decay),
            rerank=self._rerank(base.rerank),
        )

    def without_effect(self, base: Ranking) -> tuple[str, ...]:
        """The stages that are asked for and that the profile does not have, as dotted keys."""
        asked = {
            Stage.MMR: ("ranking.mmr.enabled", self.mmr.enabled),
            Stage.DECAY: ("ranking.decay.enabled", self.decay.enabled),
            Stage.RERANK: ("ranking.rerank.enabled", self.rerank.enabled),
            Stage.DEDUP: ("ranking.dedup", self.dedup),
            Stage.PROJECT: ("ranking.project_keys", bool(self.project_keys)),
            Stage.MIN_SCORE: ("ranking.min_score", isinstance(self.min_score, float | int)),
        }
        return tuple(key for stage, (key, on) in asked.items() if on and stage not in base.stages)

    def _minimum(self, base: float | None) -> float | None:
        if isinstance(self.min_score, str):
            return None
        return _chosen(self.min_score, base)

    def _weights(self, base: Ranking) -> tuple[float, float]:
        vector, keyword = self.vector_weight, self.keyword_weight
        if vector is None and keyword is None:
            return base.vector_weight, base.keyword_weight
        if keyword is None and vector is not None:
            return vector, round(1.0 - vector, 10)
        if vector is None and keyword is not None:
            return round(1.0 - keyword, 10), keyword
        return _chosen(vector, base.vector_weight), _chosen(keyword, base.keyword_weight)

    def _mmr(self, base: Mmr) -> Mmr:
        return replace(
            base,
            enabled=_chosen(self.mmr.enabled, base.enabled),
            lambda_=_chosen(self.mmr.lambda_, base.lambda_),
        )

    def _decay(self, base: Decay) -> Decay:
        preset = self.decay.preset
        floor = base.floor if preset is None else DECAY_FLOORS[preset]
        return replace(
            base,
            enabled=_chosen(self.decay.enabled, base.enabled),
            half_life_days=_chosen(self.decay.half_life_days, base.half_life_days),
            floor=_chosen(self.decay.floor, floor),
        )

    def _rerank(self, base: Rerank) -> Rerank:
        return replace(
            base,
            enabled=_chosen(self.rerank.enabled, base.enabled),
            relevance=_chosen(self.rerank.relevance, base.relevance),
            recency=_chosen(self.rerank.recency, base.recency),
            importance=_chosen(self.rerank.importance, base.importance),
        )


def _chosen(value: _T | None, otherwise: _T) -> _T:
    return otherwise if value is None else value


class ProfileSettings(RankingSettings):
    """A ranking with a name of its own; what is not set comes from the built-in it starts from."""

    profile: ProfileName = Field(
        default="memtui", description="The built-in profile that it starts from."
    )


class UiSettings(Section):
    """How the terminal interface looks and behaves."""

    theme: str = Field(
        default="auto",
        min_length=1,
        max_length=64,
        description="auto, memtui-dark, memtui-light, memtui-high-contrast or any Textual theme.",
    )
    preview: Literal["auto", "right", "below", "off"] = Field(
        default="auto", description="Where the source preview is: auto, right, below or off."
    )
    glyphs: Literal["unicode", "ascii"] = Field(
        default="unicode", description="unicode, or ascii for fonts without block characters."
    )
    mouse: bool = Field(default=True, description="React to the mouse.")
    history: bool = Field(default=True, description="Remember queries, in the state folder.")


class KeymapSettings(Section):
    """Which keys do what; `memtui help keys` lists the ids."""

    preset: Literal["default", "vim", "emacs"] = Field(
        default="default",
        description="The keys that the other entries change: default, vim or emacs.",
    )
    bindings: dict[str, str] = Field(
        default_factory=dict,
        description="Keys per action id, separated by commas; empty: no key.",
    )


class Settings(Section):
    """Everything that can be configured."""

    editor: str | None = Field(
        default=None,
        max_length=4096,
        description="Command that opens a file; empty: $VISUAL or $EDITOR.",
    )
    pager: str | None = Field(
        default=None, max_length=4096, description="Command that shows long help; empty: $PAGER."
    )
    memory: MemorySettings = MemorySettings()
    chunking: ChunkingSettings = ChunkingSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    transcripts: TranscriptSettings = TranscriptSettings()
    ranking: RankingSettings = RankingSettings()
    profiles: dict[str, ProfileSettings] = Field(
        default_factory=dict, description="Rankings with a name of their own, by name."
    )
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

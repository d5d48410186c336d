"""Settings: TOML files, environment and flags, typed, with the origin of every value."""

from memtui.model.documents import DEFAULT_IGNORE
from memtui.settings.files import (
    Problem,
    ProblemCode,
    SettingsProblems,
    data_dir,
    demo_data_dir,
    state_dir,
    user_config_file,
)
from memtui.settings.load import Flag, Given, Loaded, Origin, Source, check_settings, load_settings
from memtui.settings.schema import (
    ChunkingSettings,
    DecaySettings,
    EmbeddingSettings,
    IndexSettings,
    KeymapSettings,
    MemorySettings,
    MmrSettings,
    RankingSettings,
    RerankSettings,
    Settings,
    UiSettings,
)
from memtui.settings.storage import StateFolder

__all__ = [
    "DEFAULT_IGNORE",
    "ChunkingSettings",
    "DecaySettings",
    "EmbeddingSettings",
    "Flag",
    "Given",
    "IndexSettings",
    "KeymapSettings",
    "Loaded",
    "MemorySettings",
    "MmrSettings",
    "Origin",
    "Problem",
    "ProblemCode",
    "RankingSettings",
    "RerankSettings",
    "Settings",
    "SettingsProblems",
    "Source",
    "StateFolder",
    "UiSettings",
    "check_settings",
    "data_dir",
    "demo_data_dir",
    "load_settings",
    "state_dir",
    "user_config_file",
]

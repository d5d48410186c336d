"""Settings: TOML files, environment and flags, typed, with the origin of every value."""

from memtui.model.documents import DEFAULT_IGNORE
from memtui.settings.embedding import EmbeddingSettings
from memtui.settings.layers import Flag, Source
from memtui.settings.load import Given, Loaded, Origin, check_settings, load_settings
from memtui.settings.places import data_dir, demo_data_dir, state_dir, user_config_file
from memtui.settings.problems import Problem, ProblemCode, SettingsProblems
from memtui.settings.schema import (
    ChunkingSettings,
    DecaySettings,
    IndexSettings,
    KeymapSettings,
    MemorySettings,
    MmrSettings,
    RankingSettings,
    RerankSettings,
    Settings,
    UiSettings,
)
from memtui.settings.state import StateFolder

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

"""Settings: TOML files, environment and flags, typed, with the origin of every value."""

from memtui.settings.files import (
    Problem,
    ProblemCode,
    SettingsProblems,
    data_dir,
    demo_data_dir,
    state_dir,
    user_config_file,
)
from memtui.settings.load import Flag, Loaded, Origin, Source, check_settings, load_settings
from memtui.settings.schema import (
    ChunkingSettings,
    EmbeddingSettings,
    IndexSettings,
    MemorySettings,
    RankingSettings,
    Settings,
)
from memtui.settings.storage import StateFolder

__all__ = [
    "ChunkingSettings",
    "EmbeddingSettings",
    "Flag",
    "IndexSettings",
    "Loaded",
    "MemorySettings",
    "Origin",
    "Problem",
    "ProblemCode",
    "RankingSettings",
    "Settings",
    "SettingsProblems",
    "Source",
    "StateFolder",
    "check_settings",
    "data_dir",
    "demo_data_dir",
    "load_settings",
    "state_dir",
    "user_config_file",
]

"""OpenClaw's configuration: read, translated into memtui's settings, and written as a fragment."""

from memtui.settings.openclaw.convert import Conversion, to_settings
from memtui.settings.openclaw.effective import (
    RELEASES,
    Effective,
    Release,
    effective,
    known_release,
    layout_of,
    release_of,
    release_of_version,
)
from memtui.settings.openclaw.fragment import Fragment, fragment
from memtui.settings.openclaw.identity import expected_identity, provider_key, scope_hash
from memtui.settings.openclaw.places import config_candidates, config_file, state_dir_of
from memtui.settings.openclaw.read import agent_id, read_config
from memtui.settings.openclaw.schema import (
    NEW_LAYOUT,
    OLD_LAYOUT,
    AgentConfig,
    Layout,
    MemorySearchConfig,
    OpenClawConfig,
)
from memtui.settings.openclaw.values import candidate_count, normalised_weights

__all__ = [
    "NEW_LAYOUT",
    "OLD_LAYOUT",
    "RELEASES",
    "AgentConfig",
    "Conversion",
    "Effective",
    "Fragment",
    "Layout",
    "MemorySearchConfig",
    "OpenClawConfig",
    "Release",
    "agent_id",
    "candidate_count",
    "config_candidates",
    "config_file",
    "effective",
    "expected_identity",
    "fragment",
    "known_release",
    "layout_of",
    "normalised_weights",
    "provider_key",
    "read_config",
    "release_of",
    "release_of_version",
    "scope_hash",
    "state_dir_of",
    "to_settings",
]

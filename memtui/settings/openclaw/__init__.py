"""OpenClaw's configuration: read, translated into memtui's settings, and written as a fragment."""

from memtui.settings.openclaw.convert import Conversion, fragment, to_settings
from memtui.settings.openclaw.document import config_candidates, state_dir_of
from memtui.settings.openclaw.read import agent_id, read_config
from memtui.settings.openclaw.releases import (
    RELEASES,
    Release,
    effective,
    expected_identity,
    known_release,
    layout_of,
    provider_key,
    release_of,
    release_of_version,
    scope_hash,
)
from memtui.settings.openclaw.schema import (
    NEW_LAYOUT,
    OLD_LAYOUT,
    AgentConfig,
    Layout,
    MemorySearchConfig,
    OpenClawConfig,
    candidate_count,
    normalised_weights,
)

__all__ = [
    "NEW_LAYOUT",
    "OLD_LAYOUT",
    "RELEASES",
    "AgentConfig",
    "Conversion",
    "Layout",
    "MemorySearchConfig",
    "OpenClawConfig",
    "Release",
    "agent_id",
    "candidate_count",
    "config_candidates",
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

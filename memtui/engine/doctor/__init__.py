"""What is configured, what is found, what answers, and what is wrong with it."""

from memtui.engine.doctor.checks import Area, Check, Grade, gravest
from memtui.engine.doctor.configured import Configured
from memtui.engine.doctor.examine import Examination, Surroundings, examine
from memtui.engine.doctor.providers import provider_listings

__all__ = [
    "Area",
    "Check",
    "Configured",
    "Examination",
    "Grade",
    "Surroundings",
    "examine",
    "gravest",
    "provider_listings",
]

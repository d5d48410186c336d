"""What is configured, what is found, what answers, and what is wrong with it."""

from memtui.engine.doctor.checks import Area, Check, Configured, Grade, gravest, provider_listings
from memtui.engine.doctor.examine import Examination, Surroundings, examine

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

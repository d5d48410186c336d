"""Writing which conversations are indexed into the settings: the difference is shown first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from memtui.model.conversations import TranscriptSource
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.write_base import WriteUserFile

if TYPE_CHECKING:
    from memtui.settings.write import Plan, SettingsFiles


class WriteTranscripts(WriteUserFile[bool]):
    """The difference of the user's settings file; Enter writes it. Returns whether it was."""

    CSS_PATH = "transcripts.tcss"
    PARTS = "write-transcripts"
    BOX_CLASS = "transcripts-box"
    BINDING_GROUP_TITLE = "Write the sources"
    BINDINGS: ClassVar[list[BindingType]] = bindings("write_file")

    already = "The settings name these sources already."

    def __init__(
        self,
        files: SettingsFiles,
        found: Sequence[TranscriptSource],
        chosen: Collection[str],
        glyphs: Glyphs,
    ) -> None:
        """Of the sources found, the settings are to opt in those whose names are `chosen`."""
        super().__init__(files, glyphs)
        self._found = tuple(found)
        self._chosen = tuple(source.name for source in found if source.name in chosen)

    def plan_of(self, asked: object) -> Plan:
        """The plan of the settings with the chosen sources."""
        from memtui.index.transcripts.scope import is_source
        from memtui.settings.write import names_for, opted_in, plan_transcripts

        named, _ = opted_in(self._files)
        places = [source.name for source in self._found if source.folder]
        sources = [name for name in self._chosen if is_source(name)]
        paths = [name for name in self._chosen if not is_source(name)]
        return plan_transcripts(self._files, names_for(named, places, sources), paths)

    def result_of(self, plan: Plan) -> bool:
        """That it is written."""
        return True

"""What `memtui help browse` and `memtui help care` say."""

from __future__ import annotations

from typing import Final

BROWSE: Final = """\
BROWSE

  memtui                               key 2 or b: the files, their chunks and days
  memtui chunk memory/home.md:12       the chunk at a line, from every side
  memtui chunk ID                      the same by its id, as `search --json` gives it
  memtui chunk PLACE --queries         and which queries of the history it answers
  memtui care                          what of the memory needs care (memtui help care)

CHUNK

  Terms as the keyword leg sees them, stemmed, with how many chunks have each; the vector's length
  and who made it; the date that its age is counted from, and where that is from.
  Nearest by vector: the cosine with every vector of the same model. Nearest by words: the share of
  the terms that both have, a rare one weighing more: ln(1 + chunks / chunks that have it).
  Near-duplicates: at least 60 % of all runs of three words in common.
  Queries: each one of the history is asked now, with the ranking in force; -n does not change it.

FILTERS

  path:  source:  after:  before:      in the query; the same for the files on the browse screen
  --path --source --after --before     of `memtui search` and `memtui explain`: the same as those
"""

CARE: Final = """\
CARE

  memtui care                          everything that needs care, with the text it is like
  memtui care --rule broken_link       one rule; may be repeated
  memtui care --json                   for programs; credentials are masked there, too

Exits with 0 when nothing needs care and with 1 when something does. Nothing is written: what to do
is up to you, the terminal interface opens the place in your editor.

  near_duplicate  two chunks with at least 60 % of their runs of three words in common (80 % where
                  their numbers differ), and at least 8 words; not the overlap of neighbours
  unreachable     the first ten words of a note, as a query, do not bring it among the first k of
                  the ranking in force
  empty_file      no word but front matter and a title of at most six words
  long_file       above 100,000 characters; MEMORY.md and USER.md above 20,000, where agents cut
  dated_fact      a line that begins with a day, or says how something is since, as of or until a
                  day or month, up to today, in a note without a date: it never decays. Not in logs,
                  headings, code, tables, quotations, tasks; not births, purchases, papers
  broken_link     a link to a Markdown file, or [[wikilink]], to a note that is not there; not in
                  code or comments, no images, URLs, anchors or placeholders
  long_line       a line that no chunk can hold, so that it is cut inside; not in code, tables, nor
                  what is mostly one unbroken run, such as base64
  credential      what is shaped like a key, token or password; no placeholders and no examples

Each rule is right in at least nine of ten of its findings on the planted notes of its tests.
"""

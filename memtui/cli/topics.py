"""`memtui help TOPIC`: what does not fit into `--help`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import click

from memtui.cli.invocation import Invocation
from memtui.cli.topics_browse import BROWSE, CARE
from memtui.errors import MemtuiError

_EXIT_CODES = """\
EXIT CODES

  0    ok
  1    nothing found (search, explain, agents, sessions, replay; search takes --zero-ok, which
       makes that 0), or something failed; care: something needs care; verify: one query differs
  2    wrong usage or configuration, no memory folder
  3    no index yet, or one that cannot be used: `memtui index`; no such agent, or no index of it
  4    the embedding provider failed and nothing else could answer: search, when the keywords have
       nothing to search for either; index, when no fallback took over (the notes are indexed,
       their vectors are not)
  5    another process is writing to this index
  130  interrupted

`memtui doctor` exits with the code of the problem that has to be put right first, in the order
2 (settings, no memory folder), 3 (index), 4 (no provider answers), 5, 1 (anything else); what is
only worth knowing leaves it 0.

With --json every command prints one JSON document on stdout, also when it fails:
  {"schema_version": 1, "error": {"code": ..., "message": ..., "hint": ..., "exit_code": ...}}
Narration and progress go to stderr, progress only to a terminal.
"""

_AGENTS = """\
AGENTS

  memtui agents                        the OpenClaw agents of this machine and their indexes
  memtui --agent main                  open an agent's index in the terminal interface
  memtui --index FILE.sqlite           the same for a file; --root FOLDER names its workspace
  memtui status --agent main           what the index really holds against what it should hold
  memtui search --agent main QUERY     the results that the agent itself would get
  memtui explain --agent main QUERY    and every number behind one of them
  memtui verify --agent main --against FILE
                                       recorded answers of the agent's program, compared

An agent's index is only read: no byte and no time of its files changes. `memtui index` refuses.
--agent, --index and --demo exclude each other. Names come from $OPENCLAW_STATE_DIR, ~/.openclaw,
its profiles (~/.openclaw-NAME) and its older names.

RANKING

  The release that made the index decides how it is searched, the agent's configuration which
  numbers are used. memtui's own configuration changes nothing of it; options of the command line
  do. --profile openclaw-2026.4 searches as that release would, and so does a profile of your own
  that starts from it, with its own numbers; any other profile ranks what the index's own release
  finds.

VECTORS

  The vector of a query comes from the agent's own provider and model, else from the index's
  cache. Else vector search is "not reproducible here" and keywords alone are searched.
  --query-vectors FILE gives vectors: {"vectors": {"a query": [0.1, ...]}}, or one list of numbers.

STATUS

  The state, the identity field by field, files (stale, orphan, never indexed), models, coverage,
  leftovers and findings; --json has all of them. 0 when the index can be searched, 3 when not.
"""

_SEARCH = """\
SEARCH

  memtui search router vlan            any of the words; the best matches first
  memtui search '"vlan 30" router'     a text in quotes has to be there as it is
  memtui search 'dns path:network'     only files whose path has `network` (or fits a * pattern)
  memtui search 'dns source:memory'    only this source
  memtui search 'dns after:2026-01-01 before:2026-03-01'

A filter that makes no sense is named on stderr and left out; the rest is searched.
`search` never indexes: without an index it ends with exit code 3, with changed files it says so.
Only the demo (`--demo`, `memtui demo`) is indexed when needed, in a folder of its own.

OUTPUT

  rank, places moved since fusion, effective score, bar, path:line, age; then an excerpt.
  The bar: vector and keyword part of the score, then what MMR and decay took.

  --plain    sentences, for screen readers     --paths    files only, each once, best first
  --json     one document with everything      --jsonl    one document for each result
  --explain  the arithmetic below the results  --raw      control characters stay as they are

Text of notes is made safe for a terminal unless --raw is given. NO_COLOR turns colour off.
--now fixes the time that ages count from, so that a run can be repeated.
"""

_RANKING = """\
RANKING

  legs      keyword (BM25) and vector (cosine) each bring candidates
  fusion    one score: weighted_sum, relative_score (each leg scaled to 0..1) or rrf
  decay     x floor + (1 - floor) * 2^(-age / half-life); notes without a date keep their score
  rerank    relevance, recency and importance in one score
  dedup     a text that occurs twice is shown once
  minimum   results below min_score are left out
  MMR       - ((1 - lambda) / lambda) * span * similarity to what is above it
  cut       the first k are shown

Every stage can be turned on or off; a profile (--profile, ranking.profile) is a set of them:
memtui (default), openclaw-2026.2, -2026.4, -2026.7, -2026.9, memini, and those of your own.
`memtui profiles` lists them, `memtui help config` tells how to make one.
--lambda turns MMR on, --half-life and --floor turn decay on, unless --no-mmr or --no-decay is
given; `--min-score off` takes away the minimum of a profile.

WHY, AND WHY NOT

  memtui explain QUERY --rank 2         every number behind one result
  memtui explain QUERY --chunk PATH:12  a line, or a file when it is named alone, shown or not

The trace follows it: discovered, indexed, found by each leg, among the candidates of each leg, then
through the stages above. A leg that does not give it is `missed`; where it is `lost`, nothing
behind can bring it back. The line in bold is what cost it its place.
Least changes: of each parameter alone the nearest value that brings it in, ranked again before it
is offered, with the options that make it. The cost is the part of the parameter's range that is
crossed, in doublings for half-life and rrf_k; a switch costs 1.
Other words: the query without one of its words, or with words of the chunk; each was searched for,
at most 40 times (--no-words leaves them out).
--passages adds the sentences of the chunk nearest to the query, an illustration by the embedded
model. --format json, markdown or svg and --output FILE write the whole explanation.
"""

_CONFIG = """\
CONFIGURATION

  flag > $MEMTUI_* > .memtui.toml or [tool.memtui] of pyproject.toml in the memory folder
       > config.toml of the user > default; key by key

  memtui config init       write the user's file with every key and its default, as comments
  memtui config init --from-openclaw
                           write it with what OpenClaw's configuration says of an agent
  memtui config show       every value, where it comes from, what it overrode
  memtui config validate   everything that is wrong, with file, line and nearest key
  memtui config path       where the files are

PROFILES

  memtui profiles          the named rankings, what makes them, where they are from
  memtui profiles save recent-heavy --half-life 14 -n 8
                           give the ranking of the settings and the options a name
  memtui profiles show recent-heavy | ssh host memtui profiles add -
                           share one; `remove` takes it out again

A table [profiles.NAME] has the keys of [ranking]; its `profile` is the built-in one that it starts
from: own profiles do not start from one another, so each can be read and shared alone. They run
nothing and need no trust. A workspace's profile takes the place of yours of the same name, whole.
In the terminal interface P goes from one to the next and w saves the parameters on screen, as the
ranking of the settings or as a profile. Over an agent's index P offers the agent's own ranking and
your profiles: the rules of other releases would show a list that the agent never gets.

$MEMTUI_RANKING__MMR__LAMBDA=0.5 sets ranking.mmr.lambda; lists are separated by commas.
$MEMTUI_CONFIG names another file for the user, $MEMTUI_ROOT the memory folder.

A memory folder's own file may not set commands, endpoints or places outside the folder (editor,
pager, a remote embedding.provider or fallback, its base_url, key_env, key_command, model_path,
ca_file, allow_remote and batch, index.data_dir, transcripts.sources, memory.extra_paths and
transcripts.paths that leave the folder) before `memtui trust` has been run on it. Trust holds for
that content only.
"""


_PROVIDERS = """\
PROVIDERS

  memtui providers          every provider: state, model, dimensions, where text goes
  memtui doctor             what is configured and found, what is wrong, and the next step
  memtui doctor --probe     the same, and one word embedded by those that may be asked

A provider is "ready" when all it needs is on this machine. A service is "untried" until it is
asked: whether it answers, and takes the key, nobody can tell before.

  minilm            comes with memtui, on this machine; English
  use-multilingual  16 languages, wordllama: small and quick; packages with their weights
  gguf              a model file, embedding.model_path or the one that OpenClaw keeps
  openai            and every server that speaks its protocol, at embedding.base_url
  gemini, voyage, mistral, ollama

embedding.provider = "auto" is a model file that is configured, else the embedded model: no text
leaves this machine. A service is asked only when it is named, or when embedding.allow_remote lets
auto take the first one whose key is found. What is set for one provider (model, address, key,
dimensions, prefixes) is never handed to another.

WHEN ONE FAILS

embedding.fallback (minilm) takes over with its own model in an index of its own: vectors of two
models are never compared. The provider is asked again from time to time and taken back. "none"
means none: then keywords alone are searched. `memtui status` and every search say who answers,
and why.

KEYS

  embedding.key_env        the name of a variable that holds the key
  embedding.key_command    a command that prints it on its first line: "pass show openai"; it runs
                           without a shell and without input, for at most 10 s
  the keyring              of the system, service memtui, user openai (with the package keyring):
                           `keyring set memtui openai`
  the service's variables  OPENAI_API_KEY, GEMINI_API_KEY or GOOGLE_API_KEY, VOYAGE_API_KEY,
                           MISTRAL_API_KEY
  OpenClaw's configuration openclaw.json, .env and auth-profiles.json in its state folder

The first that holds one counts; where key_env or key_command is set, nothing else is looked at.
The first three are meant for embedding.base_url, whatever it is; the others go only to the
service's own host, or to this machine, or where OpenClaw's configuration sends them. No key is
kept in the settings, the index or a log, and none is ever shown. The file of a memory folder may
not name a service, an address, a key or a command before `memtui trust`.

COST

The cache keeps the vector of every text: a rebuild, or a switch back, costs nothing for text that
was embedded before. `memtui index --dry-run --force` tells what a rebuild would take, `memtui
index` what it took. embedding.batch = true uses a service's batch interface from
embedding.batch_minimum chunks on: cheaper, and it may take hours.
"""

_SESSIONS = """\
SESSIONS

  memtui                               key 3 or s: read them; O: sources; a: what the agent asked
  memtui sessions                      the conversations behind the memory, newest first
  memtui sessions 3f9a1c52             one of them, by (the beginning of) its id, path or file;
                                       --full: whole texts, and what tools were given and gave
  memtui sessions --coverage           every source: found, indexed, left out and why, by name
  memtui sessions enable openclaw      index the conversations of a source beside the notes
  memtui sessions disable openclaw     index them no longer
  memtui replay                        every search of the memory that they record, asked again
  memtui replay 3f9a1c52 --changed     those of one conversation that give something else now

Sources: openclaw (sessions of its agents, as files or in the agent's database), openclaw:AGENT,
claude-code, claude-code:PROJECT (a glob), codex, and paths of files, folders or globs, whose
program is told by what they hold. Looking reads them and indexes nothing.

WHAT IS INDEXED

Nothing before a source is opted in, by `enable`, `transcripts.sources` and `transcripts.paths`.
Then what you and the agent said: no tool output, no thinking, nothing that a program wrote in your
place. Credentials are masked before anything is kept or shown. `memtui index` takes conversations
in and out; the terminal interface and `memtui index --watch` follow those that grow, each time
there are 100 kB or 50 messages more (transcripts.delta_bytes, delta_messages); r takes in the rest.
A search finds them beside the notes; `source:sessions` and `source:memory` choose. Transcripts are
only read. What `O` on the screen is told with enter holds until you quit; w keeps it.

REPLAY

  = same rank   ~ moved   + new   - gone, and why        then and now: ranks, then scores

Places are the same when they are of one file and their lines overlap. As many results are asked
for as the call asked for; --k N, and the options of `memtui search`, ask otherwise. --json and
--jsonl give a verdict for each search: same, changed, unrecorded (the conversation does not say
what came back) or failed.

With --agent NAME or --index FILE: the conversations of that agent, and searches as its own program
would answer them.
"""


def _keys() -> str:
    from memtui.settings.actions import ACTIONS

    width = max(len(action.id) for action in ACTIONS)
    rows = [
        f"  {' '.join(action.keys):<16}{action.id:<{width}}  {action.help}\n" for action in ACTIONS
    ]
    return (
        "KEYS\n\n"
        "Keys that are not characters (f2, ctrl+y, ...) work while a query is typed, too.\n"
        'Change them in [keymap]: "mmr.toggle" = "M,f2"; presets: default, vim, emacs.\n\n'
        + "".join(rows)
    )


TOPIC_TEXTS: Mapping[str, Callable[[], str]] = {
    "agents": lambda: _AGENTS,
    "browse": lambda: BROWSE,
    "care": lambda: CARE,
    "config": lambda: _CONFIG,
    "exit-codes": lambda: _EXIT_CODES,
    "keys": _keys,
    "providers": lambda: _PROVIDERS,
    "ranking": lambda: _RANKING,
    "search": lambda: _SEARCH,
    "sessions": lambda: _SESSIONS,
}


def show_topic(invocation: Invocation, topic: str | None, overview: str) -> int:
    """Print a topic, through the pager when stdout is a terminal; without one the overview."""
    output = invocation.output()
    text = overview if topic is None else TOPIC_TEXTS[topic]()
    if topic is None:
        text += f"\n\nTopics (memtui help TOPIC): {', '.join(TOPIC_TEXTS)}"
    if invocation.json:
        output.document({"topic": topic, "topics": list(TOPIC_TEXTS), "text": text})
    elif output.out_is_terminal:
        _use_configured_pager(invocation)
        click.echo_via_pager(text)
    else:
        output.line(text.rstrip("\n"))
    return 0


def _use_configured_pager(invocation: Invocation) -> None:
    """Help is shown even when the configuration is broken; then $PAGER decides alone."""
    try:
        pager = invocation.settings(None).settings.pager
    except MemtuiError as error:
        invocation.output().note(f"memtui: {error.message}")
        return
    if pager:
        os.environ["PAGER"] = pager

"""The actions that keys can be bound to, one line each: the source of bindings, help and keymap.

From this table come the bindings of every screen and widget (`memtui.tui.bindings`), the key bar,
the help screen, the palette, `memtui help keys` and what `[keymap]` accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

HIDDEN: Final = 0
"""The place in the key bar of an action that is not shown there."""
_LAST: Final = 99


@dataclass(frozen=True, slots=True)
class Action:
    """Something a key does.

    A key is a printed character or a name such as `enter`, `f2`, `ctrl+y`. Keys that are not
    characters work while a query is typed, too.
    """

    where: str
    """The screen or widget that has it."""
    keys: tuple[str, ...]
    run: str
    """The action as Textual runs it: `step_k(-1)`."""
    title: str = ""
    help: str = ""
    id: str = ""
    """By which `[keymap]` binds other keys to it; empty for what is not configurable."""
    bar: int = HIDDEN
    """Its place in the key bar."""
    priority: bool = False
    """Whether its keys work before those of the focused widget."""


# keys | action, `!` for priority | title, `*` in the key bar, `*2` at that place | help | id
_TABLE: Final = r"""
# search
/ | focus_query | query *1 | edit the query | query.focus
ctrl+r | history | history | queries asked before | query.history
down,ctrl+n | move(1) | down | next result | result.next
up | move(-1) | up | previous result | result.previous
# list
j | cursor_down | down | next row of a list | list.next
k | cursor_up | up | previous row of a list | list.previous
g | first | first | first row of a list | list.first
G | last | last | last row of a list | list.last
# search
escape | leave | back | from the query to the list; close what is open | leave
x,f4 | explain | explain *4 | the whole arithmetic of a result | explain
n | toggle_near_misses | not shown | candidates that are not shown, and why | near_misses.toggle
o | cycle_sort | sort view | list by rank, vector, keyword or date | sort.cycle
e,ctrl+o | edit | edit | open the note in the editor, at its line | result.edit
y,ctrl+y | copy_citation | cite | copy path#L12-L31 | result.cite
Y | copy_text | copy text | copy the text | result.copy
m,f2 | toggle_mmr | MMR *2 | MMR on or off | mmr.toggle
d,f3 | toggle_decay | decay *3 | temporal decay on or off | decay.toggle
[,f6 | step_lambda(-1) | λ −0.05 | lambda - 0.05: more variety | lambda.down
],shift+f6 | step_lambda(1) | λ +0.05 | lambda + 0.05: more relevance | lambda.up
{ | step_half_life(-1) | shorter half-life | shorter half-life: old notes lose faster
    | half_life.down
} | step_half_life(1) | longer half-life | longer half-life: old notes lose slower | half_life.up
< | step_vector_weight(-1) | vector weight −0.05 | vector weight - 0.05: words count more
    | weight.down
> | step_vector_weight(1) | vector weight +0.05 | vector weight + 0.05: meaning counts more
    | weight.up
- | step_k(-1) | k −1 | fewer results | k.down
+,= | step_k(1) | k +1 | more results | k.up
F | cycle_fusion | fusion | weighted sum, relative score, RRF | fusion.cycle
0 | reset_parameters | reset | parameters as configured | parameters.reset
u | undo_ranking | undo | parameters as before the last change | parameters.undo
U | redo_ranking | redo | parameters that undo took back | parameters.redo
w | write_parameters | write parameters | save the parameters to the settings (shows them first)
    | parameters.write
T | toggle_parameters | parameters | show or hide the parameter panel | parameters.toggle
P | cycle_profile | profile | the next named ranking | profile.cycle
p,f7 | toggle_pin | pin | follow a chunk through every query | pin.toggle
t | trace_place | trace | why a file or a line is shown or not | trace
K | app.show_chunk | chunk | everything that the index holds about a chunk | chunk.show
c | compare | compare | two rankings, or two chunks, side by side | compare
S | sweep | sweep | rank against one parameter, as a chart | sweep
C | copy_configuration | copy as agent configuration
    | copy the parameters as an agent's configuration | parameters.copy
r,f5 | sync | sync *5 | index what changed | index.sync
R | rebuild | rebuild | index everything again (asks first) | index.rebuild
v,ctrl+l | cycle_preview | preview | preview right, below or off | preview.cycle
D,f8 | show_difference | difference | what changed since a note was indexed | preview.difference
tab | next_pane(1) | next pane | next pane | pane.next
shift+tab | next_pane(-1) | previous pane | previous pane | pane.previous
# app
1 | show_search | search | search screen | screen.search
2,b | show_browse | browse | browse screen; from a result to its place | screen.browse
3,s | show_sessions | sessions | sessions screen; from a result to its turn | screen.sessions
4,i | show_index | index | index screen | screen.index
E,f9 | choose_provider | embedding provider… | embedding providers, and going over to another
    | provider.choose
ctrl+s | save_svg | screenshot | save the screen as SVG | screenshot
?,f1 | help | help * | every key of this pane | help
ctrl+c | interrupt! | stop | copy the selection, else stop what runs, else quit | interrupt
q | quit | quit * | quit | quit
ctrl+q | quit! | quit * | quit, also from a dialog or while typing | quit.anywhere
# agents
escape | leave | back *
down,ctrl+n | move(1) | down
up | move(-1) | up
# browse
/ | focus_filter | filter * | words of the path; path: source: after: before:
o | cycle_sort | order | by name, date, size, chunks, or how often your queries recall it
] | step_chunk(1) | chunk * | the next chunk, after the last that of the next file
[ | step_chunk(-1) | previous chunk
O | toggle_outline | outline * | the headings of the file
m | toggle_rendered | rendered | the file as rendered Markdown, or as it is
D,f8 | show_difference | difference | what changed in this file since it was indexed
: | choose_chunk | chunks | any chunk of the file, by its lines and first words
. | same_day | same day | the other files of this day
t | toggle_timeline | timeline * | notes by day
H | cycle_measure | bytes, chunks, recalls | what makes a day of the timeline dark
c | app.show_care | care * | what of the memory needs care
f | search_here | search here | search only in this file, folder or day
K | show_chunk | chunk view | everything that the index holds about the current chunk
e,ctrl+o | edit | edit | open the file in $EDITOR at this line
y,ctrl+y | copy_citation | cite | copy path#L12-L31 of the current chunk
r,f5 | sync | sync | index changes
tab | next_pane(1) | next pane
shift+tab | next_pane(-1) | previous pane
down,ctrl+n | move(1) | down
up | move(-1) | up
escape | close | back * | to the tree, then back; at once to a result that led here
# care
e | edit | edit * | open the place in $EDITOR
o | edit_other | edit other * | open the place it is compared with in $EDITOR
b | browse | browse * | see the place in its file
K | chunk | chunk * | everything about this chunk
r,f5 | look | look again * | go through the memory
y | cite | cite | copy path#L12-L31
n | rule(1) | next rule
N | rule(-1) | previous rule
/ | filter | filter | only findings whose rule, path or reason holds these words
tab | pane | list or text
shift+tab | pane | list or text
down | to_list | down
escape | close | back *
# chooser
escape,q | close | back *
# chunk
f | follow | what is there now *
tab | section(1) | next part *
shift+tab | section(-1) | previous part
d | difference | difference * | this chunk and the chosen one side by side
e | edit | edit * | open its line in $EDITOR
b | browse | browse * | see it in its file
p | pin | pin * | follow it through every query
o | sort | sort terms
a | ask | ask the queries | which queries of the history it answers in the top k
y | cite | cite | copy path#L12-L31
Y | copy_text | copy text
escape | close | back *
# compare
a | cycle(0, 1) | A * | the next ranking for A
A | cycle(0, -1) | A, back
b | cycle(1, 1) | B * | the next ranking for B
B | cycle(1, -1) | B, back
s | swap | swap * | exchange A and B
left | side(0) | move in A
right | side(1) | move in B
j,down | move(1) | down
k,up | move(-1) | up
enter | choose | choose * | go to this result
x,f4 | explain | explain *
tab | mode | rankings or pinned *
escape,c,q | close | back *
# configuration
y,enter | copy | copy *
left,h | release(-1) | older release *
right,l | release(1) | newer release *
j,down | scroll(1) | down
k,up | scroll(-1) | up
escape,q,C | close | back *
# confirm_provider
s | answer('session') | for this session *
w | answer('write') | write *
escape,n,q | answer('keep') | keep *
# rebuild
y,R | answer(True) | rebuild *
n,escape,q | answer(False) | keep the index *
left,h | app.focus_previous | previous button
right,l | app.focus_next | next button
# difference
n | hunk(1) | next change *
N,p | hunk(-1) | previous change *
j,down | scroll(1) | down
k,up | scroll(-1) | up
space,ctrl+d,pagedown | page(1) | page down
ctrl+u,pageup | page(-1) | page up
g,home | end(-1) | first line
G,end | end(1) | last line
h,left | columns(-1) | left
l,right | columns(1) | right
escape,q,D,f8 | close | back *
# explain
j,n | step(1) | next result *
k | step(-1) | previous result *
a,enter | apply | apply the marked change *
u | undo | take the last change back *
p | pin | pin or unpin *
c | compare | compare *
K | show_chunk | all about this chunk *
y | copy('text') | copy as text *
Y | copy('markdown') | copy as Markdown *
J | save_json | save as JSON *
ctrl+s | app.save_svg | screenshot *
escape,x,q,f4 | close | back *
# help
escape,f1 | close | back *
down,ctrl+n | scroll(1) | down
up | scroll(-1) | up
pagedown | scroll(10) | page down
pageup | scroll(-10) | page up
# history
escape,ctrl+r | dismiss_none | back *
down,ctrl+n | move(1) | down
up | move(-1) | up
# table
j | cursor_down | down
k | cursor_up | up
g | scroll_top | first
G | scroll_bottom | last
# index_screen
r,f5 | sync | sync * | index what changed
R | rebuild | rebuild * | index everything again
E,f9 | app.choose_provider | provider * | who makes the vectors, where text goes, and another one
escape | close | back *
tab | app.focus_next | next table
shift+tab | app.focus_previous | previous table
# place
escape | close | back *
tab | complete | complete *
down,ctrl+n | move(1) | down
up | move(-1) | up
# providers
t | try | try * | ask it for the vector of one word
escape,q,E,f9 | close | back *
# sessions
/ | find | find * | filter the list; in a conversation look for a text
a | asked | asked * | what the agent asked its memory, then and now
A | asked_everywhere | asked everywhere | what the agent asked its memory, in every conversation
o | sort | sort * | newest, longest, most results or most searches first;
    a result is in the list of the search, +3 not shown are candidates that it leaves out
n | match(1) | next | the next turn with the text that is looked for
N | match(-1) | previous | the turn before with the text that is looked for
e,ctrl+o | edit | edit | open the transcript in $EDITOR at the line of this turn
y,ctrl+y | copy_citation | cite | copy path#L12
Y | copy_text | copy text | copy the text of this turn
K | show_chunk | chunk | everything that the index holds about the chunk of this turn
t | turn_of_call | turn | the turn in which this was asked
x | replay | ask again | ask the memory the chosen search again
p | place_of_result | place | the chosen place of the comparison, in its file
O | sources | sources… * | which transcripts are indexed
r,f5 | sync | sync | index what changed
tab | next_pane(1) | next pane
shift+tab | next_pane(-1) | previous pane
down,ctrl+n | move(1) | down
up | move(-1) | up
escape | close | back *
# side
escape,q,d | close | back *
# sweep
right | flip(1) | next flip *
left | flip(-1) | previous flip
l | step(1) | fine * | a little further
h | step(-1) | fine, back
enter | apply | apply * | rank by this value
tab | parameter(1) | parameter *
shift+tab | parameter(-1) | back
j,down | line(1) | line * | follow another line
k,up | line(-1) | previous line
home,0 | go_now | present value
escape,S,q | close | back *
# transcripts
space | toggle_source! | choose *
w | write | write… * | use them, and keep the choice in the settings
ctrl+d | scroll(4) | down
ctrl+u | scroll(-4) | up
escape,q,O | close | back *
# detail
escape,q,enter | close | back *
j,down | scroll(1) | down
k,up | scroll(-1) | up
# truth
s,r,f5 | examine | examine * | look at it again
f | filter | filter files * | files by their state
tab | section(1) | next list *
shift+tab | section(-1) | previous list
R | rebuild
escape | close | back *
# write
enter | write | write *
tab,right | where(1) | where to *
shift+tab,left | where(-1) | where to
j,down | scroll(1) | down
k,up | scroll(-1) | up
pagedown | page(1) | page down
pageup | page(-1) | page up
escape | close | leave *
q,w | close | leave
# write_file
enter | write | write *
j,down | scroll(1) | down
k,up | scroll(-1) | up
escape,q | close | leave *
# tree
l,right | unfold | open the folder
h,left | fold | close the folder
z | fold_all | close or open all
# file_view
. | screen.same_day | same day | the other files of this day
# heat_map
h,left | move(-7) | week before
l,right | move(7) | week after
j,down | move(1) | day after
k,up | move(-1) | day before
pageup | year(-1) | year before
pagedown | year(1) | year after
n | noted(1) | next day with notes
N | noted(-1) | day with notes before
g,home | end(0) | first day with notes
G,end | end(-1) | last day with notes
enter | open | open the day
# least_list
down | choose(1) | next change
up | choose(-1) | previous change
# lines
j,down | scroll_lines(1) | down
k,up | scroll_lines(-1) | up
space,ctrl+d,pagedown | scroll_pages(1) | page down
ctrl+u,pageup | scroll_pages(-1) | page up
g,home | scroll_end_of(-1) | first line
G,end | scroll_end_of(1) | last line
# preview
h,left | scroll_columns(-1) | left
l,right | scroll_columns(1) | right
. | chunk | back to the chunk
# list
down | cursor_down | down
up | cursor_up | up
home | first | first
end | last | last
space,ctrl+d,pagedown | page(1) | page down
ctrl+u,pageup | page(-1) | page up
enter | open | open | the chosen row
# turns
j,down | step(1) | down
k,up | step(-1) | up
enter,space | unfold | fold * | open or fold this turn; show the whole of a long one
z | toggle_kind | fold all * | open or fold every turn of this kind
. | records | records | show or hide what nobody says: settings, snapshots, tasks
ctrl+d,pagedown | page(1) | page down
ctrl+u,pageup | page(-1) | page up
g,home | first | first turn
G,end | last | last turn
] | user(1) | next question | the next thing that the user said
[ | user(-1) | question before | what the user said before
"""


def _parse(table: str) -> Iterator[Action]:
    where = ""
    for line in re.sub(r"\n +", " ", table.strip()).split("\n"):
        if line.startswith("# "):
            where = line[2:]
            continue
        keys, run, *cells = (cell.strip() for cell in line.split(" | "))
        title, help_, id_ = (*cells, "", "", "")[:3]
        name, star, place = title.partition(" *")
        yield Action(
            where,
            tuple(keys.split(",")),
            run.removesuffix("!"),
            name,
            help_,
            id_,
            int(place or _LAST) if star else HIDDEN,
            run.endswith("!"),
        )


ALL_ACTIONS: Final = tuple(_parse(_TABLE))
ACTIONS: Final = tuple(action for action in ALL_ACTIONS if action.id)
"""The configurable actions, in the order of `memtui help keys`."""
ACTION_IDS: Final = frozenset(action.id for action in ACTIONS)

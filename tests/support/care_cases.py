"""Notes with planted faults, and look-alikes that are none, for the rules of care.

A case is a line (or several) that is put into a note of its own; `PLANTED` has one fault of its
rule in its last line, `TRAPS` has none of any rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from memtui.model.browsing import CareRule

FACTS = (
    "- The router runs firmware 5.13 since March 2026.",
    "As of 2026-03-04 the backup goes to the second disk.",
    "- 2026-02-11: the ISP switched us to fibre",
    "* **2026-06-02** the bakery closes on Mondays",
    "The freezer is now set to -20, last checked 12 May 2026.",
    "Rent is 1,140 a month since 1 September 2026.",
    "- Currently 14 hens (October 2026), one of them lame.",
    "The office moved to Keizersgracht 12 on 2026-04-01.",
    "- Updated 2026-08-19: the key is with Mai.",
    "- [the lease](lease.pdf) was raised to 1,200 as of January 5, 2026",
    "Derzeit 19 Grad im Keller (Stand 3. Februar 2026).",
    "- For now (2026-07-14) the car stands at my brother's.",
    "1. 2026-05-06 Tom took over the garden",
    "The heating is at 19 degrees since Oct 2026",
    "Quotas were reduced to 40 in June 2026 for everybody.",
    "- Depuis mars 2026 nous sommes trois dans le bureau.",
    "The pump has been replaced; effective 2026-09-09 it runs at night.",
    "- the gate code changed on 2026-10-30 (ask Mai)",
    "2026/03/04 new doctor: Dr. Okafor, Tuesday mornings",
    "- Speed was measured at 480 Mbit, last measured 2026-01-15",
)
FACT_TRAPS = (
    "- Renew the passport by 2031-05-01.",
    "Mai was born on 3 May 1988.",
    "- Our wedding was on 2015-06-20 in Hoi An.",
    "See [[2026-02-11]] for how the switch went, since then it is quiet.",
    "Since then everything is quiet; see [February](2026-02-10.md).",
    "- [ ] 2026-10-01 call the plumber",
    "- [x] 2026-03-01 sent the papers",
    "> As of 2026-03-04 he wrote that all is well.",
    "| 2026-03-04 | 71.2 kg | since the diet |",
    "The model gpt-4o-2024-08-06 is used since it is cheaper.",
    "`as of 2026-03-04` is how the report begins",
    "We have known each other since 1998.",
    "- Bought the bike on 2019-04-02, frame number in the drawer.",
    "The invoice of 2026-03-04 is in the blue folder.",
    "Version 2026-03-04 of the schema is current.",
    "- Flat lease runs until 2099-12-31.",
    "The exhibition opens on 2099-03-01.",
    "Published 12 March 2024, so partly out of date since.",
    "The meeting is every second Tuesday since it suits all.",
    "In May 2026 we went to Kyoto and it rained a lot.",
    "- Dates are written as 2026-03-04, never as 04.03.26.",
    "The API takes api-version=2024-05-01 since the last change.",
    "Log files are called backup-2026-03-04.log, since dates sort.",
    "https://example.org/2026-03-04/since is the page",
    "- Warranty of the fridge since 2024-03-01, five years.",
    "The house was founded as a mill on 4 July 1899.",
)
LINKS = (
    "See [the wiring](wiring-old.md) for the ports.",
    "- more in [[Nowhere Land]]",
    "[packing](../lists/packing.md)",
    "Steps are in [setup](<my setup notes.md>).",
    "As in [the plan](gone%20plan.md#step-2).",
    "- [[projects/atlantis|the old plan]] and more",
    "[ref]: missing-reference.md",
    "Both [a](known.md) and [b](unknown.md) matter.",
    'It is told in [the story](lost-story.md "a title").',
    "- ![[Lost embed]] is shown here",
    "[[Gone#Section]] had it.",
    "* [x](./sub/none.markdown)",
    "Look at [this (old)](old(1).md) once.",
    "[[2019-01-01]] was the day.",
    "a \\[escaped\\] word and [a true link](vanished.md)",
    "`code` before [the link](after-code.md) counts",
)
LINK_TRAPS = (
    "See [home](known.md) for the ports.",
    "- more in [[Known]] and [[known|the same]]",
    "[[known#Ports]] and [[#Ports]] and [[Known Title]] and [[an alias]]",
    "[up](../memory/known.md), [root](/memory/known.md), [root too](memory/known.md)",
    "[site](https://example.org/none.md) and <https://example.org/x.md>",
    "[mail](mailto:none.md) [anchor](#gone.md)",
    "![diagram](diagram.md.png) and ![old](nowhere.png)",
    "`[code](nowhere.md)` and ``[[Not `here`]]``",
    "\\[not a link](nowhere.md) and \\[[Nor this]]",
    "if [[ -f notes.md ]]; then echo yes; fi",
    "as proved in [[1]] and [[2]](https://example.org)",
    "a PDF: [lease](lease.pdf), a folder: [all](lists/), a script: [run](run.sh)",
    "[template](path/to/note.md) and [[{{date}}]] and [[<name>]] and [day](YYYY-MM-DD.md)",
    "[spaces](with%20space.md) and [angle](<with space.md>) and [esc](with\\ space.md)",
    "![[photo.jpg]] and [[budget.xlsx]]",
    "<!-- [old](nowhere.md) [[Nowhere]] -->",
    "the list a[0](nowhere md) is no link",
    "[^1]: see nowhere.md",
    "x = grid[[0, 1]] and y[[a == b]]",
    "[case](KNOWN.md) is found where letters do not count",
    "[extra](../outside/there.md) leads to a file that is no note of the memory",
)
_KEY = "Zk81QpX0vT7mWb42LdYc"
CREDENTIALS = (
    f"OPENAI_API_KEY=sk-{_KEY}{_KEY[::-1]}",
    f"- token for the bot: ghp_{_KEY}8dHnQ2rS1uVx4yZ7",
    "export DB_PASSWORD='t9#Lq2!vRz8m'",
    "aws: AKIAQ7RZT2MWX9KLD3PV in the shared account",
    "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.s5K0aVb2",
    '{"apiKey": "q8Zt61xPwL03RmNv7Ks2"}',
    f"slack: xoxb-291837465012-8A7{_KEY}",
    f"https://api.example.org/v1?token={_KEY}&x=1",
    f"npm_{_KEY}J4h7Gf9D2sK6pQ1w is the publish token",
    f"curl --password {_KEY} ftp://host",
    f"telegram 5812093746:AAH{_KEY}x7Pq2Rm9Lw5Zt",
    "SECRET: 9fK2mQ7xZ1vL8pR4",
)
CREDENTIAL_TRAPS = (
    "OPENAI_API_KEY=sk-...",
    "API_KEY=<YOUR_KEY>",
    "token = xxxxxxxxxxxxxxxxxxxx",
    "export TOKEN=$GITHUB_TOKEN",
    "PASSWORD: see the vault",
    "the password lives in the vault, 1Password entry 12",
    "AKIAIOSFODNN7EXAMPLE is the example of the manual",
    "sk-your-key-here-0001 goes into the settings",
    "use sk-learn-contrib 0.24 for that",
    "API_KEY=changeme123",
    'apiKey: process.env.OPENAI_API_KEY, "token": "${TOKEN}"',
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b fixed it",
    "the key is under the mat, KEY: blue",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id 550e8400-e29b-41d4-a716-446655440000 of the device",
    "TOKEN=1234567890abcdef of the tutorial",
    "Bearer of good news: the tokens are 4,000 a day",
    "KEYS: F2 opens the menu, F10 leaves",
    "MAX_TOKEN=4096 and KEY=value are the defaults",
    "SECRET=********",
    "set PASSWORD=your_password_1 first",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxx1",
)
_SENTENCE = "The pump in the cellar starts when the water in the shaft is higher than the float. "
_PROSE = _SENTENCE * 40
LONG_LINES = (
    _PROSE.strip(),
    "- " + "Mai said that the tea from the shop is better than the tea from the market; " * 30,
    "地下室水泵在水位高于浮子时启动，随后管道阀门会自动关闭，请每月检查一次。" * 14,
    "> " + _PROSE.strip(),
)
LONG_LINE_TRAPS = (
    _SENTENCE * 5,
    "![image](data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAA" * 120 + ")",
    "| " + " | ".join(f"cell {n} of a very wide table" for n in range(90)) + " |",
    "https://example.org/?q=" + "a1b2c3d4" * 300,
    "```\n" + "x = [" + ", ".join(str(n) for n in range(900)) + "]\n```",
)
EMPTY = (
    "",
    "\n\n   \n",
    "# Ideas\n",
    "---\ntitle: Garden\ndate: 2026-01-01\n---\n",
    "---\ntags: [x]\n---\n\n# Garden plans\n\n## Vegetables\n",
    "# Draft\n\n<!-- nothing yet -->\n\n---\n",
    "# To do\n\n- \n- \n",
    "Shopping list\n=============\n",
)
NOT_EMPTY = (
    "Yes.\n",
    "# Wi-Fi: the password is on the fridge door\n",
    "# Ideas\n\n- paint the fence\n",
    "```\nls\n```\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "# 京都\n\n清水寺\n",
    "![plan](plan.png)\n",
    "# Draft\n\n1\n",
)


@dataclass(frozen=True, slots=True)
class PlantedNote:
    """A note and the faults that are in it: rule and line."""

    path: str
    text: str
    faults: frozenset[tuple[CareRule, int]]


_HEAD = "# A topic\n\nWords that say what this note is about, so that it is not empty.\n\n"


def _line_notes() -> list[PlantedNote]:
    planted = {
        CareRule.DATED_FACT: FACTS,
        CareRule.BROKEN_LINK: LINKS,
        CareRule.CREDENTIAL: CREDENTIALS,
        CareRule.LONG_LINE: LONG_LINES,
    }
    traps = (*FACT_TRAPS, *LINK_TRAPS, *CREDENTIAL_TRAPS, *LONG_LINE_TRAPS)
    notes = []
    line = _HEAD.count("\n") + 1
    for rule, cases in planted.items():
        for number, case in enumerate(cases):
            path = f"memory/{rule}-{number}.md"
            notes.append(PlantedNote(path, f"{_HEAD}{case}\n", frozenset({(rule, line)})))
    for number, case in enumerate(traps):
        notes.append(PlantedNote(f"memory/trap-{number}.md", f"{_HEAD}{case}\n", frozenset()))
    return notes


def _whole_notes() -> list[PlantedNote]:
    empty = [
        PlantedNote(f"memory/empty-{n}.md", text, frozenset({(CareRule.EMPTY_FILE, 1)}))
        for n, text in enumerate(EMPTY)
    ]
    full = [
        PlantedNote(f"memory/full-{n}.md", text, frozenset()) for n, text in enumerate(NOT_EMPTY)
    ]
    paragraph = "\n\n".join(_SENTENCE.strip() for _ in range(60)) + "\n"
    long = [
        PlantedNote("memory/long.md", paragraph * 22, frozenset({(CareRule.LONG_FILE, 1)})),
        PlantedNote("MEMORY.md", paragraph * 5, frozenset({(CareRule.LONG_FILE, 1)})),
        PlantedNote("memory/rather-long.md", paragraph * 10, frozenset()),
    ]
    return [*empty, *full, *long]


def _context_notes() -> list[PlantedNote]:
    """Traps that are traps by what stands around them."""
    fact = "- The router runs firmware 5.13 since March 2026."
    log = "".join(f"- 2026-0{n}-11 checked the meter\n" for n in range(1, 7))
    texts = {
        "memory/2026-03-11.md": f"{_HEAD}{fact}\n",
        "memory/dated-inside.md": f"---\ndate: 2026-03-11\n---\n{_HEAD}{fact}\n",
        "memory/2026-02-10.md": "# The day before\n\nSince 9 February 2026 it rains.\n",
        "memory/2026-02-11.md": "# The day\n\nFibre at last, as of 2026-02-11.\n",
        "memory/changelog.md": f"{_HEAD}{fact}\n- 2026-02-11: new\n",
        "memory/meter.md": f"{_HEAD}{log}",
        "memory/house.md": f"{_HEAD}## History\n\n{fact}\n\n## 2026-02-11\n\n{fact}\n",
        "memory/known.md": "---\naliases: [an alias, other]\n---\n# Known Title\n\nPorts and more.\n",
        "memory/with space.md": "# Spaces\n\nIts name has a blank.\n",
        "memory/coded.md": f"{_HEAD}```text\n{fact}\n[x](gone.md) [[Gone]]\n```\n\n    {fact}\n",
        "memory/tilde.md": f"{_HEAD}~~~\n```\n[x](gone.md)\n~~~\n\n<!--\n{fact}\n[[Gone]]\n-->\n",
    }
    return [PlantedNote(path, text, frozenset()) for path, text in texts.items()]


def planted_notes() -> list[PlantedNote]:
    """Every note, planted or trap."""
    return [*_line_notes(), *_whole_notes(), *_context_notes()]

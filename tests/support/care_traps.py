"""More notes for the rules of care, written to prove them wrong: as people write, in five languages.

Every text is a note of its own. In `FAULTS` its last line has one fault of the rule; in `SOUND`
nothing is wrong.
"""

from __future__ import annotations

from typing import Final

from memtui.model.browsing import CareRule
from tests.support.care_cases import PlantedNote

_HEAD: Final = "# A topic\n\nWords that say what this note is about, so that it is not empty.\n\n"
_KEY: Final = "Vq73LzR0nT5wKb18XcYd"

FAULTS: Final = {
    CareRule.DATED_FACT: (
        "Seit dem 3. März 2026 steht der Server im Keller.",
        "Stand 12.02.2026: 14 Hühner, eines lahmt.",
        "Aktuell (August 2026) zahlt Jonas 640 Euro Miete.",
        "Depuis le 4 avril 2026 le bureau est rue Blanche.",
        "Actuellement (mai 2026) nous avons deux voitures.",
        "Desde el 5 de junio de 2026 trabajo desde casa.",
        "- 2026-04-17: Wechsel zum neuen Stromanbieter, 31 Cent je kWh",
        "The standup is now at 9:30, effective 2026-08-03.",
        "Mai lives in Utrecht as of July 2026.",
        "A partir del 2026-03-01 la oficina cierra los viernes, actualmente sin excepciones.",
        "现状（截至2026年3月4日）：备份放在第二块硬盘上。",
        "2026年5月現在、事務所は京都にあります。",
    ),
    CareRule.BROKEN_LINK: (
        "Siehe [[Gärtnerei Müller]] für die Setzlinge.",
        "Voir [le plan](jardin-2025.md#été) avant de semer.",
        "Más en [[casa/Cocina vieja|la cocina]].",
        "詳しくは[[京都旅行計画]]を見る。",
        "另见[清单](清单-旧.md)。",
        '- [old plan](<old plan (2).md> "plan of 2024")',
        "> as he says in [the letter](letters/1998.md)",
        "| router | [manual](router-manual.md) |",
        "[[Gone note#Heading|shown]] has the rest.",
        "The text ![[Embedded gone#^block1]] is from there.",
        "See [ports][p] below.\n\n[p]: <ports gone.md> 'Ports'",
        "[dot](../memory/./nothing-here.md)",
    ),
    CareRule.CREDENTIAL: (
        f"Passwort: {_KEY}",
        f"mot de passe : {_KEY}",
        f"contraseña: {_KEY}",
        f"GITLAB_TOKEN=glpat-{_KEY}",
        f"- `STRIPE_SECRET_KEY=sk_live_{_KEY}Qx7` is in the .env",
        f"postgres://tom:{_KEY}@db.example.org:5432/app",
        f"client_secret = '{_KEY}'",
        f"hf_{_KEY}JkQwErTyUiOp is for the models",
        "aws_secret_access_key = wJ4lrXUt9FEMIkK7MDENGbPxRfiCYz2QqTs81LmN",
    ),
}
_FACTS: Final = (
    "Der Reisepass ist gültig bis 3. März 2024, seit 2014 derselbe.",
    "Jonas wurde am 12. Mai 1991 in Graz geboren, seit 2010 in Wien.",
    "Née le 4 avril 1987, elle habite Lyon depuis 2009.",
    "Nacido el 5 de junio de 1990 en Sevilla.",
    "Birthday: 14 February 1985 (since then every year cake)",
    "Every year since 2019-06-01 we meet at the lake.",
    "Anniversary on 2016-09-17, table for two.",
    "- Due: 2026-03-01, was moved from 2026-02-01",
    "Taxes for 2025 are due 2026-07-31.",
    "Frist: 2026-06-30 für die Steuererklärung",
    "Échéance : 30 juin 2026",
    "Vence el 30 de junio de 2026",
    "- [x] done since 2026-02-03",
    "Conference 2026-05-04 to 2026-05-08 in Lisbon",
    "The treaty was signed since both agreed, on 4 July 1776.",
    "The 2026-03-04 outage is described in the report.",
    "- 1969-07-20: first people on the moon",
    "Windows 10 got its last update on 2025-10-14.",
    "Python 3.11 was released on 2022-10-24, since then asyncio has TaskGroup.",
    "The book currently on my desk was written on 3 March 1952.",
    "Order 2026-03-04-118 was changed to two boxes.",
    "Call log: see 2026-03-04 (since moved).",
    'He said: "as of March 2024 I am free".',
    "Passport number since 2018: in the safe, expires 1 May 2028",
    "The song is from May 1995, now on the radio.",
    "March 2026 is now planned as the month of the move.",
    "Kyoto in April 2025: cherries everywhere, currently my favourite trip.",
    "Treffen am 2026-04-02 mit Frau Bauer wegen des Dachs",
    "Photo of 12 May 2021, now on the wall.",
    "grep -r 'since 2026-03-04' logs/",
    "The WHO changed to ICD-11 on 2022-01-01.",
    "Query example: since:2026-03-04 until:2026-04-01",
    "Hochzeit am 20. Juni 2015, seitdem verheiratet",
    "SELECT * FROM t WHERE day >= DATE '2026-03-04' -- until now",
    "Template: 'As of <date>, e.g. 2026-03-04, the balance is ...'",
)
_LINKS: Final = (
    "the folder [[projects]] and [[projects/]] and [all](projects/)",
    "[[Known|alias with #hash]] and [[KNOWN#Ports|x]] and [[known^block]]",
    "![[known]] and ![[known#Ports]] and ![[drawing.excalidraw]]",
    "[t](known.md \"a (title)\") and [u](<known.md> 't') and [v](known.md (title))",
    '<a href="nowhere.md">html</a> <code>[x](nowhere.md)</code> <pre>[[Nowhere]]</pre>',
    "[ref][known] and [known]\n\n[known]: known.md 'Title'",
    "[K](Known.MD) and [[kNOWN]] on a file system without case",
    "[enc](caf%C3%A9.md) and [[Café]] and [nfd](cafe\u0301.md)",
    "[amp](q%26a.md) and [html](q&amp;a.md) and [[Q&A]]",
    "[anchor](known.md#ports-and-more) [query](known.md?plain=1#L3)",
    "[abs](file:///home/tom/none.md) [obs](obsidian://open?file=none.md)",
    "[[https://example.org/none|site]] and [[mailto:tom@example.org]]",
    "array[[i]] = row[[j]] # R and numpy",
    "[[ $a == none.md ]] && echo yes",
    "[[_TOC_]] and [[TOC]] and [[__TOC__]]",
    "[x]( known.md ) and [y](./known.md) and [z](.//known.md)",
    "line one [broken\nover lines](known.md)",
    "[a link in a title `[b](gone.md)`](known.md)",
    r"\[[Nor this\]] and \!\[x\](gone.md) and \[y](gone.md)",
    "<https://example.org/[[x]]/gone.md>",
    "https://en.wikipedia.org/wiki/[[gone]].md",
    "[gh](https://github.com/a/b/blob/main/README.md) README.md and docs/gone.md as words",
    "write it as `[text](file.md)` or as [text](file.md)",
    "write it as [title](url.md), [name](link.md) or [[Note Title]]",
    "[[Page]] is how a wikilink is written; [[link]] too",
    "[[2026-02-11]] and [[2026-02-11|Wednesday]] and [d](2026-02-11.md)",
    "[up](../MEMORY.md) and [root](/MEMORY.md)",
    "$[[a, b], [c, d]]$ and $$M[[1]](x.md)$$",
    '{{< ref "gone.md" >}} and {% link gone.md %}',
    "[[memory/known.md]] and [[memory/known]] and [[../memory/known]]",
    "[email](<mailto:none@example.md>)",
    "[moved](known.md)\u200b and [[known\u00a0]]",
)
_CREDENTIALS: Final = (
    'ETag: W/"33a64df551425fcc55e4d42a148795d9f25f89d4"',
    "md5 d41d8cd98f00b204e9800998ecf8427e of the empty file",
    "key: 9e107d9d372bb6826bd81d3542a419d6 (md5 of the fox)",
    "docker pull app@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "integrity: sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    "token: 550e8400-e29b-41d4-a716-446655440000 is the id of the example",
    "primary_key: user_id_2, sort_key: created_at_1",
    "public key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGq7cQ0bX5mP9uTn2rVw4yZ6aS8dF1gH3jK5lM7nB9vC tom@laptop",
    "fingerprint SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "password: hunter2 is the joke",
    "Passwort: siehe Tresor Fach 12b",
    "mot de passe : voir le coffre 3",
    "password policy: at least 12 characters, 1 digit",
    "api_key = os.getenv('API_KEY_2')",
    "apiKey: config.keys.openai_v2",
    "api_key = settings.api_key_v2",
    "TOKEN=$(pass show github/token2)",
    "password: {{ vault_db_password_2 }}",
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "Authorization: Bearer <token1>",
    "Authorization: Bearer ${ACCESS_TOKEN_V2}",
    "secret: projects/42/secrets/db-password/versions/3",
    "token_url: https://login.example.org/oauth2/v2.0/token",
    "secret_name = prod/db/password-v2",
    "key_path: ~/.ssh/id_ed25519",
    "password_file: /run/secrets/db_password_1",
    "ssh_key: /home/tom/.ssh/id_rsa_2024",
    "token_type: Bearer2, expires_in: 3600",
    "sk-learn1-pipeline-v2-notes",
    "max_tokens: 4096tokens",
    "tokenizer: cl100k_base",
    "tokens: o200k_base",
    "KEY_ID=prod-2024-signing-v2",
    "public_token: pk_test_TYooMQauvdEDq54NiTphI7jx",
    "ISBN key 978-3-16-148410-0",
    "IBAN DE89 3704 0044 0532 0130 00 and phone +49 30 1234567",
    "git checkout 9f86d08 && git log a94a8fe5ccb19ba61c4c0873d391e987982fbcd3",
    "https://example.org/watch?v=dQw4w9WgXcQ&key=value1",
    "https://maps.app.goo.gl/Zk81QpX0vT7mWb42",
    "Password: 'correct horse battery staple 1'",
    "keyboard shortcut: Ctrl+Shift+F12",
    "license key: see mail of 2024-03-04",
    "secret santa: Tom draws at 18:30h",
    "The secret: 250g flour, 3 eggs",
)
SOUND: Final = (*_FACTS, *_LINKS, *_CREDENTIALS)

_CHECKLIST: Final = "# Week\n\n- [ ] water the plants\n- [ ] take out the bins\n- [ ] check the mail\n- [ ] call home\n"
CONTEXT: Final = {
    "memory/projects/atlas.md": "# Atlas\n\nThe plan of the boat.\n",
    "memory/café.md": "# Coffee\n\nWhere to drink it.\n",
    "memory/q&a.md": "# Questions\n\nAnd what was said.\n",
    "memory/matter.md": "---\ndate: 2026-03-04\nupdated: 2026-05-06\n---\n# M\n\nSince March 2026 it holds.\n",
    "memory/created.md": "---\ncreated: 2026-03-04\n---\n# M\n\nBlue paint is in the attic.\n",
    "memory/CHANGELOG-app.md": "# Changes\n\nAs of 2026-03-04 the API is gone.\n",
    "memory/wohnung.md": "# Wohnung\n\n## Verlauf\n\nSeit März 2026 im Keller.\n",
    "memory/maison.md": "# Maison\n\n## Historique\n\nDepuis mars 2026 au sous-sol.\n",
    "memory/recurring.md": "# Days\n\n- 2026-01-06: bins\n- 2026-02-03: bins\n- 2026-03-03: bins\n- 2026-04-07: bins\n",
    "memory/code.md": "# C\n\nHow it is run:\n\n```sh\necho as of 2026-03-04 [[Gone]] [x](gone.md)\n```\n\n~~~\n[[Gone]]\n~~~\n\n- item\n\n  ```\n  [[Gone too]]\n  ```\n",
    "memory/table.md": "# T\n\n| day | what |\n| --- | --- |\n| 2026-03-04 | since then dry |\n\nday | what\n--- | ---\n2026-03-04 | wet\n",
    "memory/crlf.md": "# T\r\n\r\nSee [[known]] and [x](known.md).\r\n\r\n```\r\n[[Gone]]\r\n```\r\n",
    "memory/week-list.md": _CHECKLIST,
}


def more_notes() -> list[PlantedNote]:
    """Every note, planted or sound."""
    notes = [PlantedNote(path, text, frozenset()) for path, text in CONTEXT.items()]
    for rule, cases in FAULTS.items():
        for number, case in enumerate(cases):
            text = f"{_HEAD}{case}\n"
            fault = frozenset({(rule, text.count("\n"))})
            notes.append(PlantedNote(f"memory/more-{rule}-{number}.md", text, fault))
    for number, case in enumerate(SOUND):
        notes.append(PlantedNote(f"memory/sound-{number}.md", f"{_HEAD}{case}\n", frozenset()))
    return notes

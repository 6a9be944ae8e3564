"""Reading a question as a person does: what may stand on a screen, and what was meant by it.

Written down without the library, from Unicode's tables and from what a question promises.
"""

import re
import unicodedata

# Unicode's default-ignorable characters that are assigned, and letters that are blank.
UNSEEN = {0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFEFF, 0xFFA0}
UNSEEN |= {0x16FE4, 0x1D159, *range(0x180B, 0x1810), *range(0x200B, 0x2010), *range(0x202A, 0x202F)}
UNSEEN |= {*range(0x2060, 0x2070), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000)}
SEEN = "LMNPS"  # letters, marks, numbers, punctuation, symbols; of the blanks only the space
MARKS = {"TAB": "\t", "CR": "\r", "ESC": "\x1b", "NUL": "\x00"}


def misfits(text: str, also: str = " \n") -> list[str]:
    """The characters of a text that are outside of the positive set."""
    return sorted(
        f"U+{ord(c):04X}"
        for c in set(text) - {*also}
        if unicodedata.category(c)[0] not in SEEN or ord(c) in UNSEEN
    )


def revealed(shown: str) -> str:
    """The text that a shown text stands for."""

    def character(mark: re.Match[str]) -> str:
        return MARKS.get(mark[1]) or chr(int(mark[1].removeprefix("U+"), 16))

    return re.sub("⟦([^⟧]+)⟧", character, shown)


def pieces(question: str) -> list[tuple[str, str]]:
    """The named texts of a question, as they were before they were shown."""
    found: list[tuple[str, str]] = []
    barred: list[str] = []
    for line in reversed(question.split("\n")):
        if line.startswith("  | "):
            barred.insert(0, line.removeprefix("  | "))
        elif long := re.fullmatch(r"  (.*) \(\d+ lines?, \d+ characters\):", line):
            found.append((revealed(long[1]), revealed("\n".join(barred))))
            barred = []
        elif line.startswith("  ") and ": " in line:
            name, _, value = line[2:].partition(": ")
            found.append((revealed(name), revealed(value)))
    return found[::-1]

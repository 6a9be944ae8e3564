"""How good the estimate of tokens is, by python tests/bench/bench_tokens.py [characters].

Every text is cut into windows (300 characters if not said otherwise); the estimate of each is
divided by its tokens in OpenAI's o200k encoding, counted by the package bpe-openai. The texts
are those of the tests and what any installation holds: the standard library, the sources,
papers and data of the installed packages. It prints figures and targets and never fails.
"""

import base64
import json
import statistics
import subprocess
import sys
import sysconfig
import time
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import bpe_openai

from lai.tokens import estimate

ENCODING = bpe_openai.get_encoding("o200k_base")
TEXTS = Path(__file__).parents[1] / "data" / "texts"
LIBRARY, PACKAGES = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
WINDOWS = 400  # of one kind, taken evenly from all there are
LOW, HIGH = 0.95, 1.4


def read(folder: Path, pattern: str, files: int = 150) -> str:
    """Up to so many files, spread over all that match, each up to 200,000 characters."""
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    some = found[:: max(1, len(found) // files)]
    return "\n".join(path.read_text("utf-8", "replace")[:200_000] for path in some)


def kinds() -> Iterator[tuple[str, str]]:
    """Texts by kind."""
    for path in sorted(TEXTS.rglob("*.*")):
        yield path.stem, path.read_text("utf-8")
    code = read(LIBRARY, "*.py")
    yield "standard library", code
    yield "packages' Python", read(PACKAGES, "*/*.py")
    yield "packages' licences", read(PACKAGES, "*.dist-info/**/LICENSE*")
    yield "packages' read-mes", read(PACKAGES, "*.dist-info/METADATA")
    yield "packages' file lists", read(PACKAGES, "*.dist-info/RECORD")
    scripts = read(PACKAGES, "**/*.js")
    lines = scripts.split("\n")
    yield "JavaScript", "\n".join(line for line in lines if len(line) < 200)
    yield "JavaScript, minified", "\n".join(line for line in lines if len(line) > 1000)
    yield "JSON", read(PACKAGES, "**/*.json")
    yield "HTML and CSS", read(PACKAGES, "**/*.html") + read(PACKAGES, "**/*.css")
    yield "Python in JSON", json.dumps(code[:300_000])
    packed = zlib.compress(code.encode())[:60_000]
    yield "base64", base64.b64encode(packed).decode()
    yield "base64 in lines", base64.encodebytes(packed).decode()
    yield "hex", packed.hex()
    yield "digits", str(int.from_bytes(packed[:1700]))
    root = Path(__file__).parents[2]
    history = subprocess.run(  # its history, if this is a clone
        ["git", "log", "-p", "-20", "--no-color"], cwd=root, capture_output=True, check=False
    )
    yield "diffs", history.stdout.decode("utf-8", "replace")


def count(text: str) -> int:
    """The tokens of a text, encoded in parts: the encoder refuses long ones."""
    return sum(len(ENCODING.encode(text[at : at + 50_000])) for at in range(0, len(text), 50_000))


def row(name: str, text: str, size: int) -> str:
    """One line of the table."""
    starts = range(0, max(1, len(text) - size + 1), max(size // 6, len(text) // WINDOWS, 1))
    pieces = [text[at : at + size] for at in islice(starts, WINDOWS)]
    pairs = [(count(piece), estimate(piece)) for piece in pieces]
    ratios = [guess / real for real, guess in pairs]
    within = statistics.fmean(LOW <= ratio <= HIGH for ratio in ratios)
    real, guess = count(text), estimate(text)
    return (
        f"{name:22} {len(text):9,} {real:9,} {guess:9,} {guess / real:6.2f}   "
        f"{min(ratios):5.2f} {statistics.fmean(ratios):5.2f} {max(ratios):5.2f} {within:7.1%}"
    )


def seconds_per_megabyte(text: str) -> float:
    """The time for a megabyte of it in one line."""
    line = text * (1 + 1_000_000 // len(text.encode()))
    start = time.perf_counter()
    estimate(line)
    return (time.perf_counter() - start) / len(line.encode()) * 1e6


def main() -> None:
    """Print the figures."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print(f"{'':22} {'whole text':^36}   {f'windows of {size} characters':^26}")
    print(f"{'kind':22} {'chars':>9} {'tokens':>9} {'estimate':>9} {'ratio':>6}   "
          f"{'min':>5} {'mean':>5} {'max':>5} {'within':>7}")  # fmt: skip
    for name, text in kinds():
        if text:
            print(row(name, text, size))
    print(f"within: {LOW} to {HIGH}, the target in all but other scripts (0.8 to 2 there)\n")
    for unit in (
        "the quick fox, ",
        "a",
        " ",
        "\n",
        "aB3x/",
        "0123456789",
        "({[<",
        "书",
        "😀",
        "\0",
    ):
        print(f"{unit!r:18} {seconds_per_megabyte(unit):.2f} s/MB in one line (target: 1)")


if __name__ == "__main__":
    main()

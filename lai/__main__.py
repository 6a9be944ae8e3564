"""The command line: a chat that survives being killed, and a look at its session.

Without a command it chats, and finishes an interrupted turn first.

Exit codes: 0 done, 1 verify found something, 2 an error told in one line on stderr, 3 a
question waits for an answer that nobody gave, 130 stopped by Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from lai import report
from lai.approval import visible
from lai.chat import chat
from lai.history import History
from lai.journal import Journal
from lai.records import LaiError, Outcome
from lai.selfcheck import self_check
from lai.session import Session
from lai.storage import SessionError
from lai.voice import width

COMMANDS = {
    "show": "a session as a table",
    "verify": "what is damaged, open or unknown; exit code 1 if anything is",
    "repair": "acknowledge damage after looking at it; nothing is removed",
    "resolve": "record what you found out about an attempt that is unknown",
}


class _Parser(argparse.ArgumentParser):
    """Errors in one line that ends with what to do."""

    def error(self, message: str) -> NoReturn:
        raise LaiError(f"{message}; see python -m lai --help")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. Nothing a user can cause shows a traceback."""
    _prepare_streams()
    try:
        code = _dispatch(_parser().parse_args(arguments))
        sys.stdout.flush()
    except LaiError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        _let_go_of_output()  # the reader went away; there is nobody left to tell
        return 0
    except OSError as error:
        _let_go_of_output()
        return _fail(f"{error.filename or 'output'}: {error.strerror}; check that it can be used")
    return code


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started us
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 (open to the end)
        getattr(sys, name).reconfigure(errors="replace")  # bytes that are not UTF-8 end nothing


def _let_go_of_output() -> None:
    """What could not be written is not tried again when the process ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str) -> int:
    with suppress(OSError):  # nobody listens to errors either
        print(f"lai: {visible(' '.join(text.split()))}", file=sys.stderr, flush=True)
    return 2


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = _Parser(
        prog="python -m lai",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--workspace", type=Path, default=Path(), metavar="DIR", help="the folder to work in"
    )
    parser.add_argument(
        "--self-check", action="store_true", help="try the essential promises on this machine"
    )
    commands = parser.add_subparsers(dest="command", parser_class=_Parser, metavar="COMMAND")
    made = {name: commands.add_parser(name, help=h, description=h) for name, h in COMMANDS.items()}
    for command in made.values():
        command.add_argument("file", type=Path, metavar="FILE")
    resolve = made["resolve"]
    resolve.add_argument("execution", metavar="EXECUTION", help="its id, or the start of it")
    resolve.add_argument("outcome", choices=("happened", "not-happened"))
    resolve.add_argument(
        "--evidence", required=True, metavar="TEXT", help="what you saw, and where"
    )
    return parser


def _dispatch(given: argparse.Namespace) -> int:
    if given.self_check:
        self_check()
        print("self-check passed")
        return 0
    match given.command:
        case "show":
            return _show(given.file)
        case "verify":
            return _verify(given.file)
        case "repair":
            return _repair(_existing(given.file))
        case "resolve":
            outcome = Outcome(given.outcome.replace("-", "_"))
            return _resolve(_existing(given.file), given.execution, outcome, given.evidence)
    return chat(given.workspace)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise SessionError(f"there is no session file {path}")
    return path


def _show(path: Path) -> int:
    rows = report.rows(Session.read(path))
    print(
        "\n".join(report.table(rows, width())) if rows else f"{visible(str(path))} holds no records"
    )
    return 0


# What to do about a flaw; an open call needs nothing but the next start.
ADVICE = {
    "damage": "look at it, then acknowledge it: python -m lai repair {path}",
    "illegal": "look at it, then acknowledge it: python -m lai repair {path}",
    "unknown": "find out, then: python -m lai resolve {path} EXECUTION happened --evidence TEXT",
    "open": "start the chat on this session; it goes on where it stopped",
}


def _verify(path: Path) -> int:
    session = Session.read(path)
    found = report.flaws(session)
    for flaw in found:
        print(f"line {flaw.line}: {flaw.kind}: {flaw.text}")
        if flaw.kind in ("damage", "illegal"):
            print(f"    {_excerpt(session, flaw.line)}")
    for advice in dict.fromkeys(ADVICE[f.kind] for f in found if f.kind in ADVICE):
        print(f"-> {advice.format(path=visible(str(path)))}")
    print(f"{len(session.records)} records, {len(found) or 'nothing'} to report")
    return 1 if found else 0


def _excerpt(session: Session, line: int) -> str:
    text = session.raw(line)[1].decode("utf-8", "backslashreplace")
    return report.fit(visible(text), 140)


def _repair(path: Path) -> int:
    with Session.open(path) as session:
        found = [f for f in report.flaws(session) if f.kind in ("damage", "illegal")]
        for flaw in found:
            print(f"line {flaw.line}: {flaw.text}\n    {_excerpt(session, flaw.line)}")
            session.acknowledge(flaw.line)
    print(
        f"{len(found)} acknowledged, nothing removed; tools may run again"
        if found
        else "nothing to repair"
    )
    return 0


def _named(known: Collection[str], text: str) -> list[str]:
    """The ids that a person may mean: the very one, else those that begin so."""
    stem = text.rstrip("…")
    return [stem] if stem in known else [i for i in known if stem and i.startswith(stem)]


def _resolve(path: Path, execution: str, outcome: Outcome, evidence: str) -> int:
    with Session.open(path) as session:
        history = History.of(session.records, session.lines, session.lost_lines)
        known = _named(history.ledger.executions, execution)
        if len(known) != 1:
            raise LaiError(
                f"{execution} names {len(known)} attempts of {path}; python -m lai show {path} "
                "lists them"
            )
        Journal(session, history).resolve(known[0], outcome, evidence, by="command line")
    print(f"{visible(known[0])}: {outcome}. The model is told when the session goes on.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

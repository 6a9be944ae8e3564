"""The command line: a chat that survives being killed, and a look at its session.

    python -m lai [--workspace DIR]          chat; finishes an interrupted turn first
    python -m lai --self-check               try the essential promises on this machine
    python -m lai show FILE                  a session as a table
    python -m lai verify FILE                what is damaged, open or unknown; exit 1 if any
    python -m lai repair FILE                acknowledge damage after looking at it
    python -m lai resolve FILE EXECUTION happened|not-happened --evidence TEXT

Exit codes: 0 done, 1 ``verify`` found something, 2 an error told in one line on stderr,
3 a call waits for an approval that nobody gave, 130 stopped by Ctrl-C.
"""

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from lai import report
from lai.chat import chat
from lai.history import History
from lai.journal import Journal
from lai.records import LaiError, Outcome
from lai.selfcheck import self_check
from lai.session import Session, SessionError


class _Parser(argparse.ArgumentParser):
    """Errors in one line that ends with what to do."""

    def error(self, message: str) -> NoReturn:
        raise LaiError(f"{message}; see python -m lai --help")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. Nothing a user can cause shows a traceback."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):  # other bytes than UTF-8 end nothing
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        return _dispatch(_parser().parse_args(arguments))
    except LaiError as error:
        print(f"lai: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away; there is nobody left to tell
        return 0


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = _Parser(
        prog="python -m lai",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workspace", type=Path, default=Path(), metavar="DIR")
    parser.add_argument("--self-check", action="store_true")
    commands = parser.add_subparsers(dest="command", parser_class=_Parser, metavar="")
    for name in ("show", "verify", "repair", "resolve"):
        command = commands.add_parser(name)
        command.add_argument("file", type=Path)
    command.add_argument("execution")
    command.add_argument("outcome", choices=("happened", "not-happened"))
    command.add_argument("--evidence", required=True, metavar="TEXT")
    return parser


def _dispatch(given: argparse.Namespace) -> int:
    if given.self_check:
        self_check()
        print("self-check passed")
        return 0
    match given.command:
        case "show":
            print("\n".join(report.table(report.rows(Session.read(given.file)))))
            return 0
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


def _verify(path: Path) -> int:
    session = Session.read(path)
    found = report.flaws(session)
    for flaw in found:
        print(f"line {flaw.line}: {flaw.kind}: {flaw.text}")
    print(f"{len(session.records)} records, {len(found) or 'nothing'} to report")
    return 1 if found else 0


def _repair(path: Path) -> int:
    with Session.open(path) as session:
        found = [f for f in report.flaws(session) if f.kind in ("damage", "illegal")]
        for flaw in found:
            session.acknowledge(flaw.line)
            print(f"acknowledged: {flaw.text}")
    print("nothing was removed; tools may run again" if found else "nothing to repair")
    return 0


def _resolve(path: Path, execution: str, outcome: Outcome, evidence: str) -> int:
    with Session.open(path) as session:
        lost = [damage.line for damage in session.damage if damage.lost]
        history = History.of(session.records, session.lines, lost)
        stem = execution.rstrip("…")
        known = [i for i in history.ledger.executions if i.startswith(stem)]
        if len(known) != 1:
            raise LaiError(
                f"{execution} names {len(known)} attempts of {path}; python -m lai show {path} "
                "lists them"
            )
        Journal(session, history).resolve(known[0], outcome, evidence, by="command line")
    print(f"{known[0]}: {outcome}. The model is told when the session goes on.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

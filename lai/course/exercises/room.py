"""The library's cut where a case says itself how many tokens there are for the newest messages."""

from lai.actions import Compact
from lai.budget import Budget
from lai.compaction import plan
from lai.history import History
from lai.records import Record
from lai.tokens import estimate_message


class Room(Budget):
    """A budget that is all for the newest messages: its window is the room they have."""

    def kept(self, pinned: float) -> float:
        """The whole window, whatever is pinned besides."""
        del pinned
        return self.window


def size(records: list[Record]) -> int:
    """The tokens of the messages among these records."""
    return sum(estimate_message(r["message"]) for r in records if r["type"] == "message")


def cut_within(records: list[Record], room: int) -> Compact | None:
    """What the library plans for these records if the newest messages may keep ``room`` tokens."""
    return plan(History.of(records), Room(room))

"""Remote operations whose outcome a timeout leaves open: the public names.

Start reading at ``records``. The reading order is the order of the imports.
"""

from lai.operations.answers import Answer, Contract, Remote, Reply, read_reply
from lai.operations.client import Client
from lai.operations.outbox import Message, consume, relay
from lai.operations.patience import Patient
from lai.operations.policy import RecoveryAction, recovery_action, schedule
from lai.operations.records import (
    MAY_FOLLOW,
    TERMINAL,
    IllegalChange,
    Operation,
    OperationError,
    State,
    Who,
)
from lai.operations.references import Reference, References, Unreadable
from lai.operations.review import Decision, Outcome, question, resolve
from lai.operations.store import ClaimLost, KeyConflict, Store
from lai.operations.tools import report_tools
from lai.operations.waiting import within
from lai.operations.work import Service, Worker

__all__ = [
    "MAY_FOLLOW",
    "TERMINAL",
    "Answer",
    "ClaimLost",
    "Client",
    "Contract",
    "Decision",
    "IllegalChange",
    "KeyConflict",
    "Message",
    "Operation",
    "OperationError",
    "Outcome",
    "Patient",
    "RecoveryAction",
    "Reference",
    "References",
    "Remote",
    "Reply",
    "Service",
    "State",
    "Store",
    "Unreadable",
    "Who",
    "Worker",
    "consume",
    "question",
    "read_reply",
    "recovery_action",
    "relay",
    "report_tools",
    "resolve",
    "schedule",
    "within",
]

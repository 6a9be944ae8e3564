"""Agents that survive being killed: the public names. Start reading at ``records``."""

from lai.actions import (
    Action,
    Ask,
    AskVerdict,
    Attempt,
    CallModel,
    Compact,
    Done,
    LookUp,
    Publish,
    Settle,
)
from lai.agent import Agent, TurnOpen, TurnTooLong
from lai.approval import Question
from lai.budget import Budget
from lai.calls import ArgumentsError, arguments_sha256
from lai.completion import ContextFull
from lai.context import build_prompt_view
from lai.executions import Execution
from lai.history import History
from lai.ledger import (
    LEGAL,
    IllegalTransition,
    latest_execution_by_tool_call,
    latest_execution_states,
    pending_tool_calls,
)
from lai.models import (
    ModelError,
    budget_from_environment,
    model_from_environment,
    scripted,
)
from lai.records import LaiError, Outcome, RecordError, Status
from lai.recovery import POLICY, decide
from lai.replies import Reply
from lai.session import Session
from lai.storage import (
    SessionDamaged,
    SessionError,
    SessionFailed,
    SessionLocked,
    session_path,
)
from lai.summary import CompactionRefused
from lai.tools import Answer, Arguments, Effect, Finding, Run, Tool, ToolError, Unconfirmed
from lai.workspace import workspace_tools

__all__ = [
    "LEGAL",
    "POLICY",
    "Action",
    "Agent",
    "Answer",
    "Arguments",
    "ArgumentsError",
    "Ask",
    "AskVerdict",
    "Attempt",
    "Budget",
    "CallModel",
    "Compact",
    "CompactionRefused",
    "ContextFull",
    "Done",
    "Effect",
    "Execution",
    "Finding",
    "History",
    "IllegalTransition",
    "LaiError",
    "LookUp",
    "ModelError",
    "Outcome",
    "Publish",
    "Question",
    "RecordError",
    "Reply",
    "Run",
    "Session",
    "SessionDamaged",
    "SessionError",
    "SessionFailed",
    "SessionLocked",
    "Settle",
    "Status",
    "Tool",
    "ToolError",
    "TurnOpen",
    "TurnTooLong",
    "Unconfirmed",
    "arguments_sha256",
    "budget_from_environment",
    "build_prompt_view",
    "decide",
    "latest_execution_by_tool_call",
    "latest_execution_states",
    "model_from_environment",
    "pending_tool_calls",
    "scripted",
    "session_path",
    "workspace_tools",
]

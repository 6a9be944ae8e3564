"""All seeded faults: what the tests are measured by. ``mutate`` tries them."""

from mutants_disk import DISK
from mutants_file import FILE
from mutants_o import OPERATIONS
from mutants_prompt import PROMPT
from mutants_reach import REACH
from mutants_store import STORE
from mutants_turn import TURN
from mutants_view import VIEW

MUTANTS = (*DISK, *FILE, *TURN, *VIEW, *PROMPT, *REACH, *OPERATIONS, *STORE)

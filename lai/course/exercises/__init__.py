"""The exercises of the course, in order: one module each, and nothing is run here.

``lai.course.checking`` judges an answer; ``model`` says what an exercise is made of.
"""

from types import MappingProxyType

from lai.course.exercises import (
    x03_1a_torn_tail,
    x03_1b_lost_line,
    x03_2_strict_arguments,
    x03_3a_cut,
    x03_3b_word_for_word,
    x04_2a_hash,
    x04_2b_pending,
    x04_2c_view,
    x04_3a_policy,
    x04_3b_may_follow,
    x04_3c_standing,
    x04_4_base,
    x04_5_step,
)
from lai.course.exercises.model import Exercise
from lai.records import LaiError

_MODULES = (
    x03_1a_torn_tail,
    x03_1b_lost_line,
    x03_2_strict_arguments,
    x03_3a_cut,
    x03_3b_word_for_word,
    x04_2a_hash,
    x04_2b_pending,
    x04_2c_view,
    x04_3a_policy,
    x04_3b_may_follow,
    x04_3c_standing,
    x04_4_base,
    x04_5_step,
)
EXERCISES: MappingProxyType[str, Exercise] = MappingProxyType(
    {module.EXERCISE.number: module.EXERCISE for module in _MODULES}
)


def exercise(number: str) -> Exercise:
    """The exercise of that number. Raises :class:`LaiError` with the numbers there are."""
    if not isinstance(number, str) or number not in EXERCISES:
        raise LaiError(f"there is no exercise {number!r}; there are: {', '.join(EXERCISES)}")
    return EXERCISES[number]

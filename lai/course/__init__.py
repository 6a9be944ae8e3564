"""What the notebooks use: scenes, tables, pictures, questions, crash runs and checks.

Nothing in the core of `lai` imports this package; everything here may import the core. It is
for people who are looking: what it shows is always read back from a session file, never from
what a run says about itself.

    from lai.course import check, solution, stub
"""

from lai.course.checking import check, solution, stub

__all__ = ["check", "solution", "stub"]

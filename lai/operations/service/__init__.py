"""The far side: a report service to call, with every way in which an answer can get lost.

It stands for somebody else's program. Nothing of ours looks into it except to count what it
really did. Start it with ``running.running`` or ``python -m lai.operations.service``.
"""

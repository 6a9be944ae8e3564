"""What the helper process of ``child`` imports before it forks: everything, used once.

The first answer of a client builds many classes; here that is paid for once, so that a
child costs milliseconds. Nobody else imports this module.
"""

from lai.course import child
from lai.models import offline_model

__all__ = ["child"]
offline_model()([{"role": "user", "content": "what can you do?"}], [])

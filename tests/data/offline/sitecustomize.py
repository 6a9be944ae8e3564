"""Python imports this by itself when its folder is on PYTHONPATH: only loopback is reached.

An audit hook cannot be removed, and it holds in every child of the process as well.
"""

import ipaddress
import sys
from typing import Any

SENDING = ("socket.connect", "socket.sendto", "socket.sendmsg")
NAMING = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


def loopback(host: Any) -> bool:
    """Whether a host is this machine; a name that would have to be looked up is not."""
    try:
        return host in (None, "", "localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def guard(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what would leave this machine."""
    if event in SENDING and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event in NAMING:
        host = arguments[0]
    else:
        return
    if not loopback(host):
        raise PermissionError(f"this process may not leave the machine: {host}")


sys.addaudithook(guard)

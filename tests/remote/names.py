"""A network whose names mean what a test wants, and which leaves this machine never."""

import asyncio
import socket
from collections import Counter

from trunkline.remote.http.connector import AddressInfo, Network


class Names(Network):
    """Answers for names, one after the other; the last one stays. Text that stands for an
    address is left to the system.

    `dialled` are the addresses that connections were made to, or would have been: one that is
    not on this machine refuses.
    """

    def __init__(self, **answers: list[list[str]]) -> None:
        """Names are written with `_` for the dot."""
        self._answers = {name.replace("_", "."): [*each] for name, each in answers.items()}
        self.asked: Counter[str] = Counter()
        self.dialled: list[list[str]] = []
        # Where connections really go, if not where they should.
        self.detour: tuple[str, int] | None = None

    def say(self, name: str, *answers: list[str]) -> None:
        self._answers[name] = [*answers]

    async def resolve(self, host: str, port: int) -> list[AddressInfo]:
        self.asked[host] += 1
        if host not in self._answers:
            return await super().resolve(host, port)
        answers = self._answers[host]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [info(address, port) for address in answer]

    async def dial(self, found: list[AddressInfo]) -> socket.socket:
        self.dialled.append([str(one[4][0]) for one in found])
        if self.detour is not None:
            return await _dial(*self.detour)
        address = found[0][4][0]
        if not str(address).startswith("127.") and address not in ("::1", "0.0.0.0", "::"):
            raise ConnectionRefusedError(111, "refused")
        return await super().dial(found)


def info(address: str, port: int) -> AddressInfo:
    if ":" in address:
        bare, _, zone = address.partition("%")
        return socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address if zone else bare, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)


async def _dial(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (host, port))
    return sock

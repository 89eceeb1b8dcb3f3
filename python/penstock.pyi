# SPDX-License-Identifier: Apache-2.0
"""The packet path of nftables: rulesets over packets of a program.

Times are nanoseconds since the epoch; where none is given it is the machine's. Packets are bytes, or
anything that bytes() takes, such as a packet of scapy. They begin with an Ethernet header unless it
says otherwise, and their checksums are whole.
"""

import os
from typing import List, Literal, Optional, Protocol, Sequence, Tuple, TypedDict, Union, final, type_check_only

__version__: str

@type_check_only
class _Bytes(Protocol):
    def __bytes__(self) -> bytes: ...

_Packet = Union[bytes, bytearray, memoryview, _Bytes]

@final
class Message:
    """A message about a text, with its place."""

    @property
    def severity(self) -> Literal["error", "warning"]: ...
    @property
    def text(self) -> str:
        """The message without its place."""
    @property
    def file(self) -> Optional[str]:
        """Name of the text; None if the message is about no place in one."""
    @property
    def line(self) -> Optional[int]:
        """Line, from 1."""
    @property
    def first(self) -> Optional[int]:
        """First column, from 1; None in a network."""
    @property
    def last(self) -> Optional[int]:
        """Last column, from 1; None in a network."""

class Error(ValueError):
    """Why something was refused; its text is that of nft, with the line and marks."""

    messages: List[Message]
    """The messages of a ruleset or a network one by one; empty for other errors."""

@final
class Network:
    """Devices, addresses, routes and neighbours, from lines for `ip -batch`."""

    def __new__(cls, lines: str) -> Network: ...
    @staticmethod
    def read(path: Union[str, "os.PathLike[str]"]) -> Network:
        """Reads a file of such lines."""
    @property
    def devices(self) -> List[str]:
        """Names of the devices, in order of creation; the first is `lo`."""

@final
class Counter:
    """What a rule, or a named counter, has counted."""

    @property
    def family(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def chain(self) -> Optional[str]:
        """The rule's chain; None for a named counter."""
    @property
    def handle(self) -> Optional[int]:
        """The rule's handle; None for a named counter."""
    @property
    def name(self) -> str:
        """The rule as nft lists it, without numbers, or the counter's name."""
    @property
    def packets(self) -> int: ...
    @property
    def bytes(self) -> int: ...

@final
class Ruleset:
    """A ruleset, as `nft -f` reads it."""

    def __new__(
        cls,
        network: Network,
        rules: str,
        *,
        name: str = "ruleset",
        defines: Optional[Sequence[Tuple[str, str]]] = None,
        time: Optional[int] = None,
    ) -> Ruleset: ...
    @staticmethod
    def from_json(network: Network, rules: str) -> Ruleset:
        """Reads a ruleset as `nft -j -f` does."""
    @staticmethod
    def read(network: Network, path: Union[str, "os.PathLike[str]"]) -> Ruleset:
        """Reads a file as `nft -f` does; it may include others."""
    @staticmethod
    def from_state(network: Network, state: bytes, *, time: Optional[int] = None) -> Ruleset:
        """Takes the ruleset of the bytes of a state file."""
    def text(self, *, time: Optional[int] = None) -> str:
        """The ruleset as `nft list ruleset` prints it."""
    def json(self, *, time: Optional[int] = None) -> str:
        """The ruleset as `nft -j list ruleset` prints it."""
    def state(self, *, time: Optional[int] = None) -> bytes:
        """The ruleset as the bytes of a state file."""
    def counters(self) -> List[Counter]:
        """All counters: of each table the named ones, and then those of rules."""

@final
class Session:
    """Changes a ruleset by commands of nft, each text one transaction."""

    def __new__(cls, ruleset: Ruleset) -> Session: ...
    def run(self, commands: str, *, time: Optional[int] = None) -> str:
        """Runs commands; gives what nft prints on standard output."""
    @property
    def ruleset(self) -> Ruleset:
        """The ruleset as it is now."""

@final
class Outcome:
    """What came of a packet."""

    @property
    def fate(self) -> Literal["sent", "delivered", "dropped", "held"]: ...
    @property
    def device(self) -> Optional[str]:
        """The device that the packet left by, or came to the host by."""
    @property
    def reason(self) -> Optional[str]:
        """Why it was dropped: `rule`, `policy`, `no route`."""
    @property
    def rule(self) -> Optional[str]:
        """The rule or policy that dropped it: `inet filter forward handle 12`."""
    @property
    def sent(self) -> List[Tuple[str, bytes]]:
        """Frames that left, answers included, each with its device."""
    @property
    def delivered(self) -> List[bytes]:
        """Packets that came to the host, from their network header on."""
    @property
    def logs(self) -> List[str]:
        """Prefixes of `log` statements."""
    @property
    def trace(self) -> List[str]:
        """Lines of `nft monitor trace`."""

@type_check_only
class Counters(TypedDict):
    received: int
    sent: int
    delivered: int
    from_host: int
    dropped: int
    drops: "dict[str, int]"

@final
class Dataplane:
    """What packets pass through: hooks, connections, NAT, routing.

    With a seed, runs repeat. The engine is `interpreter` or `jit`; by default the best.
    """

    def __new__(
        cls,
        network: Network,
        ruleset: Ruleset,
        *,
        seed: Optional[int] = None,
        engine: Optional[Literal["interpreter", "jit"]] = None,
    ) -> Dataplane: ...
    def process(self, device: str, frame: _Packet, *, time: Optional[int] = None) -> Outcome:
        """Passes a frame that came in by a device."""
    def send(self, packet: _Packet, *, time: Optional[int] = None) -> Outcome:
        """Sends an IP packet, from its header on, as the host does."""
    def advance(self, time: int) -> None:
        """Lets time pass without packets."""
    def set_rules(self, session: Session) -> None:
        """Puts the rules of a session in force; connections and counters stay."""
    def trace_all(self, on: bool) -> None:
        """Traces every packet from now on, or no longer."""
    def counters(self) -> Counters:
        """What happened to how many packets so far."""
    def connections(self) -> List[str]:
        """The connections that are tracked, each as a line of `conntrack -L`."""

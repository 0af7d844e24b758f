# Runs the code of a session. Two processes: the supervisor, which the sandbox started, and the worker, its child.
#
# The supervisor reads frames from standard input and writes frames to standard output. The worker runs the code, with
# pipes as standard output and error, so that whatever the code or its children write is captured and can forge no
# frame, and the supervisor answers even where the worker hangs, is killed or closes its descriptors.
#
# A frame is one line of ASCII: nonce, number in its direction, run, kind, length, payload in hexadecimal digits.
# Needs Python 3.8 and its standard library.
import sys

# A file of the working directory must not stand in for a module that is needed here. Code gets the entry back.
FROM_CWD = sys.path[:1] == [""]
if FROM_CWD:
    del sys.path[0]

import __future__
import ast
import builtins
import fcntl
import linecache
import os
import select
import signal
import termios
import time
import traceback
import types

PROTOCOL = "code/1"
PAYLOAD_MAX = 32768
LINE_MAX = 2 * PAYLOAD_MAX + 256
# What is kept, in bytes, of the output that comes while no code runs.
KEPT_BETWEEN_RUNS = 1 << 20
# How long, in seconds, an idle worker may take to end after the end of input.
END_WITHIN = 2
FUTURES = 0
for feature in __future__.all_feature_names:
    FUTURES |= getattr(__future__, feature).compiler_flag


class Broken(Exception):
    """A frame that cannot be read, or the end of a stream in which frames are due."""


class Frames:
    """Frames in both directions, over two descriptors."""

    def __init__(self, source, target, nonce=None):
        self.source = source
        self.target = target
        self.nonce = nonce
        self.received = 0
        self.sent = 0
        self.rest = b""

    def fill(self):
        """Reads once. False at the end."""
        try:
            data = os.read(self.source, 65536)
        except BlockingIOError:
            return True
        self.rest += data
        return bool(data)

    def take(self):
        """The next whole frame as (run, kind, payload), or None."""
        line, end, rest = self.rest.partition(b"\n")
        if not end:
            if len(line) > LINE_MAX:
                raise Broken("a frame is too long")
            return None
        self.rest = rest
        try:
            nonce, number, run, kind, length, digits = line.decode("ascii").split(" ")
            payload = bytes.fromhex(digits)
            whole = len(payload) == int(length) <= PAYLOAD_MAX and int(number) == self.received
            run = int(run)
        except ValueError:
            raise Broken("a frame cannot be read")
        if self.nonce is None:
            self.nonce = nonce
        if not whole or nonce != self.nonce:
            raise Broken("a frame is not the one that is due")
        self.received += 1
        return run, kind, payload

    def send(self, run, kind, payload=b""):
        """Sends a payload, in several frames if it is long."""
        start = 0
        while True:
            part = payload[start : start + PAYLOAD_MAX]
            words = (self.nonce, self.sent, run, kind, len(part), part.hex())
            self.sent += 1
            write_all(self.target, ("%s %d %d %s %d %s\n" % words).encode("ascii"))
            start += PAYLOAD_MAX
            if start >= len(payload):
                return


def write_all(target, data):
    data = memoryview(data)
    while data:
        try:
            data = data[os.write(target, data) :]
        except BlockingIOError:
            select.select([], [target], [])


def private(descriptor):
    """The same under a high number, which code seldom meets. Programs do not inherit it."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(descriptor)
    return copy


def pipe():
    return tuple(map(private, os.pipe()))



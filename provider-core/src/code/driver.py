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


# ---------------------------------------------------------------------------------------------------- the worker


class Worker:
    """Runs code, one piece after the other, in one namespace."""

    def __init__(self, requests, answers, outputs):
        self.frames = Frames(requests, answers)
        self.outputs = outputs
        self.process = os.getpid()
        self.flags = 0
        module = types.ModuleType("__main__")
        module.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = module
        self.scope = module.__dict__
        sys.argv = [""]
        # Since 3.13 this file's lines would be shown for code that the code itself compiles.
        linecache.cache.pop(THIS_FILE, None)
        if FROM_CWD:
            sys.path.insert(0, "")

    def serve(self):
        source = b""
        while True:
            frame = self.frames.take()
            if frame is None:
                if not self.frames.fill():
                    return
                continue
            run, kind, payload = frame
            if kind == "C":
                source += payload
            elif kind == "R":
                self.answer(run, source.decode("utf-8"), int(payload))
                source = b""

    def answer(self, run, source, cap):
        self.mend_streams()
        texts = {}
        # An interrupt is an exception from here until the work ends, whatever handler earlier code has set.
        try:
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                self.frames.send(run, "B")
                self.work(run, source, texts)
            finally:
                signal.signal(signal.SIGINT, ignore)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, ignore)
            texts = {"N": "KeyboardInterrupt", "M": "", "T": "KeyboardInterrupt\n"}
        if os.getpid() != self.process:
            end_of_fork(texts)
        flags = 0
        for kind, bit in (("V", 1), ("N", 2), ("M", 2), ("T", 2)):
            if kind in texts:
                data = texts[kind].encode("utf-8", "backslashreplace")
                flags |= bit | (4 if len(data) > cap else 0)
                self.frames.send(run, kind, data[:cap])
        self.frames.send(run, "D", b"%d" % flags)

    def work(self, run, source, texts):
        try:
            value = self.execute("<code %d>" % run, source)
            if value is not None:
                texts["V"] = repr(value)
        except BaseException as error:
            texts.clear()
            texts.update(explain(error))
        for name in ("stdout", "stderr"):
            try:
                getattr(sys, name).flush()
            except Exception:
                pass

    def execute(self, name, source):
        """Runs all statements; answers the value of the last one, if that is an expression."""
        # So that tracebacks show the code's lines.
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        tree = compile(source, name, "exec", self.flags | ast.PyCF_ONLY_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        # All is compiled before anything runs, so that code with an error of syntax runs not at all.
        body = compile(tree, name, "exec", self.flags, True)
        self.flags |= body.co_flags & FUTURES
        last = last and compile(last, name, "eval", self.flags, True)
        exec(body, self.scope)
        return last and eval(last, self.scope)

    def mend_streams(self):
        """Opens again what earlier code has closed."""
        for descriptor, spare in enumerate(self.outputs, 1):
            try:
                os.fstat(descriptor)
            except OSError:
                os.dup2(spare, descriptor)
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, "closed", False):
                setattr(sys, name, open(descriptor, "w", 1, closefd=False))


def ignore(_signal, _frame):
    """In place of SIG_IGN, which children would inherit."""


def explain(error):
    """Name, message and traceback of an exception, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == THIS_FILE:
        trace = trace.tb_next
    name = type(error).__name__
    try:
        message = str(error)
        lines = "".join(traceback.format_exception(type(error), error, trace))
    except Exception:
        message, lines = "", "%s (its message cannot be shown)\n" % name
    return {"N": name, "M": message, "T": lines}


THIS_FILE = explain.__code__.co_filename


def end_of_fork(texts):
    """A process that the code forked, and that has come to the end of the code, ends as a script does."""
    status = 0
    if "N" in texts:
        status = 1
        if texts["N"] == "SystemExit":
            status = int(texts["M"]) if texts["M"].isdigit() else int(texts["M"] not in ("", "None"))
        else:
            write_all(2, texts["T"].encode("utf-8", "backslashreplace"))
    os._exit(status & 255)


# ------------------------------------------------------------------------------------------------ the supervisor


class Output:
    """One of the worker's two output streams."""

    def __init__(self, kind, source):
        self.kind = kind
        self.source = source
        self.open = True
        self.kept = b""
        self.room = 0
        self.dropped = False
        os.set_blocking(source, False)

    def read(self, size=65536):
        try:
            data = os.read(self.source, size)
        except BlockingIOError:
            return None
        self.open = bool(data)
        return data


class Supervisor:
    def __init__(self, worker, to_worker, from_worker, outputs):
        self.host = Frames(0, 1)
        self.worker = worker
        self.status = None
        self.to_worker = to_worker
        self.from_worker = from_worker
        self.code = None
        self.outputs = outputs
        self.cap = 0
        self.run = None
        self.begun = False
        self.interrupted = False
        os.set_blocking(from_worker, False)
        self.woken, wake = pipe()
        for end in (self.woken, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, ignore)
        signal.signal(signal.SIGINT, lambda *_: self.interrupt())
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.end_at_once)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self):
        while True:
            self.look_after_worker()
            waiting = [0, self.woken]
            if self.status is None:
                waiting.append(self.from_worker)
            waiting += [output.source for output in self.outputs if output.open]
            poll = select.poll()
            for descriptor in waiting:
                poll.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self.woken in ready:
                os.read(self.woken, 512)
            for output in self.outputs:
                if output.source in ready:
                    self.pass_on(output, output.read())
            if self.from_worker in ready:
                self.hear_worker()
            if 0 in ready and not self.hear_host():
                return

    def hear_host(self):
        more = self.host.fill()
        while True:
            frame = self.host.take()
            if frame is None:
                return more
            run, kind, payload = frame
            if kind == "H":
                version = "%d.%d.%d" % sys.version_info[:3]
                self.code = Frames(self.from_worker, self.to_worker, self.host.nonce)
                self.host.send(run, "H", ("%s %s" % (PROTOCOL, version)).encode())
            elif kind == "C":
                self.tell_worker(run, kind, payload)
            elif kind == "R":
                self.begin(run, payload)
            elif kind == "I":
                # The host learns that it is the code that does not answer.
                self.host.send(run, "A")
                if run == self.run:
                    self.interrupt()

    def begin(self, run, cap):
        self.run, self.cap = run, int(cap)
        self.begun = self.interrupted = False
        for output in self.outputs:
            kept, output.kept, output.room = output.kept, b"", self.cap
            self.pass_on(output, kept)
        self.tell_worker(run, "R", cap)

    def tell_worker(self, run, kind, payload):
        if self.status is None:
            try:
                self.code.send(run, kind, payload)
            except BrokenPipeError:
                self.kill_worker()

    def interrupt(self):
        """As a terminal does: to the worker, and to its children in the same group. Not before the code has begun."""
        self.interrupted = True
        if self.run is not None and self.begun and self.status is None:
            signal_group(self.worker, signal.SIGINT)

    def hear_worker(self):
        more = self.code is None or self.code.fill()
        try:
            frame = self.code and self.code.take()
            while frame:
                self.answer(*frame)
                frame = self.code.take()
        except Broken:
            more = False
        if not more:
            # Nothing can come any more: the code has closed what is not its own, or the worker ends.
            self.kill_worker()

    def answer(self, run, kind, payload):
        if run != self.run or kind not in "BVNMTD":
            raise Broken("the worker's answer is not the one that is due")
        if kind == "B":
            self.begun = True
            if self.interrupted:
                self.interrupt()
        elif kind == "D":
            self.drain()
            flags = int(payload)
            self.end_run("D", b"%d" % (flags | 4 * self.has_dropped()))
        else:
            self.host.send(run, kind, payload)

    def end_run(self, kind, payload):
        run, self.run = self.run, None
        self.host.send(run, kind, payload)

    def has_dropped(self):
        dropped = any(output.dropped for output in self.outputs)
        for output in self.outputs:
            output.dropped = False
        return dropped

    def pass_on(self, output, data):
        if not data:
            return
        if self.run is None:
            room = KEPT_BETWEEN_RUNS - len(output.kept)
            output.kept += data[:room]
        else:
            room = output.room
            output.room -= len(data[:room])
            if room:
                self.host.send(self.run, output.kind, data[:room])
        output.dropped |= len(data) > room

    def drain(self):
        """Passes on what was written until now, and not what others go on writing."""
        for output in self.outputs:
            held = fcntl.ioctl(output.source, termios.FIONREAD, b"\0\0\0\0") if output.open else b""
            left = int.from_bytes(held, sys.byteorder)
            while left > 0:
                data = output.read(min(left, 65536))
                if not data:
                    break
                left -= len(data)
                self.pass_on(output, data)

    def look_after_worker(self):
        if self.status is None:
            process, status = os.waitpid(self.worker, os.WNOHANG)
            if process:
                self.bury(status)
        if self.status is not None and self.run is not None:
            self.drain()
            self.end_run("X", self.status)

    def kill_worker(self):
        if self.status is None:
            signal_group(self.worker, signal.SIGKILL)
            self.bury(os.waitpid(self.worker, 0)[1])

    def bury(self, status):
        """What the worker answered before it ended is passed on; what it started ends with it."""
        if os.WIFSIGNALED(status):
            self.status = b"signal %d" % os.WTERMSIG(status)
        else:
            self.status = b"code %d" % os.WEXITSTATUS(status)
        signal_group(self.worker, signal.SIGKILL)
        if self.code is not None:
            self.code.fill()
            self.hear_worker()

    def end(self):
        """The host is gone. An idle worker may end by itself."""
        os.close(self.to_worker)
        until = time.monotonic() + (END_WITHIN if self.run is None else 0)
        while self.status is None and time.monotonic() < until:
            for output in self.outputs:
                output.read()
            if os.waitpid(self.worker, os.WNOHANG)[0]:
                break
            time.sleep(0.02)
        signal_group(self.worker, signal.SIGKILL)

    def end_at_once(self, number, _frame):
        signal_group(self.worker, signal.SIGKILL)
        os._exit(128 + number)


def signal_group(leader, number):
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass


def main():
    requests, to_worker = pipe()
    from_worker, answers = pipe()
    out, out_end = pipe()
    err, err_end = pipe()
    worker = os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        for descriptor in (to_worker, from_worker, out, err):
            os.close(descriptor)
        # The code's input is at its end. Nothing is left of the descriptors that lead out.
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (out_end, 1), (err_end, 2)):
            os.dup2(source, target)
        if nothing > 2:
            os.close(nothing)
        signal.signal(signal.SIGINT, ignore)
        Worker(requests, answers, (out_end, err_end)).serve()
        return
    status = 1
    try:
        try:
            os.setpgid(worker, worker)
        except OSError:
            pass
        for descriptor in (requests, answers, out_end, err_end):
            os.close(descriptor)
        supervisor = Supervisor(worker, to_worker, from_worker, [Output("O", out), Output("E", err)])
        try:
            supervisor.serve()
            status = 0
        finally:
            supervisor.end()
    except BrokenPipeError:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


main()

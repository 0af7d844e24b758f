# The supervisor: stands between the sandbox and the worker.


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

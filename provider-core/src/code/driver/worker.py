# The worker: runs the code.


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



# Which interpreter this is, and which installers answer. Arguments: the probe's name, the installers.
import sys

# A file of the working directory must not stand in for a module.
if sys.path[:1] == [""]:
    del sys.path[0]

import os
import shutil
import subprocess


def line(key, value):
    sys.stdout.write("%s=%s\n" % (key, value))


def digits(text):
    return os.fsencode(text).hex()


def ask(installer):
    """Whether and how it answers."""
    path = shutil.which(installer)
    if path is None:
        return "absent", ""
    try:
        run = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return "fails", ""
    says = run.stdout.decode("utf-8", "replace").strip()
    return ("answers" if run.returncode == 0 and says else "fails"), says


version = sys.version_info
stage = {"alpha": "a", "beta": "b", "candidate": "rc"}.get(version.releaselevel)
line("probe", "python/1")
line("version", digits("%d.%d.%d" % version[:3] + ("%s%d" % (stage, version.serial) if stage else "")))
line("path", digits(sys.executable or ""))
for name in sys.argv[2:]:
    state, says = ask(name)
    line("installer", digits(name))
    line("state", state)
    line("says", digits(says))
line("end", "python/1")

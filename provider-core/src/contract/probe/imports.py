# Which versions of packages are installed, and whether their modules can be imported.
# Arguments: the probe's name, then for each package JSON of the form {"name": .., "versions": [[version, marker]]}.
import sys

# A file of the working directory must not stand in for a module.
if sys.path[:1] == [""]:
    del sys.path[0]

import importlib.metadata
import inspect
import json
import os
import re
import subprocess

# How long, in seconds, the import of one module may take.
LIMIT = 120

# Imports a module, and says the token at the end: a module that ends the process does not pass.
IMPORT = """
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import importlib, os
token, module = sys.argv[1:]
sys.argv = [""]
importlib.import_module(module)
os.write(1, token.encode())
"""


def line(key, value):
    sys.stdout.write("%s=%s\n" % (key, value))


def digits(text):
    return text.encode("utf-8", "backslashreplace").hex()


def normalised(name):
    return re.sub("[-_.]+", "-", name).lower()


def installed():
    """The distributions by name. The first on the path counts, as it does for an import."""
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(normalised(name), distribution)
    return found


def judge():
    """What evaluates a marker, or None."""
    for name in ("pip._vendor.packaging.markers", "packaging.markers"):
        try:
            return importlib.import_module(name).Marker
        except Exception:
            pass
    return None


def holds(marker_class, marker):
    """Whether a marker holds here. One that cannot be evaluated is taken to hold."""
    if marker is None or marker_class is None:
        return True
    try:
        return bool(marker_class(marker).evaluate())
    except Exception:
        return True


def modules(distribution):
    """The modules and packages that a distribution brings, each by the shortest name that runs its code."""
    paths = [path.parts for path in distribution.files or ()]
    packages = {path[:-1] for path in paths if path[-1] == "__init__.py"}
    found = set()
    for path in paths:
        stem = inspect.getmodulename(path[-1])
        parts = path[:-1] + (stem or "",)
        if stem is None or "__pycache__" in parts or not all(part.isidentifier() for part in parts):
            continue
        inside = [parts[:length] for length in range(1, len(parts)) if parts[:length] in packages]
        if inside:
            found.add(".".join(inside[0]))
        elif len(parts) == 1 and not stem.startswith("__"):
            found.add(stem)
        elif len(parts) > 1 and not any(package[0] == parts[0] for package in packages):
            # A namespace without a package in it.
            found.add(parts[0])
    if not found:
        listed = (distribution.read_text("top_level.txt") or "").split()
        found.update(name for name in listed if name.isidentifier())
    return sorted(found)


def try_import(module):
    """What speaks against a module, or nothing."""
    token = os.urandom(16).hex()
    try:
        run = subprocess.run(
            [sys.executable, "-c", IMPORT, token, module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return "not done in %d s" % LIMIT
    if run.returncode == 0 and token.encode() in run.stdout:
        return ""
    lines = run.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500] if lines else "ended with %d, without a word" % run.returncode


line("probe", "imports/1")
distributions = installed()
marker_class = judge()
line("judge", "no" if marker_class is None else "yes")
for argument in sys.argv[2:]:
    package = json.loads(argument)
    distribution = distributions.get(normalised(package["name"]))
    held = [i for i, (_, marker) in enumerate(package["versions"]) if holds(marker_class, marker)]
    line("package", digits(package["name"]))
    line("holding", digits(" ".join(map(str, held))))
    line("installed", "no" if distribution is None else "yes")
    line("version", digits("" if distribution is None else distribution.version))
    names = [] if distribution is None else modules(distribution)
    line("modules", len(names))
    for name in names:
        line("module", digits(name))
        line("trouble", digits(try_import(name)))
line("end", "imports/1")

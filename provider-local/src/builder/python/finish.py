"""Leaves of an installation what belongs into a layer. Arguments: the virtual environment and the work folder."""
import os
import shutil
import sys

venv, work = sys.argv[1:3]
shutil.rmtree(work, ignore_errors=True)


def forget_moment(folder):
    """uv notes when a local file was last changed, which would make two layers of one lockfile differ."""
    try:
        os.unlink(os.path.join(folder, "uv_cache.json"))
    except FileNotFoundError:
        return
    record = os.path.join(folder, "RECORD")
    with open(record, encoding="utf-8", newline="") as file:
        lines = file.readlines()
    with open(record, "w", encoding="utf-8", newline="") as file:
        file.writelines(line for line in lines if "/uv_cache.json," not in line)


for folder, folders, files in os.walk(venv):
    if folder.endswith(".dist-info"):
        forget_moment(folder)

try:
    os.unlink(os.path.join(venv, ".lock"))
except FileNotFoundError:
    pass

if not os.path.exists(os.path.join(venv, "bin", "pip")):
    sys.exit("the packages of the lockfile have no bin/pip")

"""Gives a folder to its owner, with all that is in it. Arguments: the folder, and the owner's uid and gid."""
import os
import sys

top, uid, gid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def give(path):
    found = os.lstat(path)
    # What has its owner already stays in the layer that it is in.
    if (found.st_uid, found.st_gid) != (uid, gid):
        os.lchown(path, uid, gid)


give(top)
for folder, folders, files in os.walk(top):
    for name in folders + files:
        give(os.path.join(folder, name))

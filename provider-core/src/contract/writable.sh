# What this user can change. Nothing is left changed by asking.

# Whether a file can be made in directory $1. It is made and removed.
can_create() {
    (set -C && : >"$1/.writable-$$") 2>/dev/null || return 1
    rm -f "$1/.writable-$$"
}

# Whether the mode of $1 can be changed, as its owner could in order to write later. It is set to what it is.
can_chmod() {
    mode=$(stat -L -c %a "$1" 2>/dev/null) && chmod "$mode" "$1" 2>/dev/null
}

# Whether the content of file $1 can be changed. It is opened for appending, and nothing is written.
can_append() { (: >>"$1") 2>/dev/null; }

# Whether $1 is a mount point, which cannot be renamed or removed.
is_mount() {
    while read -r _ _ _ _ point _; do
        if [ "$point" = "$1" ]; then return 0; fi
    done 2>/dev/null </proc/self/mountinfo
    return 1
}

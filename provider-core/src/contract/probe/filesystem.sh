# What can be written. Arguments: the working directory, a text to write, the reserved path.
LC_ALL=C
export LC_ALL
workdir=$1 text=$2 reserved_path=$3

# Prints at most 20 of the lines it reads, so that a wide open tree does not flood the answer.
some() { head -n 20; }

printf 'probe=filesystem/1\n'

# A real write, read and delete in the working directory. What was read is judged by the caller.
file=$workdir/.provider-probe-$$
written=no read='' removed=no
if (set -C && printf %s "$text" >"$file") 2>/dev/null; then
    written=yes
    read=$(hex <"$file" 2>/dev/null)
    if rm -f "$file" 2>/dev/null && [ ! -e "$file" ]; then removed=yes; fi
fi
printf 'written=%s\nread=%s\nremoved=%s\n' "$written" "$read" "$removed"

# Everything at and under the reserved path must refuse.
if [ -d "$reserved_path" ]; then reserved=present; else reserved=absent; fi
printf 'reserved=%s\n' "$reserved"
printf 'entries=%s\n' "$(find "$reserved_path" -print 2>/dev/null | wc -l | tr -d ' ')"
find "$reserved_path" 2>/dev/null | while IFS= read -r entry; do
    if [ -d "$entry" ] && can_create "$entry"; then printf 'can_create=%s\n' "$(hex "$entry")"; fi
    if [ -f "$entry" ] && can_append "$entry"; then printf 'can_write=%s\n' "$(hex "$entry")"; fi
    if [ -e "$entry" ] && can_chmod "$entry"; then printf 'can_chmod=%s\n' "$(hex "$entry")"; fi
done | some

# Nor may the reserved path be moved away and replaced, which takes a writable folder above and no mount point.
path=$reserved_path
while [ "$path" != / ]; do
    parent=$(dirname "$path")
    if ! is_mount "$path" && { can_create "$parent" || can_chmod "$parent"; }; then
        printf 'can_replace=%s\n' "$(hex "$path")"
    fi
    path=$parent
done
printf 'end=filesystem/1\n'

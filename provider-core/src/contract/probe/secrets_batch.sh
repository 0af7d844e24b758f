# Searches some files. Arguments: their kind (a word), lengths, sums, base and prime for the search, the second since
# 1970 at which to stop, how many bytes of each file to read, then the files. An argument that is no absolute path is
# the exit status of what listed them.
LC_ALL=C
export LC_ALL
kind=$1 lengths=$2 sums=$3 base=$4 prime=$5 ends=$6 cap=$7
shift 7

# What can be read moves to the end of the arguments; what was there before is dropped.
given=$# unreadable=0
for file do
    case $file in
        /*) if [ -r "$file" ]; then set -- "$@" "$file"; else unreadable=$((unreadable + 1)); fi ;;
        *) printf 'listed=%s %s\n' "$kind" "$file" ;;
    esac
done
shift "$given"

bytes=0
if [ "$#" -gt 0 ]; then
    bytes=$(stat -L -c %s -- "$@" 2>/dev/null | awk '{ sum += $1 } END { printf "%.0f", sum }')
fi
if [ "$(date +%s)" -ge "$ends" ]; then
    printf 'skipped=%s %s %s\n' "$kind" "$#" "$bytes"
    exit 0
fi
printf 'searched=%s %s %s %s\n' "$kind" "$#" "$bytes" "$unreadable"
[ "$#" -gt 0 ] || exit 0

# All files in one go, which is fast. Only where that finds more than the control text (place 0) is each file looked
# at, which also drops a text that lies across two files.
program=$(search_program)
more=no
for place in $(head -q -c "$cap" -- "$@" 2>/dev/null | search); do
    if [ "$place" = 0 ]; then printf 'found=0 %s\n' "$kind"; else more=yes; fi
done
named=0
if [ "$more" = yes ]; then
    for file do
        for place in $(head -c "$cap" -- "$file" 2>/dev/null | search); do
            [ "$place" != 0 ] || continue
            printf 'found=%s %s %s\n' "$place" "$kind" "$(hex "$file")"
            named=$((named + 1))
        done
        # A text that is in very many files need not be shown in each.
        if [ "$named" -ge 10 ]; then break; fi
    done
fi
if [ "$#" -eq 1 ] && [ "$bytes" -gt "$cap" ]; then
    printf 'partly=%s %s %s\n' "$kind" "$bytes" "$(hex "$1")"
fi

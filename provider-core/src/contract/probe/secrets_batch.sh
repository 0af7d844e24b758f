# Searches some things. Arguments: what they are (a word), lengths, sums, base and prime for the search, the second
# since 1970 at which to stop, the size in bytes from which a file is searched alone, how many bytes of such a file to
# read, the bytes that the texts may consist of; then the things, each in one of these forms:
#   /PATH                         a file of the kernel, without a size
#   TYPE SIZE PATH<newline>LINK   what find lists; only type f has content, only type l a link's target
#   status/N                      how find ended
LC_ALL=C
export LC_ALL
kind=$1 lengths=$2 sums=$3 base=$4 prime=$5 ends=$6 alone=$7 cap=$8 kept=$9
shift 9
newline='
'
program=$(search_program)

is_late() { [ "$(date +%s)" -ge "$ends" ]; }
late=no
if is_late; then late=yes; fi

# Names first, as find lists them.
if [ "$kind" = files ]; then
    if [ "$late" = yes ]; then
        printf 'skipped=names %s 0\n' "$#"
    else
        for place in $(printf '%s\n' "$@" | search); do printf 'found=%s names\n' "$place"; done
    fi
fi

# A file of its own.
search_large() { # path, size
    if [ "$late" = yes ] || is_late; then
        late=yes
        printf 'skipped=large 1 %s\n' "$2"
        return
    fi
    for place in $(head -c "$cap" -- "$1" 2>/dev/null | search); do
        printf 'found=%s large %s\n' "$place" "$(hex "$1")"
    done
    printf 'searched=large 1 %s 0\n' "$2"
    if [ "$2" -gt "$cap" ]; then printf 'partly=large %s %s\n' "$2" "$(hex "$1")"; fi
}

# The small files that can be read go to the end of the arguments, and what was there before is dropped.
given=$# unreadable=0 bytes=0
for entry do
    case $entry in
        status/*) printf 'listed=%s\n' "${entry#status/}" ;;
        'f '*)
            size=${entry#f }
            size=${size%% *}
            path=${entry#f * }
            path=${path%"$newline"}
            if [ ! -r "$path" ]; then
                unreadable=$((unreadable + 1))
            elif [ "$size" -gt "$alone" ]; then
                search_large "$path" "$size"
            else
                set -- "$@" "$path"
                bytes=$((bytes + size))
            fi
            ;;
        /*) if [ -r "$entry" ]; then set -- "$@" "$entry"; else unreadable=$((unreadable + 1)); fi ;;
    esac
done
shift "$given"

if [ "$late" = yes ]; then
    printf 'skipped=%s %s %s\n' "$kind" "$#" "$bytes"
    exit 0
fi
printf 'searched=%s %s %s %s\n' "$kind" "$#" "$bytes" "$unreadable"
[ "$#" -gt 0 ] || exit 0

# All small files in one go, which is fast. Only where that finds more than the control text (place 0) is each file
# looked at, which also drops a text that lies across two files.
more=no
for place in $(head -q -c "$alone" -- "$@" 2>/dev/null | search); do
    if [ "$place" = 0 ]; then printf 'found=0 %s\n' "$kind"; else more=yes; fi
done
[ "$more" = yes ] || exit 0
named=0
for file do
    for place in $(head -c "$alone" -- "$file" 2>/dev/null | search); do
        [ "$place" != 0 ] || continue
        printf 'found=%s %s %s\n' "$place" "$kind" "$(hex "$file")"
        named=$((named + 1))
    done
    # A text that is in very many files need not be shown in each.
    if [ "$named" -ge 10 ]; then break; fi
done

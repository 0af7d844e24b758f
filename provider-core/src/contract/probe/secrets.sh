# Looks for texts that must not be here. Arguments: lengths, sums, base and prime for the search, how many seconds to
# search, the size in bytes from which a file is searched on its own, how many bytes of such a file to read, the second
# since 1970 after which a file must have changed to be searched (or `all`), the control text, the directory for the
# control file, the script that searches some files, the bytes that the texts may consist of, then the folders.
#
# The control text is one of the wanted texts. It is in a variable of this process, in a file and in that file's name:
# an answer in which it is not found in all three places comes from a search that does not work.
LC_ALL=C
export LC_ALL
lengths=$1 sums=$2 base=$3 prime=$4 seconds=$5 alone=$6 cap=$7 since=$8 control=$9
shift 9
directory=$1 batch=$2 kept=$3
shift 3

printf 'probe=secrets/1\n'
printf 'uid=%s\n' "$(id -u)"
ends=$(($(date +%s) + seconds))

control_file=
trap 'rm -f "$control_file"' EXIT
trap 'exit 1' HUP INT TERM
# Whoever searches beside the contract's user may not be allowed to write where that user works.
for place in "$directory" /tmp; do
    if (set -C && printf 'control: %s.\n' "$control" >"$place/.provider-probe-$control") 2>/dev/null; then
        control_file=$place/.provider-probe-$control
        break
    fi
done
if [ -z "$control_file" ]; then
    printf 'control=refused\nend=secrets/1\n'
    exit 0
fi
printf 'control=written\n'

# What one batch of things is searched with; the things follow.
search_processes() { # kind, files...
    some=$1
    shift
    /bin/sh -c "$batch" secrets-batch "$some" "$lengths" "$sums" "$base" "$prime" "$ends" "$alone" "$cap" \
        "$kept" "$@"
}

# Variables and arguments of every process that may be read, this one's too.
search_processes environment /proc/[0-9]*/environ
search_processes arguments /proc/[0-9]*/cmdline

# Names, targets of links and contents of what changed in time, in one walk. File systems that only show the kernel's
# state are left out.
if [ "$since" = all ]; then newer=; else newer="-newerct @$since"; fi
{
    # shellcheck disable=SC2086 # two words or none, of digits
    find "$@" \( -fstype proc -o -fstype sysfs -o -fstype cgroup -o -fstype cgroup2 -o -fstype devpts \
        -o -fstype mqueue -o -fstype debugfs -o -fstype tracefs -o -fstype securityfs -o -fstype bpf \
        -o -fstype pstore -o -fstype configfs -o -fstype binfmt_misc -o -fstype hugetlbfs -o -fstype autofs \) \
        -prune -o $newer -printf '%y %s %p\n%l\0' 2>/dev/null
    printf 'status/%s\0' "$?"
} | xargs -0 -n 100 /bin/sh -c "$batch" \
    secrets-batch files "$lengths" "$sums" "$base" "$prime" "$ends" "$alone" "$cap" "$kept" ||
    exit 1

printf 'end=secrets/1\n'

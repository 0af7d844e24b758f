# Whether a group of processes ends after SIGTERM, and whether nobody is left as a zombie.
# Needs setsid(1), which every Debian system has.
# Arguments: how many seconds the group may take to end, and how many its processes to be reaped.
LC_ALL=C
export LC_ALL
stop_seconds=$1 reap_seconds=$2

# Reads the state, parent, group and start time of process $1 into $state, $parent, $group and $started.
look() {
    line=
    read -r line 2>/dev/null <"/proc/$1/stat" || [ -n "$line" ] || return 1
    set -- ${line##*) }
    state=$1 parent=$2 group=$3
    shift 19
    started=$1
}

# Sets $members to the processes of the group, as words of the form NUMBER:STARTED.
find_members() {
    members=
    for entry in /proc/[0-9]*; do
        number=${entry#/proc/}
        if look "$number" && [ "$group" = "$leader" ] && [ "$state" != Z ]; then
            members="$members $number:$started"
        fi
    done
}

# Sets $running and $zombies to how many members still run, and how many have ended and were not reaped. The leader is
# this shell's own child, which it reaps itself.
count_members() {
    running=0 zombies=0
    for member in $members; do
        look "${member%:*}" && [ "$started" = "${member#*:}" ] || continue
        if [ "$state" != Z ]; then
            running=$((running + 1))
        elif [ "${member%:*}" != "$leader" ]; then
            zombies=$((zombies + 1))
        fi
    done
    return 0
}

# Adds the other ended children of PID 1 to $zombies.
count_zombies_of_init() {
    for entry in /proc/[0-9]*; do
        number=${entry#/proc/}
        case " $members" in
            *" $number:"*) continue ;;
        esac
        if look "$number" && [ "$state" = Z ] && [ "$parent" = 1 ]; then zombies=$((zombies + 1)); fi
    done
    return 0
}

now() { date +%s; }
pause() { sleep 0.05 2>/dev/null || sleep 1; }

# A leader, its child and its grandchild, in a session and a group of their own.
setsid /bin/sh -c '/bin/sh -c "sleep 600 & wait" & wait' </dev/null >/dev/null 2>&1 &
leader=$!
members= count=0
until=$(($(now) + 10))
while [ "$count" -lt 3 ] && [ "$(now)" -le "$until" ]; do
    pause
    find_members
    set -- $members
    count=$#
done

kill -TERM "-$leader" 2>/dev/null
asked=$?
begun=$(now)
count_members
while [ "$running" -gt 0 ] && [ "$(now)" -le "$((begun + stop_seconds))" ]; do
    pause
    count_members
done
outlived=$running
took=$(($(now) - begun))
kill -KILL "-$leader" 2>/dev/null

until=$(($(now) + reap_seconds))
while count_members && count_zombies_of_init && [ "$zombies" -gt 0 ] && [ "$(now)" -le "$until" ]; do
    pause
done

printf 'probe=shutdown/1\n'
printf 'members=%s\n' "$count"
if [ "$asked" = 0 ]; then printf 'asked=yes\n'; else printf 'asked=no\n'; fi
printf 'outlived=%s\n' "$outlived"
printf 'seconds=%s\n' "$took"
printf 'zombies=%s\n' "$zombies"
printf 'end=shutdown/1\n'

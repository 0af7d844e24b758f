#!/bin/sh
# The doctor: says row by row whether this sandbox keeps its contract, as one JSON document on standard output.
#
# Exit status: 0 every asked row passes, 1 a row fails (the first is named), 2 wrong usage.
# Needs: a POSIX shell and what every Debian system has (coreutils, findutils). The facts below are put in from the
# contract when the artifact is built; nothing under them repeats a number or a path of the contract.

#@FACTS@

set -u

usage() {
    printf 'usage: %s [--help | --rows]\n' "$doctor_path"
    printf 'Checks this sandbox against %s and prints a JSON document.\n' "$contract"
    printf '  --rows   print the rows instead: name, whether it is asked, what is expected; no row is checked\n'
    printf 'Exit status: 0 every asked row passes, 1 a row fails, 2 wrong usage.\n'
}

# Whether a row is among the asked ones.
is_asked() {
    case " $asked " in
        *" $1 "*) return 0 ;;
        *) return 1 ;;
    esac
}

# What the contract says about a row. Row names come from the list above, so that eval sees nothing foreign.
expectation() { eval "printf %s \"\$expected_$1\""; }

if [ "$#" -gt 1 ]; then
    usage >&2
    exit 2
fi
case "${1-run}" in
    run) if [ "$#" -eq 1 ]; then usage >&2; exit 2; fi ;;
    --help) usage; exit 0 ;;
    --rows)
        for row in $rows; do
            if is_asked "$row"; then state=asked; else state=not_asked; fi
            printf '%s\t%s\t%s\n' "$row" "$state" "$(expectation "$row")"
        done
        exit 0
        ;;
    *) usage >&2; exit 2 ;;
esac

# The locale as programs would see it, read before this script sets its own.
seen_locale=${LC_ALL:-${LC_CTYPE:-${LANG:-}}}
seen_charmap=
if command -v locale >/dev/null 2>&1; then
    seen_charmap=$(locale charmap 2>/dev/null)
fi
# From here on text is bytes.
LC_ALL=C
export LC_ALL

# Prints $1 as a JSON string. A byte outside ASCII becomes the code point of the same number, so that the document is
# valid whatever was found. A long text is not cut, since a part of a value could no longer be recognised: only its
# length is given.
json() {
    text=$1
    if [ "${#text}" -gt 2000 ]; then text="(${#text} bytes)"; fi
    case $text in
        *[!A-Za-z0-9\ ._/:,=+-]*) ;;
        *) printf '"%s"' "$text"; return ;;
    esac
    printf '"'
    for byte in $(printf %s "$text" | od -An -v -tx1); do
        case $byte in
            22) printf '%s' '\"' ;;
            5c) printf '%s' "\\\\" ;;
            [01]? | 7f | [89a-f]?) printf '\\u00%s' "$byte" ;;
            *) printf '%b' "\\0$(printf %o "0x$byte")" ;;
        esac
    done
    printf '"'
}

#@WRITABLE@

# The value of key $1 in os-release, without its quotes.
os_release() {
    [ -r /etc/os-release ] || return 0
    while IFS='=' read -r key value || [ -n "$key" ]; do
        if [ "$key" = "$1" ]; then
            value=${value#[\"\']}
            printf %s "${value%[\"\']}"
            return
        fi
    done </etc/os-release
}

# Each function below checks one row: it sets `found` and returns whether the row passes.

check_architecture() {
    found=$(uname -m)
    [ "$found" = "$machine" ]
}

check_os() {
    kernel=$(uname -s | tr '[:upper:]' '[:lower:]')
    family=$(os_release ID)
    like=$(os_release ID_LIKE)
    found="$kernel, $family${like:+ like $like}"
    [ "$kernel" = "$os" ] || return 1
    case " $family $like " in
        *" $os_family "*) return 0 ;;
        *) return 1 ;;
    esac
}

check_user() {
    found=$(id -un 2>/dev/null)
    [ "$found" = "$user" ]
}

check_uid() {
    found=$(id -u)
    [ "$found" = "$uid" ]
}

check_gid() {
    found=$(id -g)
    [ "$found" = "$gid" ]
}

check_home() {
    found=${HOME-}
    [ "$found" = "$home" ] || return 1
    [ -d "$home" ] || { found="$found, no directory"; return 1; }
}

# The superuser may write everywhere, so for it the answer is read from owner and mode: could the contract's user?
check_workdir() {
    [ -d "$workdir" ] || { found='no directory'; return 1; }
    found='not writable'
    can_create "$workdir" || return 1
    if [ "$(id -u)" = 0 ]; then
        [ -n "$(find "$workdir" -prune \( -user "$uid" -perm -0200 -o -group "$gid" -perm -0020 \
            -o -perm -0002 \))" ] || return 1
    fi
    found="$workdir, writable"
}

check_python() {
    found=$("$python" --version 2>&1) || return 1
    case $found in
        'Python 3.'*) return 0 ;;
        *) return 1 ;;
    esac
}

check_pip() {
    for installer in $installers; do
        if found=$("$installer" --version 2>/dev/null) && [ -n "$found" ]; then return 0; fi
    done
    found=$("$python" -m pip --version 2>/dev/null) && [ -n "$found" ] && return 0
    found=none
    return 1
}

check_kernel() {
    if found=$("$python" -c 'import code; code.InteractiveInterpreter().runsource("print(1 + 1)")' 2>&1); then
        [ "$found" = 2 ] || return 1
        found='a code session runs'
        return 0
    fi
    found=${found:-no answer}
    return 1
}

# The first thing at or under the reserved path that this user can change, or nothing.
changeable() {
    find "$reserved_path" 2>/dev/null | while IFS= read -r entry; do
        if [ -d "$entry" ]; then
            if can_create "$entry"; then printf 'a file can be made in %s' "$entry"; break; fi
        elif [ -f "$entry" ]; then
            if can_append "$entry"; then printf '%s can be written' "$entry"; break; fi
        fi
        if [ -e "$entry" ] && can_chmod "$entry"; then printf 'the mode of %s can be changed' "$entry"; break; fi
    done
}

# The first part of the reserved path that this user can rename and replace, since the folder above is writable and
# it is no mount point; or nothing.
replaceable() {
    path=$reserved_path
    while [ "$path" != / ]; do
        parent=$(dirname "$path")
        if ! is_mount "$path" && { can_create "$parent" || can_chmod "$parent"; }; then
            printf '%s can be replaced' "$path"
            return
        fi
        path=$parent
    done
}

# For the superuser, who may change all that is not on a read-only file system: the first thing that the contract's
# user could change by owner and mode, or nothing.
changeable_by_mode() {
    path=$reserved_path
    {
        find "$reserved_path" ! -type l \( -user "$uid" -o -group "$gid" -perm -0020 -o -perm -0002 \)
        while [ "$path" != / ]; do
            parent=$(dirname "$path")
            is_mount "$path" ||
                find "$parent" -prune \( -user "$uid" -o -group "$gid" -perm -0020 -o -perm -0002 \)
            path=$parent
        done
    } | head -n 1
}

check_reserved_path() {
    [ -d "$reserved_path" ] || { found='no directory'; return 1; }
    if [ "$(id -u)" = 0 ] && can_create "$reserved_path"; then
        found=$(changeable_by_mode)
        found=${found:+the user can change $found}
    else
        found=$(changeable)
        [ -n "$found" ] || [ "$(id -u)" = 0 ] || found=$(replaceable)
    fi
    [ -z "$found" ] || return 1
    found="$reserved_path, not writable"
}

check_locale() {
    found=${seen_locale:-none}${seen_charmap:+, $seen_charmap}
    [ "$seen_locale" = "$locale" ] || return 1
    # Without the program `locale` (a system with another C library) the variable is all there is to ask.
    [ "${seen_charmap:-UTF-8}" = UTF-8 ]
}

check_timezone() {
    found=$(date +%Z)
    [ "$found" = "$timezone" ] && [ "$(date +%z)" = +0000 ]
}

check_ca_certificates() {
    found='no file'
    [ -f "$ca_bundle" ] || return 1
    found='not readable'
    [ -r "$ca_bundle" ] || return 1
    while IFS= read -r line; do
        if [ "$line" = '-----BEGIN CERTIFICATE-----' ]; then
            found=$ca_bundle
            return 0
        fi
    done <"$ca_bundle"
    found='no certificate in it'
    return 1
}

# The processes that ended and whose parent, PID 1, has not taken their status.
zombies_of_init() {
    for stat in /proc/[0-9]*/stat; do
        line=
        read -r line 2>/dev/null <"$stat" || continue
        case ${line##*) } in
            'Z 1 '*) printf '%s ' "${line%% *}" ;;
        esac
    done
}

# A process whose parent has ended goes to PID 1 (or to a subreaper in its place), ends, and must vanish in time. Then
# no other ended child of PID 1 may stay either.
check_init() {
    [ -r /proc/self/stat ] || { found='no /proc'; return 1; }
    orphan=$( (/bin/sh -c 'echo "$$"' &) )
    found='no orphan could be started'
    case $orphan in
        '' | *[!0-9]*) return 1 ;;
    esac
    waiting="$orphan $(zombies_of_init)"
    ends=$(($(date +%s) + reap_seconds))
    for pid in $waiting; do
        while read -r line 2>/dev/null <"/proc/$pid/stat"; do
            # The number may belong to a new process by now; only an ended one counts, and the orphan itself.
            case ${line##*) } in
                Z*) ;;
                *) [ "$pid" = "$orphan" ] || break ;;
            esac
            if [ "$(date +%s)" -gt "$ends" ]; then
                found="process $pid ended and was not reaped in $reap_seconds s"
                return 1
            fi
            sleep 0.05 2>/dev/null || sleep 1
        done
    done
    found='an orphan was reaped'
}

first_failed=
printf '{"contract":'
json "$contract"
printf ',"version":%s,"rows":[' "$version"
separator=
for row in $rows; do
    found=
    if ! is_asked "$row"; then
        status=not_asked
    elif "check_$row"; then
        status=pass
    else
        status=fail
        first_failed=${first_failed:-$row}
    fi
    printf '%s\n{"row":"%s","status":"%s","expected":' "$separator" "$row" "$status"
    json "$(expectation "$row")"
    printf ',"found":'
    json "$found"
    printf '}'
    separator=,
done
if [ -n "$first_failed" ]; then
    printf '\n],"first_failed":"%s"}\n' "$first_failed"
    exit 1
fi
printf '\n],"first_failed":null}\n'

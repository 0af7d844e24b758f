# Finds texts of which only length, fingerprint and SHA-256 are known.
#
# Every byte that is in none of the texts ends a run of bytes that can hold one. Over each long enough run goes a window of the text's length with the polynomial fingerprint of its bytes modulo a prime below
# 2^26: products stay below 2^53, which awk's numbers hold exactly. A window with a wanted fingerprint is confirmed by
# its SHA-256.

# $kept: the bytes that the texts may consist of, as a set of tr.
# $lengths: words of the form LENGTH:FINGERPRINT[,FINGERPRINT]...; $prime and $base: the fingerprint's constants.
# Prints the awk program that prints each confirmed or colliding window's SHA-256. A length has its own block, with
# its constants in place, since this loop is where the time goes.
search_program() {
    printf 'BEGIN { ORS = ""; for (i = 1; i < 256; i++) code[sprintf("%%c", i)] = i }\n'
    printf 'function candidate(text) {\n'
    printf '  if (text in seen) return\n'
    printf '  seen[text] = 1; print text | "sha256sum"; close("sha256sum")\n'
    printf '}\n'
    block=0
    for spec in $lengths; do
        length=${spec%%:*}
        wanted="h == $(printf %s "${spec#*:}" | sed 's/,/ || h == /g')"
        block=$((block + 1))
        # gone[c] takes the byte that leaves the window out of the fingerprint.
        printf 'BEGIN { p = 1; for (i = 0; i < %s; i++) p = p * %s %% %s\n' "$length" "$base" "$prime"
        printf '  for (c in code) gone%s[c] = (%s - p) * code[c] %% %s }\n' "$block" "$prime" "$prime"
        printf 'length($0) >= %s { n = length($0); h = 0\n' "$length"
        printf '  for (i = 1; i <= %s; i++) h = (h * %s + code[substr($0, i, 1)]) %% %s\n' "$length" "$base" "$prime"
        printf '  if (%s) candidate(substr($0, 1, %s))\n' "$wanted" "$length"
        printf '  for (j = 1; i <= n; i++) {\n'
        printf '    h = (h * %s + code[substr($0, i, 1)] + gone%s[substr($0, j++, 1)]) %% %s\n' \
            "$base" "$block" "$prime"
        printf '    if (%s) candidate(substr($0, j, %s))\n' "$wanted" "$length"
        printf '  }\n}\n'
    done
}

# Reads bytes, and prints the place in $sums of each text found in them, once each.
search() {
    tr -cs "$kept" '\n' | awk "$program" | sort -u | while read -r sum _; do
        place=0
        for known in $sums; do
            if [ "$known" = "$sum" ]; then printf '%s\n' "$place"; fi
            place=$((place + 1))
        done
    done
}

# Prints $1, or standard input if there is no $1, as hexadecimal digits.
hex() {
    if [ "$#" -gt 0 ]; then printf %s "$1"; else cat; fi | od -An -v -tx1 | tr -d ' \n'
}

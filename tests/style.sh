#!/bin/sh
# style.sh: what can be counted of how the code should read: no line above 100 columns, no file above
# 600 lines, no function above 70, none with more than 8 parameters. TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
sources=$(find cmd model offload csd kernels data examples tests -name '*.[ch]' | sort)
fail=0

# report NAME OFFENDERS: ok where there are none
report() {
    if [ -n "$2" ]; then
        echo "not ok - $1"
        printf '%s\n' "$2" | sed 's/^/# /'
        fail=1
    else
        echo "ok - $1"
    fi
}

# A definition begins at a line's beginning and ends with the first brace there. Its parameters are
# the commas outside of inner parentheses, and one.
# shellcheck disable=SC2086
functions=$(LC_ALL=C.UTF-8 awk '
    FNR == 1 { head = ""; inside = 0 }
    inside && /^}/ { if (FNR - first - 1 > 70) print "lines " FILENAME ":" first ": " FNR - first - 1
                     inside = 0; head = "" }
    inside { next }
    /^[a-zA-Z_]/ && !/^(struct|enum|union|static const|const|typedef|extern)[^(]*[={;]/ { head = $0; start = FNR }
    head != "" && FNR > start { head = head " " $0 }
    head != "" && /;[ ]*$/ && !/^{/ { head = "" }
    /^{/ && head ~ /\(/ {
        inside = 1; first = FNR; n = 1; depth = 0
        list = head; sub(/[^(]*\(/, "", list)
        if (list ~ /^\)/ || head ~ /__attribute__/) next
        for (i = 1; i <= length(list); i++) {
            c = substr(list, i, 1)
            if (c == "(") depth++
            if (c == ")" && depth-- == 0) break
            if (c == "," && depth == 0) n++
        }
        if (n > 8) print "parameters " FILENAME ":" start ": " n
    }' $sources)

# shellcheck disable=SC2086
report "no line has more than 100 columns" "$(LC_ALL=C.UTF-8 awk 'length > 100 { print FILENAME ":" FNR ": " length }' $sources)"
# shellcheck disable=SC2086
report "no file has more than 600 lines" "$(wc -l $sources | awk '$1 > 600 && $2 != "total" { print $2 ": " $1 }')"
report "no function has more than 70 lines" "$(printf '%s\n' "$functions" | sed -n 's/^lines //p')"
report "no function has more than 8 parameters" "$(printf '%s\n' "$functions" | sed -n 's/^parameters //p')"
exit $fail

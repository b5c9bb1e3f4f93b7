#!/bin/sh
# A compiler at work: compiles C functions that it writes itself, again and again. compile.sh [SECONDS]
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
i=0
while [ $i -lt 400 ]; do
    echo "double f$i(double *a, int n) { double s = $i; for (int k = 1; k < n; k++) { s += a[k] * a[k - 1]; if (s > $i.5) s -= a[k] / (k + $i); } return s; }"
    i=$((i + 1))
done > "$folder/many.c"
end=$(($(date +%s) + ${1:-15}))
while [ "$(date +%s)" -lt "$end" ]; do
    cc -O2 -c -o "$folder/many.o" "$folder/many.c" || exit 1
done

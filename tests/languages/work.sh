# Calls of calls for so many seconds.
fib() { if ((n = $1, n < 2)); then r=$n; else local k=$1; fib $((k - 1)); local a=$r; fib $((k - 2)); r=$((a + r)); fi; }
while ((SECONDS < $1)); do fib 12; done
echo $r

# Calls of calls and text for so many turns of the clock.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
BEGIN { end = systime() + seconds; while (systime() < end) { sum += fib(18); for (i = 0; i < 20000; i++) v[i] = i * 7919 % 10007; sum += asort(v, w) } print sum }

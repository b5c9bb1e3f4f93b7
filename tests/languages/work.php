<?php // Calls of calls, sorting and text for so many seconds.
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
function sorting() { $v = []; for ($i = 0; $i < 20000; $i++) $v[] = $i * 7919 % 10007; usort($v, fn($a, $b) => $b - $a); return $v[9]; }
function texts() { $t = ""; for ($i = 0; $i < 500; $i++) $t .= "$i,"; return count(explode(",", $t)); }
$end = microtime(true) + (float)$argv[1];
$sum = 0;
while (microtime(true) < $end) $sum += fib(22) + sorting() + texts();
echo $sum, "\n";

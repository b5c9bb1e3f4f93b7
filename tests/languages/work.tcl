# Calls of calls, sorting and text for so many seconds.
proc fib {n} { if {$n < 2} { return $n }; expr {[fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]} }
proc sorting {} { set v {}; for {set i 0} {$i < 20000} {incr i} { lappend v [expr {$i * 7919 % 10007}] }; lindex [lsort -integer -decreasing $v] 9 }
proc texts {} { set t ""; for {set i 0} {$i < 500} {incr i} { append t "$i," }; string length $t }
set end [expr {[clock milliseconds] + int(1000 * [lindex $argv 0])}]
set sum 0
while {[clock milliseconds] < $end} { incr sum [expr {[fib 18] + [sorting] + [texts]}] }
puts $sum

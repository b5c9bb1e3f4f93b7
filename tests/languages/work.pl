# Calls of calls, sorting and text for so many seconds.
use Time::HiRes 'time';
sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
sub sorting { my @v = sort { $b <=> $a } map { $_ * 7919 % 10007 } 0 .. 19999; $v[9] }
sub texts { length join ",", map { sprintf "%d", $_ } 0 .. 499 }
my ($end, $sum) = (time + $ARGV[0], 0);
$sum += fib(20) + sorting() + texts() while time < $end;
print "$sum\n";

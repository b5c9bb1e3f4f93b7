// Calls of calls, sorting and text for so many seconds.
import std.algorithm, std.array, std.conv, std.datetime.stopwatch, std.range, std.stdio;
long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
long sorting() { auto v = iota(20000L).map!(i => i * 7919 % 10007).array; v.sort!((a, b) => a > b); return v[9]; }
long texts() { return iota(500).map!(i => i.to!string).join(",").length; }
void main(string[] a) {
    auto watch = StopWatch(AutoStart.yes);
    long sum;
    while (watch.peek.total!"msecs" < a[1].to!double * 1000) sum += fib(22) + sorting() + texts();
    writeln(sum);
}

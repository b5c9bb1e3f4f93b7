// Calls of calls, sorting and text for so many seconds.
using System;
using System.Linq;
using System.Text;
class Work {
    static long Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }
    static long Sorting() { return Enumerable.Range(0, 20000).Select(i => i * 7919L % 10007).OrderByDescending(x => x).ElementAt(9); }
    static long Texts() { var b = new StringBuilder(); for (int i = 0; i < 500; i++) b.AppendFormat("{0},", i); return b.Length; }
    static void Main(string[] a) {
        var end = DateTime.UtcNow.AddSeconds(double.Parse(a[0]));
        long sum = 0;
        while (DateTime.UtcNow < end) sum += Fib(22) + Sorting() + Texts();
        Console.WriteLine(sum);
    }
}

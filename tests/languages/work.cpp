// Calls of calls, sorting and text for so many seconds.
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <sstream>
#include <vector>
static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(int, char **argv) {
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::stod(argv[1]));
    long sum = 0;
    while (std::chrono::steady_clock::now() < end) {
        std::function<long()> parts[] = {[] { return fib(22); },
            [] { std::vector<int> v(20000); for (int i = 0; i < 20000; i++) v[i] = i * 7919L % 10007;
                 std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; }); return (long)v[9]; },
            [] { std::ostringstream out; for (int i = 0; i < 500; i++) out << i << ','; return (long)out.str().size(); }};
        for (auto &part : parts) { try { sum += part(); if (sum % 7 == 0) throw sum; } catch (long) { sum++; } }
    }
    std::cout << sum << "\n";
}

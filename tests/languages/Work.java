// Calls of calls, sorting and text for so many seconds.
import java.util.*;
public class Work {
    static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static long sorting() {
        List<Integer> v = new ArrayList<>();
        for (int i = 0; i < 20000; i++) v.add(i * 7919 % 10007);
        v.sort((a, b) -> b - a);
        return v.get(9);
    }
    static long texts() {
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < 500; i++) b.append(String.format("%d,", i));
        return b.length();
    }
    public static void main(String[] a) {
        long end = System.nanoTime() + (long) (Double.parseDouble(a[0]) * 1e9), sum = 0;
        while (System.nanoTime() < end) sum += fib(22) + sorting() + texts();
        System.out.println(sum);
    }
}

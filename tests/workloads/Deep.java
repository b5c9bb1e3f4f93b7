// A chain of thirty calls, whose last one computes and calls a small function over and over, for so many seconds of CPU time.
public class Deep {
    static int mix(int x) {
        return x * 31 + (x >>> 7);
    }

    static int spin(int x) {
        for (int i = 0; i < 1_000_000; i++) x = mix(x + i);
        return x;
    }

    static int call(int depth, int x) {
        return depth == 0 ? spin(x) : call(depth - 1, x) + 1;
    }

    static double used() {
        return ProcessHandle.current().info().totalCpuDuration().orElseThrow().toNanos() / 1e9;
    }

    public static void main(String[] arguments) {
        double seconds = Double.parseDouble(arguments[0]);
        int sum = 0;
        while (used() < seconds) sum += call(29, sum);
        System.out.println(sum);
    }
}

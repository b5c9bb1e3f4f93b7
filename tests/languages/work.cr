# Calls of calls, sorting and text for so many seconds.
def fib(n : Int32) : Int64
  n < 2 ? n.to_i64 : fib(n - 1) + fib(n - 2)
end
def sorting
  (0...20000).map { |i| i.to_i64 * 7919 % 10007 }.sort { |a, b| b <=> a }[9]
end
def texts
  (0...500).map(&.to_s).join(",").size
end
finish = Time.monotonic + ARGV[0].to_f.seconds
sum = 0_i64
while Time.monotonic < finish
  sum += fib(22) + sorting + texts
end
puts sum

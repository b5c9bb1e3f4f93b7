# Calls of calls, sorting and text for so many seconds.
def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
def sorting = (0...20000).map { |i| i * 7919 % 10007 }.sort_by { |x| -x }[9]
def texts = (0...500).map { |i| "#{i}," }.join.size
finish = Time.now + ARGV[0].to_f
sum = 0
sum += fib(22) + sorting + texts while Time.now < finish
puts sum

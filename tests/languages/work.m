% Calls of calls, sorting and text for so many seconds (Octave).
1;
function r = fib(n)
  if n < 2
    r = n;
  else
    r = fib(n - 1) + fib(n - 2);
  end
end
seconds = str2double(argv(){end});
t = tic; total = 0;
while toc(t) < seconds
  v = sort(mod((0:19999) * 7919, 10007), "descend");
  total = total + fib(12) + v(9) + length(sprintf("%d,", 0:499));
end
disp(total)

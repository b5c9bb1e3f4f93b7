%% Calls of calls, sorting and text for so many seconds.
-module(work).
-export([main/1]).
fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).
sorting() -> lists:nth(9, lists:sort(fun(A, B) -> A >= B end, [I * 7919 rem 10007 || I <- lists:seq(0, 19999)])).
texts() -> length(lists:flatten([integer_to_list(I) || I <- lists:seq(0, 499)])).
main([Seconds]) ->
    loop(erlang:monotonic_time(millisecond) + 1000 * list_to_integer(atom_to_list(Seconds)), 0),
    halt().
loop(End, Sum) ->
    case erlang:monotonic_time(millisecond) < End of
        true -> loop(End, Sum + fib(22) + sorting() + texts());
        false -> io:format("~p~n", [Sum])
    end.

{ Calls of calls and text for so many seconds. }
program work;
uses SysUtils;
function fib(n: longint): longint;
begin if n < 2 then fib := n else fib := fib(n - 1) + fib(n - 2) end;
var finish: TDateTime; total: int64; i: longint; t: string; s: double; c: word;
begin
  val(paramstr(1), s, c);
  finish := Now + s / 86400; total := 0;
  while Now < finish do begin
    total := total + fib(22); t := '';
    for i := 0 to 499 do t := t + IntToStr(i);
    total := total + length(t)
  end;
  writeln(total)
end.

--  Calls of calls and text for so many seconds.
with Ada.Calendar; use Ada.Calendar;
with Ada.Command_Line; with Ada.Text_IO;
procedure Work is
   function Fib (N : Integer) return Long_Integer is
     (if N < 2 then Long_Integer (N) else Fib (N - 1) + Fib (N - 2));
   Finish : constant Time := Clock + Duration'Value (Ada.Command_Line.Argument (1));
   Total  : Long_Integer := 0;
begin
   while Clock < Finish loop
      Total := Total + Fib (22);
      for I in 1 .. 500 loop Total := Total + Integer'Image (I)'Length; end loop;
   end loop;
   Ada.Text_IO.Put_Line (Total'Image);
end Work;

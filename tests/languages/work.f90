! Calls of calls and sums for so many seconds.
recursive integer function fib(n) result(r)
  integer, intent(in) :: n
  if (n < 2) then
    r = n
  else
    r = fib(n - 1) + fib(n - 2)
  end if
end function
program work
  integer, external :: fib
  real :: now, seconds
  character(len=20) :: text
  real(8) :: a(200, 200)
  integer(8) :: total
  call get_command_argument(1, text)
  read (text, *) seconds
  total = 0
  call random_number(a)
  do
    call cpu_time(now)
    if (now > seconds) exit
    total = total + fib(22) + int(sum(matmul(a, a)), 8)
    write (text, '(i18)') total
  end do
  print *, text
end program

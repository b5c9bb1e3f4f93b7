(* Calls of calls, sorting and text for so many seconds. *)
let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
let sorting () = List.nth (List.sort (fun a b -> compare b a) (List.init 20000 (fun i -> i * 7919 mod 10007))) 9
let texts () = String.length (String.concat "," (List.init 500 string_of_int))
let () =
  let finish = Sys.time () +. float_of_string Sys.argv.(1) and sum = ref 0 in
  while Sys.time () < finish do sum := !sum + fib 22 + sorting () + texts () done;
  print_int !sum

; Calls of calls, sorting and text for so many seconds (Guile and Chez Scheme).
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(define (numbers n) (let loop ((i 0) (v '())) (if (= i n) v (loop (+ i 1) (cons (modulo (* i 7919) 10007) v)))))
(define (texts) (let loop ((i 0) (t 0)) (if (= i 500) t (loop (+ i 1) (+ t (string-length (number->string i)))))))
(define (run now end sum) (if (< (now) end) (run now end (+ sum (fib 22) (length (sorted (numbers 20000))) (texts))) sum))

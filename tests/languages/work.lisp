; Calls of calls, sorting and text for so many seconds.
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(defun sorting () (nth 9 (sort (loop for i below 20000 collect (mod (* i 7919) 10007)) (lambda (a b) (> a b)))))
(defun texts () (length (format nil "~{~d,~}" (loop for i below 500 collect i))))
(let ((end (+ (get-internal-real-time) (* internal-time-units-per-second (parse-integer (second sb-ext:*posix-argv*))))) (sum 0))
  (loop while (< (get-internal-real-time) end) do (incf sum (+ (fib 22) (sorting) (texts))))
  (print sum))

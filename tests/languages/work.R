# Calls of calls, sorting and text for so many seconds.
fib <- function(n) if (n < 2) n else fib(n - 1) + fib(n - 2)
sorting <- function() sort(sapply(0:19999, function(i) (i * 7919) %% 10007), decreasing = TRUE)[9]
texts <- function() nchar(paste(0:499, collapse = ","))
end <- proc.time()[["elapsed"]] + as.numeric(commandArgs(TRUE)[1])
total <- 0
while (proc.time()[["elapsed"]] < end) total <- total + fib(16) + sorting() + texts()
print(total)

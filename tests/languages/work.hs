-- Calls of calls, sorting and text for so many seconds.
import Data.List (sort)
import System.CPUTime
import System.Environment
fib :: Int -> Int
fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
{-# NOINLINE fib #-}
sorting, texts :: Int -> Int
sorting k = sort [ (i * 7919 + k) `mod` 10007 | i <- [0 .. 19999] ] !! 9
texts k = length (concatMap show [k .. k + 500])
main :: IO ()
main = do
  [s] <- getArgs
  let loop k acc = do
        t <- getCPUTime
        if fromIntegral t > (read s :: Double) * 1e12 then print acc
          else let x = acc + fib (22 + k `mod` 1) + sorting k + texts k in x `seq` loop (k + 1) x
  loop 0 0

// Calls of calls, sorting and text for so many seconds.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}
func sorting() int {
	v := make([]int, 20000)
	for i := range v {
		v[i] = i * 7919 % 10007
	}
	sort.Slice(v, func(a, b int) bool { return v[a] > v[b] })
	return v[9]
}
func texts() int {
	var b strings.Builder
	for i := 0; i < 500; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.Len()
}
func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end, sums := time.Now().Add(time.Duration(seconds*1e9)), make(chan int)
	go func() {
		sum := 0
		for time.Now().Before(end) {
			sum += fib(22) + sorting() + texts()
		}
		sums <- sum
	}()
	fmt.Println(<-sums)
}

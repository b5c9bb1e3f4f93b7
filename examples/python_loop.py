"""Plain Python, no library: counts prime numbers and sorts words, for a number of seconds (default 20).

Look for: Python functions that call each other, and sorted, which calls back into Python for each key.
"""
import sys
import time

WORDS = "the quick brown fox jumps over the lazy dog and runs away".split()


def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def count_primes(limit):
    return sum(1 for number in range(limit) if is_prime(number))


def key_of(word):
    return word[::-1], len(word)


def round_of_work():
    primes = count_primes(500)
    return primes + len(sorted(WORDS * 5, key=key_of))


def main(seconds):
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        round_of_work()
        rounds += 1
    print(f"python_loop: {rounds} rounds")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)

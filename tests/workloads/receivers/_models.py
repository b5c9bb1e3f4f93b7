"""Classes side by side that inherit the same methods, and a private one. Their methods work for a time of the CPU's, whose speed varies."""

import time


class Base:
    def fit(self, seconds):
        total, end = 0, time.process_time() + seconds
        while time.process_time() < end:
            for turn in range(2000):
                total += turn % 7 + self.bias
        return total + sum(self.bias for _ in range(9))  # An inner function shares `self`: it is in a cell.

    @classmethod
    def load(cls, seconds):
        total, end = 0, time.process_time() + seconds
        while time.process_time() < end:
            for turn in range(2000):
                total += turn % 7 + cls.bias
        return total


class Forest(Base):
    bias = 1


class Tree(Base):
    bias = 2


class _Hidden(Base):
    bias = 3

"""Classes side by side that inherit the same methods, and a private one."""


class Base:
    def fit(self, turns):
        total = 0
        for turn in range(turns):
            total += turn % 7 + self.bias
        return total + sum(self.bias for _ in range(9))  # An inner function shares `self`: it is in a cell.

    @classmethod
    def load(cls, turns):
        total = 0
        for turn in range(turns):
            total += turn % 7 + cls.bias
        return total


class Forest(Base):
    bias = 1


class Tree(Base):
    bias = 2


class _Hidden(Base):
    bias = 3

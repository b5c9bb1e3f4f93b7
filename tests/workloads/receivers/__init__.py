"""A package whose public classes inherit their methods."""

from pkg._models import Forest, Tree

"""How far apart two numbers may be and still count as equal; both are relative, and chosen by hand.

A double has about 16 digits, so both leave room for sums and products of a few hundred terms. Results do not hang on
them: real differences between values of a column are larger by orders of magnitude.
"""

__all__ = ["DATA_ROUNDING", "ROUNDING"]

ROUNDING = 1e-12  # between numbers that were computed here, in another order
DATA_ROUNDING = 1e-9  # between such a number and one of the user's, which may have passed through a file or a program

"""What is wanted of a model's output: how far an output is from it (the loss) and when it counts as reached.

A target reads the :class:`Outputs` of one model on ``n`` rows and returns a :class:`Reading`: one number to
show, one loss and one verdict per row. Numbers that a wish leaves open are filled in twice: ``resolve`` reads them
off the model's outputs on the data, ``bind`` off its output for the row that is explained.
"""

from gbce.targets._class import SMALLEST_PROBABILITY, Class, as_target
from gbce.targets._loss import Loss, Multi
from gbce.targets._numeric import AtLeast, AtMost, Change, Numeric, Range, Value

__all__ = [
    "SMALLEST_PROBABILITY",
    "AtLeast",
    "AtMost",
    "Change",
    "Class",
    "Loss",
    "Multi",
    "Numeric",
    "Range",
    "Value",
    "as_target",
]

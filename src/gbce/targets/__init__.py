"""What is wanted of a model's output: how far an output is from it (the loss) and when it counts as reached.

A target reads the :class:`Outputs` of one model on ``n`` rows and returns a :class:`Reading`: one number to
show, one loss and one verdict per row. Numbers that a wish leaves open are filled in twice: ``resolved`` reads them
off the model's outputs on the data, ``settled`` off its output for the row that is explained.
"""

from gbce.targets._change import Change
from gbce.targets._class import Class
from gbce.targets._loss import Loss
from gbce.targets._multi import Multi
from gbce.targets._numeric import AtLeast, AtMost, Range, Value
from gbce.targets._target import Outputs, Reading, Target, short

__all__ = [
    "AtLeast",
    "AtMost",
    "Change",
    "Class",
    "Loss",
    "Multi",
    "Outputs",
    "Range",
    "Reading",
    "Target",
    "Value",
    "short",
]

"""Targets: the loss of a model's output, and when it counts as reached.

A target reads the :class:`Outputs` of one model on ``n`` rows and returns a :class:`Reading`: one number to show, one
loss and one verdict per row. Defaults are filled in twice: ``resolve`` uses the model's outputs on the data, ``bind``
its output for the row that is explained.
"""

from gbce.targets._class import SMALLEST_PROBABILITY, Class, Loss, Multi, as_target, format_probability, parse_target
from gbce.targets._numeric import AtLeast, AtMost, Change, Numeric, Range, Value

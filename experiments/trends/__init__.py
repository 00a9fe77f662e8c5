r"""Data for models: Google Trends exports, as they are downloaded, turned into a regression table.

Examples
--------
>>> import io
>>> from experiments.trends import read_trends
>>> csv = "date,One Piece,Jump\n2016-01-01,20,60\n2016-02-01,25,70\n"
>>> read_trends(io.StringIO(csv), target="One Piece").X
            Jump_lag1
date
2016-02-01       60.0
"""

from experiments.trends._trends import Trends, read_trends

__all__ = ["Trends", "read_trends"]

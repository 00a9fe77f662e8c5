"""The command line: explain rows of a file under a model file, and turn results into pages, letters and checks."""

from gbce.cli._main import main

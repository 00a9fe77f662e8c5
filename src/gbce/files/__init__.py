"""Save and load explanations as zip files of arrays and JSON; loading never runs code from a file."""

from gbce.files._archive import FileError, clear_leftovers, is_partial, to_json, whole_file
from gbce.files._files import load, load_part, save

__all__ = ["FileError", "clear_leftovers", "is_partial", "load", "load_part", "save", "to_json", "whole_file"]

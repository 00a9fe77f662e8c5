"""Explanations in files: one zip of arrays and JSON. Reading one never runs code from it."""

from gbce.files._archive import FileError, clear_leftovers, is_partial, to_json, whole_file
from gbce.files._files import load, load_part, save

__all__ = ["FileError", "clear_leftovers", "is_partial", "load", "load_part", "save", "to_json", "whole_file"]

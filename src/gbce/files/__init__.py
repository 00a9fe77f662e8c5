"""Save and load explanations as zip files of arrays and JSON; loading never runs code from a file."""

from gbce.files._archive import (
    Archive,
    FileError,
    TooLargeError,
    clear_leftovers,
    is_partial,
    locked,
    to_json,
    whole_file,
    write_archive,
)
from gbce.files._classes import read_target, write_object
from gbce.files._files import json_schema, load, load_part, log_mlflow, save

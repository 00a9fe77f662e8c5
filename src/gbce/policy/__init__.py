"""Decisions about many rows, read from their answers: the model is asked again only to confirm."""

from gbce.policy._read import AnsweredRows, read_answers

__all__ = ["AnsweredRows", "read_answers"]

"""Explanations as plain sentences in several languages, as letters with the lender's reasons, and as certificates."""

from gbce.words._certificate import Certificate, CertificateError, Finding, Result, certify
from gbce.words._letter import Letter, LetterError, join_letters, letter_of, letter_table, letters_of, write_letters
from gbce.words._text import Audience, languages, say_in_settings, to_text

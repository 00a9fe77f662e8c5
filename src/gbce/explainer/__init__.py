"""The Explainer: from a fitted model and a row to an explanation."""

from gbce.explainer._explainer import Explainer
from gbce.explainer._notes import Progress, is_shown
from gbce.explainer._session import Session

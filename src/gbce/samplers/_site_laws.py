"""Normal laws around sites: the first guess at where the posterior is, and how wide."""

from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr

from gbce.base import Array
from gbce.draws import log_target
from gbce.posterior import GibbsPosterior
from gbce.samplers._guide import Guide
from gbce.samplers._moves import NormalLaw
from gbce.samplers._tilted import MANY, TiltedLaw
from gbce.search import Sites

__all__ = ["WIDER", "guide_around"]

# Chosen by hand; what is wrong with a first guess is learned, and shows in the weights if it is not.
_DEFENCE = 0.2  # share of the latent law among the draws of a look
_MOVED = 0.05  # latent deviations below which a site leaves a coordinate alone
_BENT = 0.5  # curvature of the potential, that of the latent law being one, beyond which a coordinate is narrower
_NARROW = 0.2  # deviation, in what a site changes, of the narrow one of its laws
_NARROWEST = 1e-4  # variance of any law at first
WIDER = 1.25  # times a variance: weights of a law that is too narrow have heavy tails


def guide_around(sites: Sites, posterior: GibbsPosterior, tilted: Sequence[TiltedLaw] = ()) -> Guide:
    """Put three to five laws around each site, and the latent law and those that are ``tilted`` beside them all.

    One is as wide as the prior, one is made for what lies beyond the site, one is narrow wherever the site changes
    something or the potential bends, and one is that of a squared loss with the site's slope, if it has any; in many
    coordinates a fifth is the same, but for what the site has beside its slope. In the
    well of a smooth potential the narrow one is as wide as the bends say: few draws come to a well of little mass, so
    that what is wrong with its law is not learned, and a law that is too narrow finds too little there.
    """
    potential = -log_target(posterior.mixture, sites.points)
    laws: list[NormalLaw] = []
    whose: list[int] = []
    parts = zip(sites.points.z, sites.slope, sites.bend, sites.smooth, potential, strict=True)
    for z, slope, bend, smooth, height in parts:
        narrow = _law_well(z, bend) if smooth else _law_bent(z, bend)
        laws += [NormalLaw(z, np.zeros((len(z), 0)), np.zeros(0)), _law_beyond(z, bend), narrow]
        if slope.any():
            laws.append(_law_sloped(z, slope, float(height)))
        if slope.any() and len(z) >= MANY:
            laws.append(_law_sloped(_along(z, slope), slope, float(height)))
        whose += [max(whose, default=-1) + 1] * (len(laws) - len(whose))
    k = len(laws) + len(tilted)
    whose += [max(whose) + 1] * len(tilted)
    return Guide((*laws, *tilted), 1 - _DEFENCE, np.full(k, 1.0 / k), np.array(whose))


def _law_beyond(z: Array, bend: Array) -> NormalLaw:
    """Return the law of what lies beyond a site, coordinate by coordinate, as in a box of which it is the corner."""
    moved = np.flatnonzero((np.abs(z) > _MOVED) | (bend > _BENT))
    edge, sign = np.abs(z[moved]), np.sign(z[moved])
    mills = np.exp(-0.5 * edge**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-edge))  # mean of N(0, 1) beyond the edge
    open_side = bend[moved] <= _BENT
    mean = z.copy()
    mean[moved] = np.where(open_side, sign * mills, z[moved])
    beyond = np.maximum(1 + edge * mills - mills**2, _NARROWEST)
    variance = WIDER * np.where(open_side, beyond, np.maximum(1 / (1 + bend[moved]), _NARROWEST))
    return NormalLaw(mean, np.eye(len(z))[:, moved], variance)


def _law_bent(z: Array, bend: Array) -> NormalLaw:
    """Return a law around a site, narrow in what it changes and in what the potential bends."""
    moved = np.flatnonzero((np.abs(z) > _MOVED) | (bend > _BENT))
    narrow = np.where(np.abs(z[moved]) > _MOVED, _NARROW**2, 1.0)
    variance = np.maximum(np.minimum(1 / (1 + bend[moved]), narrow), _NARROWEST)
    return NormalLaw(z, np.eye(len(z))[:, moved], variance)


def _law_well(z: Array, bend: Array) -> NormalLaw:
    """Return a law around a site of a smooth potential: as wide as the bend says, where there is one."""
    bent = np.flatnonzero(bend > _BENT)
    return NormalLaw(z, np.eye(len(z))[:, bent], np.maximum(WIDER / (1 + bend[bent]), _NARROWEST))


def _along(z: Array, slope: Array) -> Array:
    """Return the part of a site that lies along its slope: at a mode that is all of it.

    In many coordinates a search ends beside the mode, off by a little in each of them, and a law around that end has
    next to no draw where the posterior is.
    """
    unit = slope / np.hypot.reduce(slope)
    return np.asarray((z @ unit) * unit)


def _law_sloped(z: Array, slope: Array, potential: float) -> NormalLaw:
    """Return the law of a squared loss with this slope: narrow along it, as wide as the prior across it."""
    steepness = float(np.hypot.reduce(slope))
    variance = 1 / (1 + steepness * (steepness / max(2 * potential, _NARROWEST)))
    return NormalLaw(z, (slope / steepness)[:, None], np.array([WIDER * variance]))

"""The paper's own numbers, as printed: every table of Section 3."""

from typing import Any

__all__ = ["DISTRIBUTION", "ETA_PATH", "IMPORTANCE", "LEADERBOARD", "POINTWISE", "REAL_IMPORTANCE", "REAL_TABLES"]

#: Table "top three models": (model, MSE)
LEADERBOARD: dict[str, tuple[tuple[str, float], ...]] = {
    "simulated 2-D": (("ExtraTrees", 0.146), ("XGBoost (depth-limited)", 0.152), ("LightGBM", 0.157)),
    "simulated 10-D": (("LightGBM", 0.426), ("XGBoost (depth-limited)", 0.436), ("XGBoost", 0.437)),
    "real 2-D": (("ExtraTrees", 58.08), ("LightGBM", 60.34), ("Random Forest", 62.80)),
    "real 10-D": (("Random Forest", 51.93), ("HistGradientBoosting", 53.35), ("XGBoost", 54.50)),
}

#: Tables 1 and 2: (L_pt, D_pt, Rb, Plu) by method and rule
POINTWISE: dict[int, dict[tuple[str, str], tuple[float, ...]]] = {
    2: {
        ("Gibbs", "Mean"): (3.6534, 0.5024, 0.000, 0.0941),
        ("Gibbs", "MAP"): (0.4333, 1.1313, 0.455, 0.1351),
        ("Gibbs", "CVaR"): (0.1162, 1.3255, 0.465, 0.1456),
        ("ModelUnc", "Mean"): (3.4477, 0.5337, 0.000, 0.0978),
        ("ModelUnc", "MAP"): (0.4752, 1.1205, 0.420, 0.1313),
        ("ModelUnc", "CVaR"): (0.0531, 1.3980, 0.555, 0.1510),
        ("DirectOpt", "---"): (0.0116, 1.1616, 0.485, 0.1305),
    },
    10: {
        ("Gibbs", "Mean"): (1.0051, 0.9314, 0.190, 2.2121),
        ("Gibbs", "MAP"): (1.8156, 0.9230, 0.000, 2.0186),
        ("Gibbs", "CVaR"): (0.0439, 3.2529, 0.975, 3.2542),
        ("ModelUnc", "Mean"): (0.9790, 0.9015, 0.295, 2.2075),
        ("ModelUnc", "MAP"): (0.4047, 1.7650, 0.640, 2.1765),
        ("ModelUnc", "CVaR"): (0.0005, 2.8439, 0.950, 3.6927),
        ("DirectOpt", "---"): (0.0170, 1.4687, 0.540, 2.2095),
    },
}

#: Tables 1 and 2: (SP, Tail, Stability)
DISTRIBUTION: dict[int, dict[str, tuple[float, ...]]] = {
    2: {"Gibbs": (0.443, 1.7388, 2.4636), "ModelUnc": (0.434, 1.9443, 2.5109)},
    10: {"Gibbs": (0.601, 1.4130, 9.6905), "ModelUnc": (0.494, 2.1290, 9.6022)},
}

#: Table 1 and Table VarImp
IMPORTANCE: dict[int, dict[str, tuple[float, ...]]] = {
    2: {"Gibbs": (0.808, 1.167), "ModelUnc": (0.849, 1.145)},
    10: {
        "Gibbs": (0.843, 1.044, 0.763, 0.836, 0.807, 0.779, 0.818, 0.770, 0.789, 0.805),
        "ModelUnc": (0.849, 0.984, 0.789, 0.807, 0.802, 0.793, 0.796, 0.797, 0.792, 0.799),
    },
}

#: Figures 3 and 3b, as the text reads them: eta -> value, mean over five base points
ETA_PATH = {
    "success probability": {0.0: 0.09, 2.0: 0.68},
    "stability": {0.0: 2.02, 1 / 3: 1.71},
    "MAP loss": {0.0: 8.24, 1.0: 0.045},
    "Mean loss": {0.0: 7.62, 2.0: 1.05},
}

#: Tables real2d and real10d: figure -> (mean, SD) over base points
REAL_TABLES: dict[int, dict[Any, tuple[tuple[float, float], ...]]] = {
    2: {
        ("Gibbs", "Mean"): ((29.395, 115.667), (19.134, 6.809), (0.510, 0.254), (10.080, 4.490)),
        ("Gibbs", "MAP"): ((1.040, 0.684), (19.320, 8.345), (0.494, 0.200), (9.286, 5.346)),
        ("Gibbs", "CVaR"): ((1.532, 0.953), (29.292, 9.398), (0.759, 0.257), (13.514, 6.580)),
        ("ModelUnc", "Mean"): ((47.255, 151.110), (19.776, 7.071), (0.502, 0.276), (10.814, 3.539)),
        ("ModelUnc", "MAP"): ((7.115, 24.843), (19.789, 9.048), (0.505, 0.227), (10.102, 5.008)),
        ("ModelUnc", "CVaR"): ((10.786, 28.001), (29.401, 9.099), (0.731, 0.277), (14.239, 7.146)),
        "Gibbs": ((1.000, 0.000), (2.054, 0.637), (129.296, 91.664)),
        "ModelUnc": ((0.826, 0.167), (52.008, 52.741), (139.366, 50.700)),
    },
    10: {
        ("Gibbs", "Mean"): ((24.881, 34.005), (13.547, 7.643), (0.451, 0.194), (33.400, 9.638)),
        ("Gibbs", "MAP"): ((0.345, 0.544), (20.456, 10.013), (0.464, 0.196), (36.569, 9.783)),
        ("Gibbs", "CVaR"): ((0.914, 1.638), (33.701, 6.918), (0.761, 0.196), (44.213, 10.041)),
        ("ModelUnc", "Mean"): ((20.446, 24.708), (13.826, 7.426), (0.449, 0.194), (33.362, 9.635)),
        ("ModelUnc", "MAP"): ((5.518, 13.223), (20.449, 9.899), (0.507, 0.178), (36.558, 9.203)),
        ("ModelUnc", "CVaR"): ((3.909, 9.061), (34.689, 6.427), (0.767, 0.197), (44.868, 9.266)),
        "Gibbs": ((1.000, 0.000), (1.505, 0.400), (607.938, 72.132)),
        "ModelUnc": ((0.841, 0.118), (21.433, 11.446), (617.107, 85.673)),
    },
}

#: Tables real2d (mean, SD) and VarImp real (mean)
REAL_IMPORTANCE: dict[int, dict[str, tuple[float, ...]]] = {
    2: {"Gibbs": (11.222, 16.498), "ModelUnc": (13.446, 15.656)},
    10: {
        "Gibbs": (6.475, 7.448, 6.560, 6.441, 6.652, 6.922, 11.673, 7.899, 6.292, 6.581),
        "ModelUnc": (6.443, 7.162, 6.482, 6.313, 6.814, 7.109, 11.723, 8.126, 6.562, 6.597),
    },
}

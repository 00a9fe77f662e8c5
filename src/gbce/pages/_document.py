"""One HTML document with everything in it: its data, its style, its script, and a policy that allows nothing else."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from gbce._validation import printable
from gbce.files import whole_file

__all__ = ["build_page", "read_assets", "write_page"]

# Characters that could end the element the data stand in, or a line of a script; JSON has another way to write each.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="gbce">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def build_page(
    title: str, payload: Mapping[str, Any], script_names: Sequence[str], style_names: Sequence[str], body: str
) -> str:
    """Return a page: a text that is one HTML document and asks for nothing beyond itself.

    Parameters
    ----------
    title : str
        Of the document; any text.
    payload : mapping
        Plain data, as strict JSON has them; the script finds them by ``readPayload()`` of common.js.
    script_names, style_names : sequence of str
        Files in ``gbce/pages/assets``, joined in this order to one ES module and one style sheet.
    body : str
        Markup of gbce's own. Nothing of a user's belongs in it: that is what the payload is for.

    Returns
    -------
    str
        The document. Its policy (CSP) allows the one script and the one style sheet by their hashes, and no request.

    Examples
    --------
    >>> page = build_page("a <b> title", {"name": "</script>"}, ["common.js"], ["page.css"], "<main></main>")
    >>> "a &lt;b&gt; title" in page, page.count("</script>")
    (True, 2)
    """
    script, style = (read_assets(names) for names in (script_names, style_names))
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    data = json.dumps(payload, allow_nan=False, separators=(",", ":")).translate(_ESCAPED)
    named = escape(printable(title))
    return _PAGE.format(policy=policy, title=named, style=style, body=body, data=data, script=script)


def write_page(page: str, path: str | Path) -> Path:
    """Write a page to a file, whole or not at all, and return its path.

    Raises
    ------
    OSError
        Where the file cannot be written; its message names the path.
    """
    where = Path(path)
    if where.is_dir():
        raise IsADirectoryError(f"to_html: {str(where)!r} is a folder; name a file in it, such as 'explorer.html'")
    if not where.parent.is_dir():
        raise FileNotFoundError(f"to_html: there is no folder {str(where.parent)!r}; make it, or name another path")
    with whole_file(where) as file:
        file.write(page.encode())
    return where


def read_assets(names: Sequence[str]) -> str:
    """Return files of the package, one after the other, with line ends as the browser sees them."""
    folder = files("gbce.pages") / "assets"
    text = "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
    return text.replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

"""Write the part of docs/howto/cli.md that is the help of every command: ``python docs/draw_cli.py``."""

from pathlib import Path

from gbce.cli._parser import write_page

PAGE = Path(__file__).parent / "howto" / "cli.md"
BEGIN, END = "<!-- help -->\n", "<!-- /help -->\n"


def with_help(text: str) -> str:
    """Return the page with the help as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{write_page()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_help(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

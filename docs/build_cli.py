"""Write docs/cli.md from the commands' own help; a test compares the two."""

from pathlib import Path

from click.testing import CliRunner

from coembed.cli import commands

PAGE = Path(__file__).parent / "cli.md"


def page() -> str:
    """The page: every command's help, in the order of ``coembed --help``."""
    parts = ["# Commands\n\nWritten by `docs/build_cli.py` from `--help`.\n"]
    for name in ["", *sorted(commands.commands)]:
        words = [name] if name else []
        result = CliRunner().invoke(commands, [*words, "--help"], prog_name="coembed")
        title = f"coembed {name}".strip()
        parts.append(f"## {title}\n\n```text\n{result.output.rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

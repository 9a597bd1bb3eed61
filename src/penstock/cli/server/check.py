"""``penstock check DIR``: checks a data directory for damage."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import screen
from penstock.cli.arguments import OutputOption
from penstock.cli.commands import example, new_app
from penstock.cli.progress import ProgressBar
from penstock.cli.text import counted, document_of, rounded_size

if TYPE_CHECKING:
    from penstock.log.maintenance.checking import Finding

app = new_app()

Directory = Annotated[str, typer.Argument(metavar="DIR", help="The data directory; stop the server first.")]


@app.command(epilog=example("penstock check data", "penstock check data -o json | jq .path"))
def check(directory: Directory, output: OutputOption = "table") -> int:
    """Read every file of a data directory and report damage.

    Changes nothing.  Exit code 1 if something is damaged.
    """
    # Only now: the broker is not needed by most commands.
    from penstock.broker.checking import examine_directory, size_of
    from penstock.log.files import ReadingFiles

    files = ReadingFiles()
    files.check_unused(f"{directory}/LOCK")
    size = size_of(files, directory)
    with ProgressBar(f"checking {directory}", total=size, unit="bytes") as progress:
        found = list(examine_directory(files, directory, progress.advance))
    damage = [finding for finding in found if not finding.note]
    if output == "json":
        screen.documents(map(document_of, found))
        return min(len(damage), 1)
    for finding in found:
        screen.line(within(directory, finding.path))
        screen.line(f"  {_location(finding)}{finding.why}{_remark(finding.derived)}")
    lost = sum(finding.offsets for finding in damage)
    verdict = (
        f"{counted(len(damage), 'damaged place')}, {counted(lost, 'offset')} cannot be read"
        if damage
        else "nothing is damaged"
    )
    screen.line(f"{rounded_size(size)} of logs checked: {verdict}")
    return min(len(damage), 1)


def within(directory: str, path: str) -> str:
    """A path as it is called within the data directory."""
    return path.removeprefix(directory.rstrip("/") + "/")


def _location(finding: "Finding") -> str:
    position = f"byte {finding.position}" if finding.end_position else ""
    match finding.offsets:
        case 0:
            offsets = ""
        case 1:
            offsets = f"offset {finding.first_offset}"
        case _:
            offsets = f"offsets {finding.first_offset} to {finding.end_offset - 1}"
    words = ", ".join(part for part in (position, offsets) if part)
    return f"{words}: " if words else ""


def _remark(derived: bool) -> str:
    return "; nothing is lost, it is rebuilt" if derived else ""

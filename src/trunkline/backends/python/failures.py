"""`blame`: the line of the user's code that keeps a file from being imported."""

import importlib
import traceback


def blame(error: BaseException, place: str) -> str:
    """Why `place` could not be imported, with the line to look at."""
    text = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, SyntaxError):
        # The text of a SyntaxError shows the file, the line and the position.
        return f"{place} could not be imported.\n{text}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_theirs(frame)]
    where = "".join(
        f"  {frame.filename}, line {frame.lineno}: {frame.line}\n" for frame in frames[-3:]
    )
    remedy = "Correct that, and start again."
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        remedy = f"Install {package} into this Python, or correct the import."
    elif isinstance(error, SystemExit):
        remedy = 'Put what ends the program below `if __name__ == "__main__":`.'
    return f"{place} could not be imported.\n{where}{text}\n{remedy}"


def _is_theirs(frame: traceback.FrameSummary) -> bool:
    ours = __file__.rpartition("failures")[0]
    library = importlib.__file__.rpartition("__init__")[0]
    return not frame.filename.startswith(("<frozen", ours, library))

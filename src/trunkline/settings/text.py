"""Reading a file that somebody has written."""

from pathlib import Path

from trunkline.model.errors import ConfigError


def read_text(file: Path, *, if_missing: str) -> str:
    """`if_missing` is what to do when there is no such file. Raises ConfigError."""
    try:
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: not UTF-8 at byte {error.start}. Save the file as UTF-8."
        ) from None
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file. {if_missing}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}.") from error

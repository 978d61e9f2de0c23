"""`trunkline version`."""

import platform

from trunkline.cli.options import Form, Output
from trunkline.version import VERSION


def version(output: Output = Form.text) -> None:
    """Print the version."""
    if output is Form.json:
        import json

        print(json.dumps({"version": VERSION, "python": platform.python_version()}))
    else:
        print(f"trunkline {VERSION}")

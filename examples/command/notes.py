"""Remembers: one message after the other, each ended by a line `---`, and so the answers."""

import sys

notes: list[str] = []
lines: list[str] = []
for line in sys.stdin:
    if line != "---\n":
        lines.append(line.rstrip("\n"))
        continue
    notes.append(" ".join(lines))
    lines = []
    print(f"So far: {', '.join(notes)}")
    print("---", flush=True)

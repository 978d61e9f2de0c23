"""A program that answers in plain text, and misbehaves when the message asks for it.

With `--end LINE` it goes on to the next message, and both sides end theirs with that line.
With `--prompt TEXT` that is the message.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    if "--prompt" in sys.argv:
        answer(sys.argv[sys.argv.index("--prompt") + 1])
        return
    if "--end" not in sys.argv:
        answer(sys.stdin.read())
        return
    end, said, number = sys.argv[sys.argv.index("--end") + 1], [], 0
    for line in sys.stdin:
        if line.rstrip("\n") != end:
            said.append(line)
            continue
        number += 1
        if (text := "".join(said).rstrip("\n")) == "count":
            say(str(number))
        else:
            answer(text)
        said = []
        say(f"\n{end}\n")


def answer(text: str) -> None:
    word, rest = ([*text.split(maxsplit=1), "", ""])[:2]
    match word:
        case "hang":
            say("begun\n")
            time.sleep(600)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say("begun\n")
            time.sleep(600)
        case "family":
            # A child of its own, which would outlive it.
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            say(f"{os.getpid()} {child.pid}")
            if rest != "leave":
                time.sleep(600)
        case "exit":
            print("what the operator should know, token=hush-hush", file=sys.stderr)
            say("so far")
            sys.exit(int(rest))
        case "die":
            say("so far")
            os.kill(os.getpid(), signal.SIGKILL)
        case "flood":
            while True:
                say("more and more " * 1000)
        case "close":
            say("so far")
            os.close(1)
            time.sleep(600)
        case "env":
            say("\n".join(sorted(f"{name}={value}" for name, value in os.environ.items())))
        case "cwd":
            say(os.getcwd())
        case "eat":
            say(str(len(bytearray(int(rest)))))
        case "files":
            named = [line[2:] for line in text.splitlines() if line.startswith("- /")]
            said = [
                (p.name, p.read_bytes(), oct(p.parent.stat().st_mode)) for p in map(Path, named)
            ]
            say(f"{said} in {[str(Path(name).parent) for name in named]}")
        case "cut":
            for byte in rest.encode():
                os.write(1, bytes([byte]))
        case _:
            say(f"You said {text.strip()}")


def say(text: str) -> None:
    print(text, end="", flush=True)


if __name__ == "__main__":
    main()

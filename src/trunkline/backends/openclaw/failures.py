"""What keeps OpenClaw from working for us: told to the caller in a sentence, to the log in full."""


class Trouble(Exception):
    """`told` is for the caller; `found` and `remedy` are for the operator. None holds a secret.

    What is lasting needs somebody to change something; anything else may pass.
    """

    def __init__(
        self,
        told: str,
        *,
        found: str,
        remedy: str = "",
        is_lasting: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(found)
        self.told = told
        self.found = found
        self.remedy = remedy
        self.is_lasting = is_lasting
        self.retry_after_s = retry_after_s


def unreachable(why: str) -> Trouble:
    return Trouble(
        "The agent cannot be reached now; send the message again later.",
        found=f"OpenClaw is not reachable: {why}",
        remedy="Start OpenClaw (`openclaw gateway run`), or correct the backend's `url`.",
    )


def misconfigured(found: str, remedy: str) -> Trouble:
    return Trouble(
        "The agent is not set up correctly; its operator has to correct that.",
        found=found,
        remedy=remedy,
        is_lasting=True,
    )

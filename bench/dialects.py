"""How a server names things on the wire: A2A 1.0, or fasta2a's own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    send: str = "SendMessage"
    stream: str = "SendStreamingMessage"
    get: str = "GetTask"
    list: str = "ListTasks"
    subscribe: str = "SubscribeToTask"
    user: str = "ROLE_USER"
    completed: str = "TASK_STATE_COMPLETED"
    headers: tuple[tuple[str, str], ...] = (("A2A-Version", "1.0"),)
    # A server that answers a send before the work is done is asked again, outside the window.
    answers_when_done: bool = True
    # The hard-coded answer knows nothing of the question.
    echoes: bool = True


A2A_1_0 = Dialect()
HARD_CODED = Dialect(echoes=False)

# fasta2a also takes the 1.0 names, by translating each request and answer to and from these.
# Its own names are the cheaper way in, so it is measured with them.
FASTA2A = Dialect(
    send="message/send",
    stream="message/stream",
    get="tasks/get",
    list="tasks/list",
    subscribe="tasks/resubscribe",
    user="user",
    completed="completed",
    headers=(),
    answers_when_done=False,
)

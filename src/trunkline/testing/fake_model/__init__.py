"""A model on loopback that does what the last user text says: for tests, no vendor needed.

It speaks OpenAI `POST /v1/chat/completions` and `POST /v1/responses`, `GET /v1/models`, and
Anthropic `POST /v1/messages` and `POST /v1/messages/count_tokens`; streamed or whole, as asked.

    async with FakeModel() as model:            # or: python -m trunkline.testing.fake_model
        ...                                     # model.url, model.requests

Text that begins with none of these words is said back, word by word. Otherwise each line is a
step (a line without a word of these is said):

    SAY text                 says it
    SLOW count ms            says this many words, `w0 w1 …`, with a pause before each
    TOOL name {json}         calls the tool; several lines call several at once. When results
                             come back it says `name gave: result` for each of them
    AGAIN name {json}        the same, and once more whenever a result comes back
    THINK text               reasons, which is not part of the answer
    LENGTH, FILTER           ends because the answer got too long, or is not allowed
    ENDLESS [ms]             says `more ` for ever
    FLOOD bytes              says this many bytes as fast as the client reads
    HANG                     says nothing more and stays connected
    CUT                      closes the connection in the middle
    GARBAGE                  writes what is not JSON where JSON belongs
    ERROR text               reports an error in the middle of the stream
    FAIL status [after s] [times n]   as the first step: answers with the status, with
                             `Retry-After: s`; with n, only the first n times that it is
                             asked this, and says `recovered` from then on
    HTML                     as the first step: answers with a page

Nothing at all (an empty text) is answered with `(nothing)`. What OpenClaw, Claude Code and
Codex wrap around the user's text is taken off first (`asked.py`).

A model whose name begins with `missing` does not exist. With `api_key`, requests need it, as
bearer or in `x-api-key`. `GET /requests` is the record of what was asked, as JSON, with what
became of each: `answering`, `answered`, `refused`, `cut` (by a script), or `closed` when the
client went away before the end. `DELETE /requests` forgets them.
"""

from trunkline.testing.fake_model.server import FakeModel, SeenRequest

__all__ = ["FakeModel", "SeenRequest"]

"""A gateway that replays the frames of OpenClaw 2026.9.6 or 2026.5.28, as a process of its own.

Its model is the script language of `trunkline.testing.fake_model`, so that a test says the same
words to the fake and to the real one; `./check --openclaw` runs the same tests against both.
`gateway` (sessions and runs), `access` (who gets in), `methods` (what can be called), `server`
(sockets and HTTP), `__main__`.
"""

"""The checks behind `trunkline.testing.check_store`, by subject.

Every public coroutine in these modules is a check: one that takes `store` gets a new open store,
one that takes `make` opens a durable store more than once. `kit` builds appends and waits for
them. Imports `model` and `ports` only.
"""

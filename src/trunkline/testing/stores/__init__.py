"""The checks behind `trunkline.testing.check_store`, by subject.

`kit` builds appends and waits for them; the other modules hold one check per promise of
`trunkline.ports.store`. Imports `model` and `ports` only.
"""

"""Where tasks are kept: one module or package per store, each passing `check_store`.

Imports `ports` and `model` only. Read `heads` (what every store checks before it
appends), then `memory` (the contract without a disk), then `sqlite`.
"""

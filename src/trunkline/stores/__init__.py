"""Where tasks are kept: one module or package per store, each passing `check_store`.

Imports `ports` and `model`, and `runtime` for background work; `jsonfile` also the shapes of
A2A 0.3 and the fold, for the records that others read. Read `heads` (what every store checks
before it appends), `large_appends` (those that wait for their large values), `index`, then
`memory` (the contract without a disk), then `sqlite` and `jsonfile`.
"""

"""Stores of tasks: one module or package per store, each passing `check_store`.

Imports `ports`, `model` and `background`; `jsonfile` also the shapes of A2A 0.3 and the fold,
for the records that other programs read. Read `commits` (the steps that every store takes for a
commit), `indexes` (tasks, exchanges and notes in memory), `memory` (the contract without a
disk), `large_appends` (appends that wait for their large values), then `sqlite` and `jsonfile`.
`health` says whether a store takes changes, `locks` keep it to one process, `findings` are the
result of a check.
"""

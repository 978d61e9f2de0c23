"""The cases of `tests/bindings` once more, with a relay between the client and the agent."""

import inspect

from tests.bindings import (
    test_cancel,
    test_data_model,
    test_errors,
    test_idempotency,
    test_large_answers,
    test_list,
    test_operations,
    test_send,
    test_streaming,
    test_versions,
)

NOT_HERE = {
    # At an address of its own.
    "test_rest_answers_plain_json_unless_the_client_names_the_other_type",
    # It reads the task before the client's next request, which takes longer here.
    "test_a_task_goes_on_when_its_only_client_leaves",
}

for module in (
    test_cancel,
    test_data_model,
    test_errors,
    test_idempotency,
    test_large_answers,
    test_list,
    test_operations,
    test_send,
    test_streaming,
    test_versions,
):
    for name, case in vars(module).items():
        # The others open a gateway of their own.
        if name in NOT_HERE or not name.startswith("test_"):
            continue
        if "client" in inspect.signature(case).parameters:
            globals()[f"{name}__{module.__name__.rpartition('_')[2]}"] = case

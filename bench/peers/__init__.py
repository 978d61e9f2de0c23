"""The servers Trunkline is compared with: each an echo agent as its documentation would write it."""
